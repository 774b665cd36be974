"""toy-adapter: toy-benchmark's observations in toy-policy's words, and its answer as the benchmark's steps."""

from __future__ import annotations

from typing import Any

import seq


def _delta_to_step(answer: dict[str, Any]) -> list[list[float]]:
    """The policy's `{"delta": [[dx], ...]}` as rows (n, 1); both are metres in one control step."""
    return answer["delta"]


@seq.adapter(name="toy-adapter")
class ToyAdapter(seq.Adapter):
    """Lossless both ways."""

    policy_io = "own"  # infer gets what obs() returns, and action() gets what infer returns
    obs_transforms = [seq.tf.rename({"arm_x": "state", "goal_x": "goal"})]
    action_transforms = [seq.tf.custom("delta_to_step", _delta_to_step, lossless=True)]
