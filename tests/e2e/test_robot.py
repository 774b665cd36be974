"""The simulated Panda, in real time, driven by panda-expert over a network that is slow, or cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import imageio_ffmpeg
import pytest

import sequence_ai
from sequence_ai.testing import Detour
from tests.e2e.harness import ROOT, Platform, wait_for

sys.path.insert(0, str(ROOT / "examples/robots/panda"))  # as for `python drive.py`, whose files these are

from drive import Knobs, drive
from journal import Log, read_log
from launch import Started, simulator
from robot import Robot

PANDA = ROOT / "examples/robots/panda"
WATCHDOG_S = 0.5
LATE_S = 0.1  # what the simulator itself calls having lost real time
SLACK_S = 0.5  # of this program, where the machine is busy
SLOW_S, JITTER_S = 0.15, 0.03
TIMEOUT_S = 2.0


@pytest.fixture(scope="module")
def robot_env(shared: Platform, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A robot's environment: its platform's key and address, and the package that the Panda's model comes from."""
    folder = tmp_path_factory.mktemp("gym-hil")
    uv = Path(sys.executable).with_name("uv")
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--target", folder, "gym-hil==0.1.14"]
    subprocess.run(install, check=True)
    return {**shared.env, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


@pytest.fixture(scope="module")
def panda(robot_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """One simulated robot for all tests; each puts it at a start."""
    with simulator(tmp_path_factory.mktemp("panda") / "panda.jsonl", env=robot_env) as started:
        yield started


@pytest.fixture
def robot(panda: Started) -> Iterator[Robot]:
    """A line to the robot, on which no emergency stop is in."""
    robot = panda.robot()
    robot.reset()
    yield robot
    robot.reset()
    robot.close()


@pytest.fixture
def road(shared: Platform) -> Iterator[Detour]:
    """The way to the platform, with the workers as far away as the issue says."""
    with Detour(shared.address["url"]) as road:
        road.workers.delay(SLOW_S, jitter_s=JITTER_S)
        yield road


def policy(shared: Platform, road: Detour, **options: float) -> sequence_ai.Policy:
    """A handle on panda-expert by this road, with a worker up."""
    expert = sequence_ai.connect("panda-expert", base_url=road.url, api_key=shared.key, **options)
    expert.wait_until_ready(timeout_s=300, poll_s=1)
    return expert


@dataclass
class AtRow:
    """A robot that does something once, as a row goes out; `observed` are the moments of its observations."""

    robot: Robot
    number: int
    do: Callable[[], object]
    observed: list[float] = field(default_factory=list)
    _rows: int = 0

    def read_observation(self) -> sequence_ai.Observation:
        self.observed.append(time.monotonic())
        return self.robot.read_observation()

    def apply_action(self, row: list[float]) -> None:
        self.robot.apply_action(row)
        self._rows += 1
        if self._rows == self.number:
            self.do()

    def __getattr__(self, name: str) -> object:
        return getattr(self.robot, name)


def rows_in(log: Log, start: float, end: float) -> list[float]:
    return [row["at"] for row in log.rows if start < row["at"] < end]


def test_ten_seeds_are_lifted_over_a_slow_network(shared: Platform, panda: Started, robot: Robot, road: Detour) -> None:
    """150 ms of added latency, 30 ms of jitter: by physics, and in real time, the cube is up in 9 of 10 seeds."""
    with policy(shared, road) as expert:
        reports = [drive(expert, robot, robot.begin("lift", seed), Knobs()) for seed in range(10)]

    told = [report.line() for report in reports]
    assert sum(report.success for report in reports) >= 9, told
    assert all(report.outcome.max_observation_age_rows == 0 for report in reports), told
    assert all(report.outcome.observation_age_s > SLOW_S - JITTER_S for report in reports), told


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_network_cut_of_two_seconds_stops_the_arm_and_plays_nothing_old(
    shared: Platform, panda: Started, robot: Robot, road: Detour, fault: str
) -> None:
    """The underrun is counted, the watchdog stops the arm, the late answer is dropped, and a fresh look finishes it."""

    def cut() -> None:
        moments["cut"] = time.monotonic()
        getattr(road.workers, fault)()
        healed.start()

    def heal() -> None:
        moments["healed"] = time.monotonic()
        road.workers.heal()

    moments: dict[str, float] = {}
    healed = threading.Timer(2.0, heal)
    watched = AtRow(robot, 18, cut)
    with policy(shared, road) as expert:
        report = drive(expert, watched, robot.begin("lift", 3), Knobs())

    log, outcome = read_log(panda.log), report.outcome
    moved = rows_in(log, moments["healed"], float("inf"))[0]
    assert report.success, report.line()
    assert outcome.underruns == len(report.story.underruns)
    assert max(seconds for _, seconds in report.story.underruns) > 1.5
    assert outcome.stale_answers >= 1, report.line()
    assert [at for at in log.when("watchdog") if moments["cut"] < at < moments["healed"]], "the watchdog slept"
    assert rows_in(log, moments["cut"] + 1.0, moments["healed"]) == []
    assert [at for at in watched.observed if moments["healed"] < at < moved], "no fresh observation before it moved"


def test_a_lasting_cut_ends_in_hold_within_the_timeout(
    shared: Platform, panda: Started, robot: Robot, road: Detour
) -> None:
    """Nothing comes any more: `hold` within `timeout_s` of waiting, `Unavailable` raised, and no row after it."""
    with policy(shared, road, timeout_s=TIMEOUT_S) as expert:
        with pytest.raises(sequence_ai.Unavailable):
            drive(expert, AtRow(robot, 18, road.workers.cut), robot.begin("lift", 3), Knobs())
        road.workers.heal()

    log = read_log(panda.log)
    (held,) = log.when("hold")
    last = log.rows[-1]["at"]
    assert last < held <= last + 1 / 20 + TIMEOUT_S + SLACK_S
    assert robot.status()["mode"] == "holding"


def test_an_emergency_stop_ends_the_loop_in_hold_with_its_reason(
    shared: Platform, panda: Started, robot: Robot, road: Detour, robot_env: dict[str, str]
) -> None:
    """Pressed from another process in mid-run: no row after it, the report says why, and it stays in until reset."""
    press = [sys.executable, PANDA / "robot.py", str(panda.port), "estop"]

    def button() -> None:
        subprocess.run(press, env=robot_env, check=True, stdout=subprocess.DEVNULL)

    with policy(shared, road) as expert:
        report = drive(expert, AtRow(robot, 15, button), robot.begin("lift", 3), Knobs())

    log = read_log(panda.log)
    (pressed,) = log.when("estop")
    assert (report.outcome.reason, report.unsafe) == ("validate", "emergency stop: pressed by hand")
    assert not report.success
    assert log.when("hold")[-1] > pressed
    assert rows_in(log, pressed, float("inf")) == []
    assert robot.begin("lift", 3)
    assert robot.status()["mode"] == "estop"
    robot.reset()
    assert robot.status()["mode"] == "holding"


def test_the_watchdog_stops_the_arm_of_a_driver_that_was_killed(
    shared: Platform, panda: Started, robot: Robot, robot_env: dict[str, str], tmp_path: Path
) -> None:
    """SIGKILL in mid-move: by the robot's own log the arm stands within the watchdog's time, and keeps its place."""
    command = [sys.executable, PANDA / "drive.py", "panda-expert", "--port", str(panda.port), "--task", "stack"]
    robot.begin("lift", 0)  # the log of an earlier task is not this one's
    driver = subprocess.Popen([*command, "--out", tmp_path], env=robot_env)
    wait_for(lambda: len(read_log(panda.log).rows) >= 15, every_s=0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    last = read_log(panda.log).rows[-1]["at"]
    (stopped,) = wait_for(lambda: [at for at in read_log(panda.log).when("watchdog") if at > last])
    wait_for(lambda: read_log(panda.log).states[-1]["at"] > stopped + 1.0)

    log = read_log(panda.log)
    after = [state for state in log.states if state["at"] > stopped + 0.3]
    assert log.rows[-1]["at"] == last
    assert stopped - last <= WATCHDOG_S + LATE_S
    assert {state["mode"] for state in after} == {"watchdog"}
    assert max(state["speed"] for state in after) < 0.02
    assert max(abs(a - b) for a, b in zip(after[0]["qpos"][:7], after[-1]["qpos"][:7], strict=True)) < 0.005
    assert robot.status()["mode"] == "watchdog"


def test_a_robot_that_lost_real_time_says_so(panda: Started, robot: Robot) -> None:
    """A simulator that was frozen for a while does not catch up in a burst: it says that the run counts for nothing."""
    robot.begin("lift", 0)
    assert robot.status()["real_time"]
    panda.process.send_signal(signal.SIGSTOP)
    threading.Timer(0.5, panda.process.send_signal, [signal.SIGCONT]).start()

    wait_for(lambda: not robot.status()["real_time"])
    assert robot.status()["late_max_ms"] > 1000 * LATE_S


def test_the_driver_leaves_a_film_and_a_picture(robot_env: dict[str, str], tmp_path: Path) -> None:
    """`python drive.py` starts its own simulator, does the task, and writes an mp4 that plays and a PNG."""
    command = [sys.executable, PANDA / "drive.py", "panda-expert", "--task", "reach", "--out", tmp_path]
    done = subprocess.run(command, env=robot_env, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "task done" in done.stdout
    assert (tmp_path / "panda.png").read_bytes().startswith(b"\x89PNG")
    film = decoded(tmp_path / "panda.mp4")
    assert len(film) > 20
    assert film[0] != film[-1], "nothing moves in it"


def decoded(film: Path) -> list[bytes]:
    """The frames of a film, raw."""
    frame = 448 * 472 * 3
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-i", film, "-f", "rawvideo", "-pix_fmt", "rgb24"]
    raw = subprocess.run([*command, "-"], capture_output=True, check=True).stdout
    assert len(raw) % frame == 0
    return [raw[at : at + frame] for at in range(0, len(raw), frame)]
