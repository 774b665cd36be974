"""Drive the simulated Panda with a deployed policy: `python drive.py panda-expert --task lift --seed 0`.

Starts the simulator, plays one task through `sequence_ai.connect(...).act(...)`, and leaves in --out the robot's log, a
picture of what was commanded and what was measured, and a film. Exits with 0 if the simulator's own state says that the
task was done, and in real time.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from journal import Log, read_log
from launch import NotStartedError, simulator
from robot import NotTakenError, Robot
from scene import BENCHMARK, tasks
from wire import GoneError, Line, WrongRequestError

import sequence_ai


@dataclass(frozen=True)
class Knobs:
    """How the loop plays. See the README for why these are the values for this policy and this robot."""

    max_seconds: float = 25.0
    prefetch: bool = False
    open_loop_horizon: int | None = None
    smooth_seam: int = 0


@dataclass
class Story:
    """What happened to the loop, by the machine's monotonic clock: when a chunk came, when it waited and how long."""

    clock: Callable[[], float] = time.monotonic
    chunks: list[float] = field(default_factory=list)
    underruns: list[tuple[float, float]] = field(default_factory=list)

    def on_chunk(self, _prediction: sequence_ai.Prediction) -> None:
        """A chunk came."""
        self.chunks.append(self.clock())

    def on_underrun(self, seconds: float) -> None:
        """The arm had nothing to play for so long, until now."""
        self.underruns.append((self.clock(), seconds))


@dataclass(frozen=True)
class Report:
    """One run: `done` is the simulator's word on the task, and counts only where `real_time` was kept."""

    outcome: sequence_ai.RunOutcome
    story: Story
    done: bool
    real_time: bool
    late_p99_ms: float
    late_max_ms: float
    unsafe: str

    @property
    def success(self) -> bool:
        """The task was done, and physics was never further behind the clock than it may be."""
        return self.done and self.real_time

    def line(self) -> str:
        """The run in one line."""
        late = f"physics late by {self.late_p99_ms:.0f} ms (p99), {self.late_max_ms:.0f} ms at most"
        word = "task done" if self.done else "task not done"
        lost = "" if self.real_time else "; REAL TIME WAS LOST: this run counts for nothing"
        return f"{word}; {self.outcome}; {late}{lost}{'; unsafe: ' + self.unsafe if self.unsafe else ''}"


def drive(
    policy: sequence_ai.Policy, robot: Robot, instruction: str, knobs: Knobs, story: Story | None = None
) -> Report:
    """Play one task from where the robot stands. Raises what the loop raises, once the robot holds."""
    story = story or Story()
    outcome = policy.act(
        instruction,
        observe=robot.read_observation,
        act=robot.apply_action,
        validate=robot.is_safe,
        hold=robot.hold,
        until=robot.over,
        on_chunk=story.on_chunk,
        on_underrun=story.on_underrun,
        max_seconds=knobs.max_seconds,
        prefetch=knobs.prefetch,
        open_loop_horizon=knobs.open_loop_horizon,
        smooth_seam=knobs.smooth_seam,
    )
    end = robot.status()
    kept = {name: end[name] for name in ("real_time", "late_p99_ms", "late_max_ms")}
    return Report(outcome, story, done=end["success"], unsafe=robot.why_unsafe, **kept)


def main() -> int:
    """One task, as the command line says; what keeps it from being tried is told in a sentence."""
    given = _arguments()
    try:
        return _one_task(given)
    except (sequence_ai.SequencesError, NotStartedError, GoneError, WrongRequestError) as failed:
        print(f"drive.py: {failed}", file=sys.stderr)
        return 2


def _one_task(given: argparse.Namespace) -> int:
    given.out.mkdir(parents=True, exist_ok=True)
    story, report, told = Story(), None, ""
    with _robot(given) as robot, sequence_ai.connect(given.model, timeout_s=given.timeout_s) as policy:
        signal.signal(signal.SIGINT, lambda *_: policy.interrupt())
        policy.wait_until_ready()
        instruction = robot.begin(given.task, given.seed)
        try:
            report = drive(policy, robot, instruction, _knobs(given), story)
            told = report.line()
        except (sequence_ai.SequencesError, NotTakenError) as ended:
            told = f"the loop was ended by {type(ended).__name__}: {ended}"
        log = read_log(Path(robot.status()["log"]))
    print(told)
    if report is not None:
        (given.out / "panda.json").write_text(json.dumps(_summary(report), indent=2) + "\n")
    _show(log, story, told, given)
    return 0 if report is not None and report.success else 1


@contextmanager
def _robot(given: argparse.Namespace) -> Iterator[Robot]:
    """The simulator that listens on --port, or one of this program's own."""
    if given.port is not None:
        yield Robot(Line("127.0.0.1", given.port))
        return
    options = ["--watchdog-s", str(given.watchdog_s), "--benchmark", str(given.benchmark)]
    with simulator(given.out / "panda.jsonl", *options) as started:
        print(f"the robot listens on port {started.port}: `python robot.py {started.port} estop` stops it")
        yield started.robot()


def _show(log: Log, story: Story, told: str, given: argparse.Namespace) -> None:
    """Write what is to be looked at."""
    from picture import draw  # noqa: PLC0415 - matplotlib is slow to import, and not on a robot

    draw(log, story, given.out / "panda.png", title=told)
    if given.film:
        from film import shoot  # noqa: PLC0415 - the same of mujoco

        shoot(log, given.out / "panda.mp4", benchmark=given.benchmark)
    print(f"look at {given.out}/panda.png{' and panda.mp4' if given.film else ''}")


def _summary(report: Report) -> dict[str, Any]:
    return {**asdict(report.outcome), **{k: v for k, v in asdict(report).items() if k not in ("outcome", "story")}}


def _knobs(given: argparse.Namespace) -> Knobs:
    return Knobs(given.max_seconds, given.prefetch, given.open_loop_horizon, given.smooth_seam)


def _arguments() -> argparse.Namespace:
    usual = Knobs()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="the deployment's name")
    options.add_argument("--task", default="lift", help="reach, push, lift or stack")
    options.add_argument("--seed", type=int, default=0, help="where things start: 0 to 19")
    options.add_argument("--out", type=Path, default=Path("panda-run"))
    options.add_argument("--film", action=argparse.BooleanOptionalAction, default=True)
    options.add_argument("--benchmark", type=Path, default=BENCHMARK, help="whose scene and tasks to simulate")
    options.add_argument("--port", type=int, help="drive the simulator that listens there, instead of one of our own")
    options.add_argument("--watchdog-s", type=float, default=0.5, help="of a simulator of our own")
    options.add_argument("--timeout-s", type=float, default=10.0, help="the longest wait for one chunk")
    options.add_argument("--max-seconds", type=float, default=usual.max_seconds)
    options.add_argument("--prefetch", action=argparse.BooleanOptionalAction, default=usual.prefetch)
    options.add_argument("--open-loop-horizon", type=int, default=usual.open_loop_horizon)
    options.add_argument("--smooth-seam", type=int, default=usual.smooth_seam)
    given = options.parse_args()
    if given.port is None:  # else its simulator knows what it has
        try:
            known = tasks(given.benchmark)
        except FileNotFoundError as missing:
            options.error(str(missing))
        if given.task not in known:
            options.error(f"no task {given.task!r}: there are {', '.join(known)}")
    return given


if __name__ == "__main__":
    sys.exit(main())
