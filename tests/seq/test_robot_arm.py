"""The robot-arm preset reads and writes the wire's shapes."""

import base64

import numpy as np
import pytest

import seq
from seq.presets.robot_arm import ActionChunk, ActionStep, Observation
from seq.testing import synthetic_observation
from sequence_ai import ImageFrame

CONTRACT = seq.ObservationContract(
    cameras={"front": seq.Camera(width=32, height=24)},
    history=2,
    proprio={"joint_positions": 2, "gripper": 1},
    state={"goal": 3},
)


def test_an_observation_survives_the_wire():
    """What `from_wire` reads, `to_wire` writes alike, and a synthetic observation has every declared part."""
    body = synthetic_observation(CONTRACT)

    observation = Observation.from_wire(body)

    assert observation.to_wire() == body
    assert len(observation.images) == 2
    assert observation.view("front").array().shape == (24, 32, 3)
    assert not observation.view("front").array().any()
    assert observation.proprioception.gripper == [0.0]


def test_the_newest_colour_frame_is_the_view():
    """Depth is another kind, and time decides."""

    def frame(data, at, kind=None):
        return {
            "view": "front",
            "data": base64.b64encode(data).decode(),
            "timestamp_ms": at,
            **({"kind": kind} if kind else {}),
        }

    body = {
        "images": [frame(b"new", 2), frame(b"old", 1), frame(b"depth", 3, "depth")],
        "proprioception": {"joint_positions": []},
    }

    assert Observation.from_wire(body).view("front").bytes == b"new"
    with pytest.raises(KeyError, match="front"):
        Observation.from_wire(body).view("wrist")


@pytest.mark.parametrize(
    "body",
    [
        {"images": []},
        {"images": [{"view": "a"}], "proprioception": {"joint_positions": []}},
        {"images": [], "proprioception": {"joint_positions": [], "wings": []}},
    ],
)
def test_a_malformed_observation_is_named(body):
    """A missing or unknown part is a ValueError that names it."""
    with pytest.raises(ValueError, match=r"proprioception|ImageFrame|wings"):
        Observation.from_wire(body)


def test_a_chunk_takes_rows_in_either_form():
    """Plain rows, numpy rows and `ActionStep`s become indexed rows; unset parts are left to the worker."""
    chunk = ActionChunk(steps=[[1.0, 2.0], ActionStep(1, [3.0, 4.0])], open_loop_horizon=1)

    body = chunk.to_wire()

    assert body == {
        "steps": [{"index": 0, "values": [1.0, 2.0]}, {"index": 1, "values": [3.0, 4.0]}],
        "open_loop_horizon": 1,
    }
    assert ActionChunk.from_wire(body).to_wire() == body
    assert ActionChunk(steps=np.zeros((1, 2))).to_wire()["steps"] == [{"index": 0, "values": [0.0, 0.0]}]
    assert ActionChunk.from_wire({"steps": [[5.0]]}).steps == [ActionStep(0, [5.0])]
    with pytest.raises(ValueError, match="no 'steps'"):
        ActionChunk.from_wire({})


def test_frames_are_the_clients():
    """One type of frame on both sides."""
    assert isinstance(Observation.from_wire(synthetic_observation(CONTRACT)).images[0], ImageFrame)
