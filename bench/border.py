"""Control steps a second of one MuJoCo arm: a bare loop, the player around it, and the process border around that.

The border is crossed once a chunk, so its cost must vanish as chunks grow. Medians of several rounds, taken in turn.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.rows import Promise, Row
from bench.supports import arm
from runner.engine.env_process import EnvironmentStart, make_player
from runner.engine.environment import Environment
from seq.contract.internal import Condition, LeasedEpisode

STEPS = 400
START = EnvironmentStart(
    code_dir=str(Path(__file__).parents[1]),
    handler_ref=f"{arm.__name__}:ArmBench",
    batched=False,
    slots=1,
    setup_params={},
    action_dim=arm.JOINTS,
    blob_dir="",
    ffmpeg="",
)


PROMISES: tuple[Promise, ...] = ()


@dataclass(frozen=True)
class Size:
    """How many rounds of everything, taken in turn."""

    rounds: int = 5


FULL, TINY = Size(), Size(rounds=1)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  nothing here is by chance
    """One row each; the first is what the others are compared with."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(sys.executable, {"PYTHONPATH": ":".join(sys.path)}, Path(folder) / "env.log")
        try:
            environment.start(START, 60)
            player = make_player(START)
            subjects: dict[str, Callable[[], None]] = {
                "bare loop": _bare,
                "player, chunks of 10": lambda: _played(player.reset, player.play, 10),
                "environment process, chunks of 1": lambda: _crossed(environment, 1),
                "environment process, chunks of 10": lambda: _crossed(environment, 10),
                "environment process, chunks of 50": lambda: _crossed(environment, 50),
            }
            rounds = [{what: _seconds(subject) for what, subject in subjects.items()} for _ in range(size.rounds)]
        finally:
            environment.kill()
    per_s = {what: STEPS / statistics.median(taken[what] for taken in rounds) for what in subjects}
    return [Row(what, {"steps_per_s": rate, "to_bare": rate / per_s["bare loop"]}) for what, rate in per_s.items()]


def _seconds(subject: Callable[[], None]) -> float:
    begun = time.perf_counter()
    subject()
    return time.perf_counter() - begun


def _bare() -> None:
    env = arm.Arm(arm.load())
    row = np.zeros(arm.JOINTS)
    for _ in range(STEPS):
        env.step(row)
    env.observe()


def _episode() -> LeasedEpisode:
    return LeasedEpisode(condition=Condition(index=0, task="hold", seed=0, max_steps=STEPS), attempt=1)


def _answer(rows: int) -> dict[str, object]:
    return {"outputs": {"steps": [[0.0] * arm.JOINTS] * rows}}


def _played(reset: Callable, play: Callable, rows: int) -> None:  # type: ignore[type-arg]
    reset({0: _episode()})
    while not play({0: _answer(rows)}).ended:
        pass


def _crossed(environment: Environment, rows: int) -> None:
    environment.call("reset", {0: _episode().wire()}, 60)
    while not environment.call("play", {0: _answer(rows)}, 60).ended:
        pass
