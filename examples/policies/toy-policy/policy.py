"""toy-policy: drives a point along a line to where it is told. The smallest policy that does something."""

from __future__ import annotations

from typing import Any

import seq

MAX_SPEED = 0.5  # of the point, m/s
CONTROL_HZ = 10


@seq.policy(
    name="toy-policy",
    gpu="cpu",
    io="{state, goal} -> {delta}",  # what infer reads and answers, for whoever writes an adapter
)
class ToyPolicy(seq.Policy):
    """Answers with rows (1,): how far to move in one control step of 0.1 s, in metres."""

    @seq.infer
    def infer(self, obs: dict[str, Any], *, rows: int = 5) -> dict[str, list[list[float]]]:
        """`state` and `goal` are positions on the line in metres, one number each."""
        position, goal = float(obs["state"][0]), float(obs["goal"][0])
        step = MAX_SPEED / CONTROL_HZ
        deltas = []
        for _ in range(rows):
            delta = min(max(goal - position, -step), step)
            position += delta
            deltas.append([delta])
        return {"delta": deltas}
