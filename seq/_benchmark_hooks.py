"""The decorators of a benchmark's methods. They only mark."""

from __future__ import annotations

from seq._marks import Method, mark


def setup(method: Method) -> Method:
    """Marks `(self, *, params...)`, batched `(self, envs, *, params...)`: once per instance, before any episode."""
    return mark(method, "setup")


def reset(method: Method) -> Method:
    """Marks `(self, seed, variant)`, which returns an environment; batched `(self, slots, conditions)`."""
    return mark(method, "reset")


def observation(method: Method) -> Method:
    """Marks the batched `(self, slots)`: one observation per slot."""
    return mark(method, "observation")


def step(method: Method) -> Method:
    """Marks the batched `(self, slots, actions)`: one control step of these slots."""
    return mark(method, "step")


def check(method: Method) -> Method:
    """Marks `(self, env)`, which returns a `seq.Step` after every step; batched `(self, slots)`, one per slot."""
    return mark(method, "check")


def score(method: Method) -> Method:
    """Marks `(self, results)`: a dict of numbers for a group of finished episodes, last of all."""
    return mark(method, "score")
