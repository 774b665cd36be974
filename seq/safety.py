"""Two limits a policy or a robot may apply itself. They narrow a command; they do not make it safe."""

from __future__ import annotations

from collections.abc import Sequence


def clip(values: Sequence[float], bounds: Sequence[tuple[float, float]]) -> list[float]:
    """`values`, each moved into its `(low, high)`; raises ValueError unless there is one pair a value."""
    if len(values) != len(bounds):
        raise ValueError(f"{len(values)} values and {len(bounds)} bounds; give one (low, high) a value")
    return [min(max(value, low), high) for value, (low, high) in zip(values, bounds, strict=True)]


def limit_step(previous: Sequence[float], target: Sequence[float], max_delta: float | Sequence[float]) -> list[float]:
    """`target`, each value at most `max_delta` (one number, or one a value) away from `previous`."""
    deltas = list(max_delta) if isinstance(max_delta, Sequence) else [max_delta] * len(target)
    if not len(previous) == len(target) == len(deltas):
        raise ValueError(
            f"{len(previous)} previous values, {len(target)} targets, {len(deltas)} deltas; give as many of each"
        )
    if any(not delta > 0 for delta in deltas):
        raise ValueError(f"max_delta is {max_delta}; every value must be above 0")
    bounds = [(value - delta, value + delta) for value, delta in zip(previous, deltas, strict=True)]
    return clip(target, bounds)
