"""Building an observation, and holding it against a contract."""

import re
import warnings

import numpy as np
import pytest

from sequence_ai import ImageFrame, InvalidRequest, Observation, Proprioception, observation
from sequence_ai._contract import newest_frames

CONTRACT = {
    "cameras": {"wrist": {"width": 8, "height": 8}, "front": {"width": 8, "height": 8, "depth": True}},
    "history": 1,
    "proprio": {"joint_positions": 7, "gripper": 1},
    "state": {"force": 3},
    "instruction": True,
}


def build(**changes):
    fitting = {
        "images": {"wrist": b"w", "front": b"f"},
        "depth": {"front": b"d"},
        "joints": [0.0] * 7,
        "gripper": [1.0],
        "state": {"force": [0, 0, 0]},
        "instruction": "pick up the cup",
        "contract": CONTRACT,
    }
    return observation(**{**fitting, **changes})


def test_arguments_become_the_wires_fields():
    """Joints, gripper, state and frames land in their own fields, as plain numbers."""
    seen = observation(
        images={"wrist": b"w"}, instruction="go", joints=np.arange(2), gripper=(0.5,), state={"f": [1]}, timestamp_ms=7
    )
    assert seen == Observation(
        [ImageFrame("wrist", b"w", 7)], Proprioception([0.0, 1.0], gripper=[0.5]), "go", {"f": [1.0]}
    )


def test_a_fitting_observation_passes_in_silence():
    """What the contract declares raises and warns nothing, with the whole contract or its observation part."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build() == build(contract={"action": None, "observation": CONTRACT, "embodiment": None})
        assert build(contract={"action": None, "observation": None, "embodiment": None}).images


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"images": {"wrist": b"w"}}, r"missing view\(s\) \['front'\].*refused"),
        ({"depth": None}, r"missing depth frame\(s\) of view\(s\) \['front'\]"),
        ({"contract": {**CONTRACT, "history": 2}}, r"view 'front' has 1 frame\(s\)"),
        ({"joints": [0.0] * 8, "gripper": None}, r"joint_positions has 8.*gripper is missing"),
        ({"joints": None}, "joint_positions is missing"),
        ({"state": None}, r"state\['force'\] is missing"),
        ({"state": {"force": [1, 2]}}, r"state\['force'\] has 2"),
        ({"instruction": "  "}, "instruction is empty"),
    ],
)
def test_what_the_worker_would_refuse_is_refused_here(changes, says):
    """Each mismatch is named, field by field, and raises; with strict=False it warns instead."""
    with pytest.raises(InvalidRequest, match=says):
        build(**changes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(**changes, strict=False)
    assert re.search(says, "; ".join(str(warning.message) for warning in caught))
    assert {warning.filename for warning in caught} == {__file__}


def test_an_undeclared_camera_is_dropped_with_its_name():
    """A camera that the policy does not read is left out, and a warning at the caller's line names it."""
    with pytest.warns(UserWarning, match=r"\['ceiling'\].*dropped"):
        seen = build(images={"wrist": b"w", "front": b"f", "ceiling": b"c"})
    assert {frame.view for frame in seen.images} == {"wrist", "front"}


def test_an_instruction_may_be_waived():
    """A policy that needs no sentence accepts an empty one."""
    assert build(instruction="", contract={**CONTRACT, "instruction": False}).instruction == ""


@pytest.mark.parametrize("images", [[b"w"], b"w", None])
def test_images_must_be_named(images):
    """Frames without a camera's name are a TypeError."""
    with pytest.raises(TypeError, match="dict of camera name to frame"):
        observation(images=images, instruction="go")


@pytest.mark.parametrize("joints", [[float("nan")], [[1.0]], ["a"], 3.0])
def test_joints_must_be_finite_numbers(joints):
    """NaN, nested lists and text are refused by the argument's name."""
    with pytest.raises(InvalidRequest, match="joints"):
        observation(images={}, instruction="go", joints=joints)


def test_only_the_newest_frames_of_each_camera_are_kept():
    """The newest by timestamp are kept, oldest first; frames without one keep their order and count as newest."""
    frames = [ImageFrame("a", b"2", 20), ImageFrame("a", b"?"), ImageFrame("a", b"1", 10), ImageFrame("b", b"x", 5)]
    depth = ImageFrame("a", b"d", 1, "depth")
    assert newest_frames([*frames, depth], 2) == [frames[0], frames[1], frames[3], depth]


def test_a_camera_may_give_several_frames():
    """A list of frames, oldest first, is the camera's history."""
    seen = observation(images={"a": [b"1", b"2"]}, instruction="go")
    assert [frame.bytes for frame in seen.images] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("wrong", "kind", "match"),
    [
        ({"instruction": None}, TypeError, "instruction is a NoneType"),
        ({"instruction": b"go"}, TypeError, "instruction is a bytes"),
        ({"state": [1, 2]}, TypeError, "state must be a dict"),
        ({"contract": [1]}, TypeError, "contract must be"),
        ({"joints": "1234567"}, InvalidRequest, "joints is text"),
    ],
)
def test_everyday_mistakes_are_told_in_a_sentence(wrong, kind, match):
    """What an argument must be is said where it was given, not where it is used."""
    with pytest.raises(kind, match=match):
        observation(**{"images": {}, "instruction": "go", **wrong})
