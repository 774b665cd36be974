"""When the acts that wait go to a `@seq.batched` policy together. Pure."""

from __future__ import annotations

from dataclasses import dataclass

EVAL_WAIT_S = 0.02
LONGEST_EVAL_WAIT_S = 0.25
LONGEST_ASKED_WAIT_S = 1.0


@dataclass(frozen=True)
class Batching:
    """At most `most` acts go together, once nothing came for `quiet_s`, or the first of them waited `longest_s`."""

    most: int = 1
    quiet_s: float = 0.0
    longest_s: float = 0.0

    def due(self, count: int, first: float, last: float) -> float:
        """When `count` acts that came between `first` and `last` go to a free copy."""
        if count >= self.most:
            return first
        return min(last + self.quiet_s, first + self.longest_s)


def for_evals(most: int, wait_ms: int | None) -> Batching:
    """An eval's environments ask at about the same time: it is worth waiting for the last of them."""
    quiet = EVAL_WAIT_S if wait_ms is None else wait_ms / 1000
    return Batching(most, quiet, max(LONGEST_EVAL_WAIT_S, min(quiet, LONGEST_ASKED_WAIT_S)))


def for_robots(most: int, wait_ms: int | None, *, crowded: bool) -> Batching:
    """A robot waits only where it was declared, and where more robots than copies may be there (`crowded`)."""
    wait = (wait_ms or 0) / 1000 if crowded else 0.0
    return Batching(most, wait, wait)
