"""Wrong content, from the robot and from the policy: a sentence, the right class, and a robot that holds."""

import base64
import re
import warnings

import httpx
import numpy as np
import pytest

import sequence_ai
from sequence_ai import InvalidRequest, PolicyError, SequencesError, Unavailable
from sequence_ai.testing import FakePlatform, FakeRobot, chunk
from tests.e2e.driving import EPISODE, driving, ended, held, labels, seen, sound
from tests.e2e.driving import deployed as deploy
from tests.supports.frames import FRAME


@pytest.fixture(scope="module")
def platform(shared):
    return deploy(shared)


@pytest.fixture
def drive(platform):
    with driving(platform) as made:
        made.policy.predict(seen(0))
        yield made


def observed(**changes):
    given = {"images": {"front": FRAME}, "joints": [1.0], "instruction": "count"}
    return lambda number: sequence_ai.observation(**{**given, **changes})


# From the policy


@pytest.mark.parametrize("at", [1, 2], ids=["first", "mid-run"])
@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        ("nan", PolicyError, "row 9, dimension 6 is nan"),
        ("short", PolicyError, "row 9 has 6 values; action_dim is 7"),
        ("text", PolicyError, "row 9, dimension 6 is '0.5'"),
        ("empty", PolicyError, "no rows"),
        ("raise", ValueError, "the gripper model is gone"),
    ],
)
def test_what_a_policy_gets_wrong_never_reaches_the_arm(drive, fault, error, says, at):
    """The worker refuses the chunk with a sentence; the rows before it were played, none of it was, and hold came."""
    with pytest.raises(error, match=re.escape(says)):
        drive.run(40, episode_id=EPISODE, params={"fault": fault, "at": at})
    assert drive.policy.outcome.reason == f"raised:{error.__name__}"
    held(drive.robot)
    assert {label.look for label in labels(drive.robot)} <= set(range(at))
    assert len(drive.robot.played) <= 10 * (at - 1)
    sound(drive.robot)
    assert drive.asked().row == 0


def test_a_policy_that_sleeps_past_its_timeout(drive):
    """After the declared 3 s the act is refused with `timeout`, the robot holds, and the worker goes on serving."""
    with pytest.raises(Unavailable, match="infer took over 3 s") as raised:
        drive.run(40, episode_id=EPISODE, params={"sleep_s": 5.0, "sleep_at": 2})
    assert raised.value.code == "timeout"
    held(drive.robot)
    assert {label.look for label in labels(drive.robot)} == {1}
    assert ended(drive)


BAD_ROWS = {
    "NaN": b"[NaN, 0.0]",
    "infinity": b"[0.0, -Infinity]",
    "too many": b"[0.0, 0.0, 0.0]",
    "too few": b"[0.0]",
    "text": b'["0.5", 0.0]',
    "nothing": b"[null, 0.0]",
    "nested": b"[[0.0], 0.0]",
    "true": b"[true, 0.0]",
    "huge": b"[1e999, 0.0]",
}


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_worker_that_lets_a_bad_row_through_moves_no_arm(row):
    """The client itself refuses a chunk whose rows are not finite numbers of the declared length, whoever sent it."""
    platform, robot = FakePlatform(), FakeRobot()
    with platform.served() as server:
        platform.connect["worker_url"] = server.url
        good = chunk([[0.0, 0.0], [0.1, 0.1]], hz=50)
        bad = httpx.Request("POST", server.url, json={"action_chunk": good}).read().replace(b"[0.1,0.1]", row)
        bad = bad.replace(b"[0.1, 0.1]", row)
        assert row in bad
        platform.infer = lambda _: {"action_chunk": good}
        with sequence_ai.connect("toy", base_url=server.url, api_key=platform.key) as policy:
            policy.predict(robot.observe())
            platform.answer_next("/act", httpx.Response(200, content=bad))
            with pytest.raises(SequencesError):
                policy.run(**robot.callables, max_actions=10, progress=False)
        held(robot)
        assert robot.played == []


# From the robot


@pytest.mark.parametrize(
    ("look", "error", "says"),
    [
        (observed(images={}), InvalidRequest, "'front' is missing"),
        (observed(images={"forward": FRAME}), InvalidRequest, "'front' is missing"),
        (observed(joints=[1.0, 2.0]), InvalidRequest, "joint_positions has 2 values of 1"),
        (observed(joints=[], gripper=[1.0]), InvalidRequest, "joint_positions has 0 values of 1"),
        (observed(instruction=""), InvalidRequest, "instruction is empty"),
        (observed(images={"front": "a cup on a table"}), InvalidRequest, "base64"),
        (observed(images={"front": base64.b64encode(b"hello").decode()}), InvalidRequest, "base64 of a JPEG or PNG"),
        (observed(joints=[float("nan")]), InvalidRequest, "NaN"),
    ],
    ids=["no camera", "renamed", "8 is not 7+1", "folded", "no instruction", "text", "text in base64", "NaN"],
)
def test_a_wrong_observation_is_refused_and_the_robot_holds(drive, look, error, says):
    """What the policy cannot read is refused by name before it infers anything, at the first act as in mid-run."""
    before = drive.asked().request
    for good_looks in (0, 1):
        robot = FakeRobot(look=lambda number, good=good_looks: seen(number) if number <= good else look(number))
        object.__setattr__(drive, "robot", robot)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the client says it too
            with pytest.raises(error, match=re.escape(says)):
                drive.run(40, episode_id=EPISODE)
        held(robot)
        assert len(robot.played) <= 10 * good_looks
    assert drive.asked().request == before + 2


@pytest.mark.parametrize("look", [observed(images={}), observed(joints=[1.0, 2.0])], ids=["camera", "joints"])
def test_strict_refuses_before_anything_is_sent(platform, look):
    """With validate="strict" the same is raised by the client, and the worker hears nothing of it."""
    with driving(platform, validate="strict") as drive:
        before = drive.asked().request
        object.__setattr__(drive, "robot", FakeRobot(look=look))
        with pytest.raises(InvalidRequest, match="would refuse"):
            drive.run(40)
        held(drive.robot)
        assert drive.asked().request == before + 1


def test_one_camera_too_many_is_named_and_does_no_harm(drive):
    """A camera that nobody declared is warned of by name; the run goes on."""
    object.__setattr__(drive, "robot", FakeRobot(look=observed(images={"front": FRAME, "ceiling": FRAME})))
    with pytest.warns(UserWarning, match="ceiling"):
        outcome = drive.run(10)
    assert outcome.reason == "completed"


def test_a_frame_of_twenty_megabytes_arrives(drive):
    """A frame far larger than any camera's is sent and answered; a robot that sends it is slow, not broken."""
    large = FRAME + bytes(20 << 20)
    object.__setattr__(drive, "robot", FakeRobot(look=observed(images={"front": large})))
    outcome = drive.run(10)
    assert (outcome.reason, outcome.actions) == ("completed", 10)


@pytest.mark.parametrize(
    "frame",
    [
        np.zeros((8, 8, 3)),
        np.zeros((8, 8, 3), np.int64),
        np.zeros((8, 8, 3), np.float32),
        np.zeros((8, 8, 5), np.uint8),
        np.zeros((8,), np.uint8),
        np.zeros((0, 8, 3), np.uint8),
        [[0, 0], [0, 0]],
        None,
    ],
    ids=["float64", "int64", "float32", "five channels", "flat", "empty", "list", "none"],
)
def test_a_frame_of_the_wrong_type_is_refused_where_it_is_made(drive, frame):
    """What is no picture is no frame: the error is raised in `observe`, with `hold`."""
    object.__setattr__(drive, "robot", FakeRobot(look=observed(images={"front": frame})))
    with pytest.raises(InvalidRequest, match="frame"):
        drive.run(10)
    held(drive.robot)
    assert drive.robot.played == []


def test_red_stays_red():
    """The patch that was red in the robot's array, image or file is red in what the policy's array shows."""
    pillow = pytest.importorskip("PIL.Image")
    array = np.zeros((16, 16, 3), np.uint8)
    array[..., 0] = 220
    for frame in (
        array,
        pillow.fromarray(array),
        sequence_ai.encode(array),
        base64.b64decode(sequence_ai.encode(array)),
    ):
        made = sequence_ai.observation(images={"front": frame}, joints=[0.0], instruction="go").images[0].array()
        red, _, blue = made[8, 8].astype(int)
        assert red - blue > 150


# What is played of a chunk


def test_a_declared_horizon_is_played_and_no_more(drive):
    """Of fifteen rows with a replan after eight, rows 0 to 7 are played, then those of the next chunk."""
    outcome = drive.run(24, params={"rows": 15, "horizon": 8})
    assert [label.row for label in labels(drive.robot)] == [*range(8)] * 3
    assert outcome.chunks == 3


def test_only_an_explicit_horizon_overrides_it(drive):
    """`open_loop_horizon=` plays as many rows as it says; next_action keeps to the chunk's own."""
    drive.run(24, params={"rows": 15, "horizon": 8}, open_loop_horizon=12)
    assert [label.row for label in labels(drive.robot)] == [*range(12)] * 2
    rows = [drive.policy.next_action(seen(0), params={"rows": 15, "horizon": 8})[2] for _ in range(16)]
    assert rows == [*range(8)] * 2
