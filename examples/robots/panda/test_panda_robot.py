"""The simulated Panda's parts, without a simulator: its controller, its pace, its messages, its driver's checks."""

import contextlib
import itertools
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # as for `python drive.py`, whose files these are

import drive
import simulator
from controller import JOINT_SPEEDS, Controller, Mode, RefusedError, limits
from drive import Report, Story
from journal import Journal, Log, read_log
from launch import NotStartedError
from pace import LOST_S, Pace
from picture import draw
from robot import FURTHEST, JOINT_BOUNDS, OPENINGS, why_not
from wire import GoneError, Inbox, WrongRequestError, done, pack

import sequence_ai
from sequence_ai.testing import FakePlatform, error

HOME = [0.0, -0.30, 0.0, -2.35, 0.0, 2.05, 0.785, 0.085]
PERIOD_S, WATCHDOG_S, RAMP_S = 0.05, 0.5, 0.15
TICK_S = 0.001


class Arm:
    """A controller on a clock of its own, which only ticks."""

    def __init__(self):
        self.told = []
        self.now = 0.0
        self.controller = Controller(
            HOME,
            limits([*JOINT_BOUNDS, OPENINGS]),
            period_s=PERIOD_S,
            watchdog_s=WATCHDOG_S,
            ramp_s=RAMP_S,
            told=lambda event, why: self.told.append((event, why)),
        )

    def send(self, joint=0, to=0.0, opening=0.085):
        row = [*HOME[:7], opening]
        row[joint] = to
        self.controller.command(row, self.now)

    def wait(self, seconds):
        """The setpoints on the way, one a millisecond."""
        passed = []
        for _ in range(round(seconds / TICK_S)):
            self.now += TICK_S
            passed.append(self.controller.tick(TICK_S, self.now).copy())
        return passed


@pytest.fixture
def arm():
    return Arm()


def speeds(setpoints, joint=0):
    return [(b[joint] - a[joint]) / TICK_S for a, b in itertools.pairwise(setpoints)]


def test_a_row_is_glided_to_within_one_control_period(arm):
    """The setpoint leaves at once, never leaps, and is there when the next row is due."""
    arm.send(to=0.05)
    way = arm.wait(PERIOD_S)

    assert way[0][0] == pytest.approx(0.001)
    assert way[-1][0] == pytest.approx(0.05)
    assert max(map(abs, speeds(way))) <= JOINT_SPEEDS[0]


def test_a_far_row_is_followed_no_faster_than_the_joint_may_turn(arm):
    """A leap of half a radian becomes a glide at the joint's top speed."""
    arm.send(to=0.5)
    way = arm.wait(1.0)

    assert max(speeds(way)) <= JOINT_SPEEDS[0] + 1e-9
    assert way[99][0] < 0.5
    assert arm.controller.setpoint[0] != pytest.approx(0.0)


def test_a_row_beyond_a_joint_is_brought_to_its_bound(arm):
    """Whatever the driver let through, no setpoint leaves the arm's own bounds."""
    arm.send(joint=3, to=0.5)
    for _ in range(100):
        arm.send(joint=3, to=0.5)
        arm.wait(PERIOD_S)

    assert arm.controller.setpoint[3] == pytest.approx(JOINT_BOUNDS[3][1])


@pytest.mark.parametrize("row", [[0.0] * 7, [math.nan] * 8, [math.inf] + [0.0] * 7])
def test_what_is_no_row_is_refused_and_moves_nothing(arm, row):
    """Seven numbers, NaN and infinity are answered with a sentence; the mode stays."""
    with pytest.raises(RefusedError, match="8 finite numbers"):
        arm.controller.command(row, arm.now)

    assert arm.controller.mode is Mode.HOLDING


def test_the_watchdog_stops_the_arm_when_rows_cease(arm):
    """Not before its time and no more than two ticks after it; the next row moves the arm again."""
    arm.send(to=0.05)
    arm.wait(WATCHDOG_S - TICK_S)
    assert arm.controller.mode is Mode.MOVING

    arm.wait(3 * TICK_S)
    assert arm.controller.mode is Mode.WATCHDOG
    stood = arm.controller.setpoint.copy()
    assert (arm.wait(1.0)[-1] == stood).all()

    arm.send(to=0.1)
    assert arm.controller.mode is Mode.MOVING
    assert [event for event, _ in arm.told] == ["moving", "watchdog", "moving"]


@pytest.mark.parametrize("stop", [lambda arm: arm.controller.hold(), lambda arm: arm.controller.estop("button")])
def test_a_stop_ramps_the_speed_down_and_then_stands(arm, stop):
    """In the middle of a fast move no millisecond changes the speed by more than the ramp does; then nothing moves."""
    arm.send(to=0.5)
    arm.wait(PERIOD_S)
    top = arm.controller.speed
    stop(arm)
    way = arm.wait(2 * RAMP_S)
    changes = [abs(b - a) for a, b in zip([top, *speeds(way)], speeds(way), strict=False)]

    assert max(changes) <= 2.1 * top * TICK_S / RAMP_S
    assert arm.controller.speed == 0.0
    assert (way[-1] == way[-10]).all()


def test_a_stop_keeps_the_grip(arm):
    """The gripper stays told to close: what it holds is not dropped."""
    arm.send(opening=0.0)
    arm.controller.estop("button")

    assert arm.wait(1.0)[-1][7] == 0.0


def test_an_emergency_stop_latches_until_it_is_reset(arm):
    """Rows are refused with the reason, `hold` does not let go of it, and after a reset the arm waits for a row."""
    arm.controller.estop("button")
    with pytest.raises(RefusedError, match="button"):
        arm.send(to=0.1)
    arm.controller.hold()
    assert arm.controller.mode is Mode.ESTOP

    arm.controller.reset()
    assert arm.controller.mode is Mode.HOLDING
    arm.send(to=0.1)
    assert arm.controller.mode is Mode.MOVING


def test_a_simulation_that_keeps_up_says_how_late_it_was():
    """Every step that is due is made, and lateness is the wall clock's, in milliseconds."""
    pace = Pace(TICK_S, now=10.0)
    for tick in range(1, 101):
        for _ in range(pace.due(10.0 + tick * 0.002)):
            pace.stepped()

    assert pace.simulated_s == pytest.approx(0.2, abs=0.0011)
    assert pace.report()["real_time"]
    assert pace.report()["late_max_ms"] == pytest.approx(2.0, abs=1.1)


def test_a_simulation_that_fell_behind_says_that_it_lost_real_time():
    """Time that was let go is not caught up, and the run it happened in counts for nothing."""
    pace = Pace(TICK_S, now=0.0)
    assert pace.due(LOST_S * 3) == 0

    said = pace.report()
    assert (said["real_time"], said["lost_s"]) == (False, pytest.approx(LOST_S * 3))
    kept = {name: said[name] for name in ("real_time", "late_p99_ms", "late_max_ms")}
    report = Report(sequence_ai.RunOutcome(1, 1, 1.0), Story(), done=True, unsafe="", **kept)
    assert not report.success
    assert "REAL TIME WAS LOST" in report.line()


def test_messages_arrive_whole_however_they_are_cut():
    """One byte at a time or all at once: the same messages, in order."""
    messages = [{"do": "row", "row": [0.5] * 8}, {"do": "hold"}]
    sent = b"".join(map(pack, messages))
    slowly = Inbox()

    assert Inbox().feed(sent) == messages
    assert [one for byte in sent for one in slowly.feed(bytes([byte]))] == messages


def test_a_length_that_cannot_be_is_refused():
    """Something that is no driver is told apart at once instead of being waited for."""
    with pytest.raises(ValueError, match="longer than any"):
        Inbox().feed(b"GET / HTTP/1.1\r\n")


class World:
    """A scene that knows one task."""

    bounds = (*JOINT_BOUNDS, OPENINGS)
    period_s = PERIOD_S
    data = SimpleNamespace(qpos=HOME)

    def begin(self, task, seed):
        if task != "lift":
            raise ValueError(f"no task {task!r}: there is lift")


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"do": "begin", "task": "lft", "seed": 0}, "no task 'lft': there is lift"),
        ({"do": "begin", "task": "lift"}, "seed"),
        ({"do": "fly"}, "unknown request 'fly': there are observe"),
        ({"do": ["hold"]}, "list"),
        ([1], "mapping"),
    ],
)
def test_a_request_that_cannot_be_done_is_answered_in_a_sentence(tmp_path, message, says):
    """The robot says why, and lives on; the driver raises that sentence."""
    with Journal(tmp_path / "log.jsonl") as journal:
        robot = simulator.Simulator(World(), None, journal, WATCHDOG_S)
        robot.begin("lift", 0)
        answer = robot.answer(message)
    with pytest.raises(WrongRequestError, match=says):
        done(answer)


def driven(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["drive.py", *arguments])
    return drive.main()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--task", "lft"], "no task 'lft': there are reach, push, lift, stack"), (["--benchmark", "no.py"], "no.py")],
)
def test_a_wrong_argument_is_told_before_anything_is_started(monkeypatch, capsys, arguments, says):
    """A task or a file that is not there ends the program with what there is."""
    with pytest.raises(SystemExit) as ended:
        driven(monkeypatch, "panda-expert", *arguments)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("failed", [NotStartedError("no simulator"), GoneError("nobody"), WrongRequestError("no seed")])
def test_a_robot_that_is_not_there_is_told_in_a_sentence(monkeypatch, capsys, tmp_path, failed):
    """No traceback: one line on standard error, and the exit code of what could not be tried."""

    def none(*_args):
        raise failed

    monkeypatch.setattr(drive, "simulator", none)
    assert driven(monkeypatch, "panda-expert", "--out", str(tmp_path / "out")) == 2
    assert capsys.readouterr().err == f"drive.py: {failed}\n"


def test_a_policy_that_is_not_there_is_told_in_a_sentence(monkeypatch, capsys, tmp_path):
    """A wrong name ends the program with the platform's own sentence."""
    monkeypatch.setattr(drive, "_robot", lambda _given: contextlib.nullcontext())
    monkeypatch.setattr(drive.signal, "signal", lambda *_: None)
    platform = FakePlatform()
    monkeypatch.setenv("SEQUENCES_API_KEY", platform.key)
    monkeypatch.setenv("SEQUENCES_BASE_URL", platform.url)
    platform.answer_next("/v1/act/ready", error(404, "not_found", "no deployment named 'pnda'", hint="yours: panda"))
    with platform.in_place():
        assert driven(monkeypatch, "pnda", "--out", str(tmp_path / "out")) == 2
    assert "drive.py: no deployment named 'pnda' (yours: panda)" in capsys.readouterr().err


def test_a_model_that_is_not_installed_is_told_with_what_to_install(monkeypatch):
    """Without the Panda's package the simulator ends with the line of the README that installs it."""

    def missing(_path):
        raise ModuleNotFoundError("add it to the benchmark's image")

    monkeypatch.setattr(simulator, "Scene", missing)
    monkeypatch.setattr(simulator.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SystemExit, match="pip install --no-deps gym-hil"):
        simulator._scene(Path("benchmark.py"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({7: 0.2}, "opening of 0.200 m"),
        ({3: 0.5}, "joint 4 to 0.500 rad is outside"),
        ({0: FURTHEST + 0.1}, "joint 1 to 0.600 rad is 0.600 rad away"),
        ({0: math.nan}, "8 finite numbers"),
    ],
)
def test_the_driver_lets_no_row_through_that_the_arm_cannot_follow(change, says):
    """Bounds, leaps and numbers that are none: each with its own reason."""
    row = [change.get(number, value) for number, value in enumerate(HOME)]
    standing = {"mode": "moving", "why": "", "joints": HOME[:7]}

    assert says in why_not(row, standing)
    assert why_not(HOME, standing) == ""


def test_the_driver_lets_no_row_through_to_a_stopped_arm():
    """With the emergency stop in, its reason is the driver's."""
    assert why_not(HOME, {"mode": "estop", "why": "button", "joints": HOME[:7]}) == "emergency stop: button"


def test_a_log_is_read_from_the_last_start_and_without_a_line_under_way(tmp_path):
    """What came before the task and what is being written now are left out."""
    lines = [{"at": 1, "event": "hold"}, {"at": 2, "event": "begin"}, {"at": 3, "row": [1]}, {"at": 4, "qpos": [0]}]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"at": 5, "ro')

    log = read_log(path)
    assert ([row["at"] for row in log.rows], [state["at"] for state in log.states]) == ([3], [4])
    assert (log.when("begin"), log.when("hold")) == ([2], [])


def test_the_picture_is_drawn_from_a_log(tmp_path):
    """Rows, states and every kind of mark give a PNG."""
    modes = ["holding", "moving", "watchdog", "estop"]
    states = [
        {"at": float(at), "mode": mode, "qpos": HOME[:7], "opening": 0.08, "setpoint": HOME, "target": HOME}
        for at, mode in enumerate(modes)
    ]
    events = [{"at": 2.5, "event": event, "why": ""} for event in ("hold", "success", "estop")]
    story = Story(chunks=[1.0, 2.0], underruns=[(2.0, 0.5)])
    draw(Log(states, [{"at": 1.0, "row": HOME}], events), story, tmp_path / "panda.png", title="a run")

    assert (tmp_path / "panda.png").read_bytes().startswith(b"\x89PNG")
