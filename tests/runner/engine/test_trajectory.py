"""A trajectory's file: what was seen when the policy was asked, and what was played."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from runner.engine.trajectory import Trajectory, without_images


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_what_was_seen_is_kept_though_the_environment_changes_it_in_place(tmp_path: Path) -> None:
    """Simulators answer views of their state, which the next step overwrites."""
    path = tmp_path / "0" / "1" / "trajectory.jsonl.gz"
    trajectory, state = Trajectory(path), np.zeros(3)
    for act in range(2):
        state[:] = act
        trajectory.asked(act, 7 + act, 2 * act, {"state": state})
        trajectory.pack()
        trajectory.answered(np.full((2, 1), act))
        state[:] = 99
    trajectory.finish({"steps": 4})
    assert written(path) == [
        {"act": 0, "seed": 7, "step": 0, "observation": {"state": [0, 0, 0]}, "actions": [[0], [0]]},
        {"act": 1, "seed": 8, "step": 2, "observation": {"state": [1, 1, 1]}, "actions": [[1], [1]]},
        {"end": {"steps": 4}},
    ]


def test_what_was_seen_is_kept_where_nobody_had_time_to_write(tmp_path: Path) -> None:
    """An answer without a call of `pack` before it."""
    path, state = tmp_path / "trajectory.jsonl.gz", np.zeros(1)
    trajectory = Trajectory(path)
    trajectory.asked(0, 0, 0, state)
    trajectory.answered(np.ones((1, 1)))
    state[:] = 99
    trajectory.finish({})
    assert written(path)[0]["observation"] == [0]


def test_rows_that_were_not_played_are_left_out(tmp_path: Path) -> None:
    """The episode ended in the middle of a chunk, or before the policy answered."""
    path = tmp_path / "trajectory.jsonl.gz"
    trajectory = Trajectory(path)
    trajectory.asked(0, 0, 0, 1.0)
    trajectory.answered(np.ones((5, 2)))
    trajectory.played(3)
    trajectory.finish({})
    assert written(path)[0]["actions"] == [[1, 1]] * 3
    unanswered = Trajectory(path)
    unanswered.asked(0, 0, 0, 1.0)
    unanswered.finish({"error": "the policy failed"})
    assert written(path) == [
        {"act": 0, "seed": 0, "step": 0, "observation": 1.0},
        {"end": {"error": "the policy failed"}},
    ]


def test_frames_are_left_out() -> None:
    """They belong into a recording."""
    seen = without_images({"images": [b"..."], "state": [1], "depth": np.zeros((2, 2, 1), np.float32)})
    assert seen == {"state": [1], "depth": {"array": [2, 2, 1], "dtype": "float32"}}
