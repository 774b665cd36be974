"""panda-joints hands a policy all that panda-tabletop shows, and its rows back untouched."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

import seq


def _load() -> ModuleType:
    path = Path(__file__).with_name("adapter.py")
    spec = importlib.util.spec_from_file_location("panda_joints", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


adapter = _load()
SHOWN = {
    "front_image": np.full((224, 224, 3), 1, dtype=np.uint8),
    "wrist_image": np.full((224, 224, 3), 2, dtype=np.uint8),
    "joint_positions": np.arange(7.0),
    "gripper": np.array([0.085]),
    "cube_pos": np.array([0.5, 0.1, 0.02]),
    "cube_quat": np.array([1.0, 0, 0, 0]),
    "block_pos": np.array([0.5, -0.1, 0.02]),
    "block_quat": np.array([1.0, 0, 0, 0]),
    "goal_pos": np.array([0.5, 0.0, 0.02]),
    "instruction": "Push the red cube onto the green disc.",
}


def test_is_a_valid_lossless_declaration():
    """The class carries an adapter's registration and speaks the robot-arm form."""
    assert seq.adapter_registration(adapter.PandaJoints) is not None
    assert adapter.PandaJoints.policy_io == "robot_arm"


def test_observation_has_the_keywords_of_the_clients_observation():
    """Frames by camera, joints and opening as plain numbers, poses under `state`, the sentence as it is."""
    seen = adapter.PandaJoints().obs(SHOWN)

    assert set(seen) == {"images", "joints", "gripper", "state", "instruction"}
    assert {view: int(frame[0, 0, 0]) for view, frame in seen["images"].items()} == {"front": 1, "wrist": 2}
    assert (seen["joints"], seen["gripper"]) == ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.085])
    assert {name: len(vector) for name, vector in seen["state"].items()} == {
        "cube_pos": 3,
        "cube_quat": 4,
        "block_pos": 3,
        "block_quat": 4,
        "goal_pos": 3,
    }
    assert seen["instruction"] == SHOWN["instruction"]


def test_observation_leaves_the_benchmarks_own_alone():
    """The same observation may be read again."""
    before = dict(SHOWN)
    adapter.PandaJoints().obs(SHOWN)

    assert before == SHOWN


def test_rows_pass_unchanged():
    """A chunk (rows, 8) comes out as it went in."""
    rows = np.random.default_rng(0).normal(size=(16, 8))

    assert np.array_equal(adapter.PandaJoints().action(rows), rows)
