"""Control steps a second of one MuJoCo arm: a bare loop, the player around it, and the process border around that.

The border is crossed once a chunk, so its cost must vanish as chunks grow. Medians of several rounds, taken in turn.
"""

from __future__ import annotations

import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self

from bench.rows import Promise, Row
from bench.supports import arm
from runner.engine import relay
from runner.engine.env_process import EnvironmentStart, bridge_of, set_up
from runner.engine.environment import Environment
from runner.engine.player import Files, Player
from runner.engine.policy import Answer, Ask, Result
from runner.engine.progress import Progress
from runner.worker.acts import ANSWERED, EPISODE_END
from seq.contract import codec
from seq.contract.internal import Condition, EpisodeOutcome, LeasedEpisode

STEPS = 400
LIMIT_S = 60.0
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
    with tempfile.TemporaryDirectory() as folder, _Crossed(Path(folder)) as crossed:
        player = _player(Path(folder))
        subjects: dict[str, Callable[[], object]] = {
            "bare loop": _bare,
            "player, chunks of 10": lambda: player(10),
            "environment process, chunks of 1": lambda: crossed(1),
            "environment process, chunks of 10": lambda: crossed(10),
            "environment process, chunks of 50": lambda: crossed(50),
        }
        rounds = [{what: _seconds(subject) for what, subject in subjects.items()} for _ in range(size.rounds)]
    per_s = {what: STEPS / statistics.median(taken[what] for taken in rounds) for what in subjects}
    return [Row(what, {"steps_per_s": rate, "to_bare": rate / per_s["bare loop"]}) for what, rate in per_s.items()]


def _seconds(subject: Callable[[], object]) -> float:
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


def _chunk(rows: int) -> dict[str, object]:
    return {"steps": [[0.0] * arm.JOINTS] * rows}


class _Once:
    """One episode, and a policy that answers at once."""

    def __init__(self, rows: int) -> None:
        self.left = [_episode()]
        self.chunk = _chunk(rows)

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode] | None:  # noqa: ARG002  one slot
        return [self.left.pop()] if self.left else None

    def ended(self, outcomes: list[EpisodeOutcome]) -> None:
        """It has."""

    def ask(self, asks: Mapping[int, Ask], meanwhile: Callable[[], None]) -> dict[int, Result]:
        meanwhile()
        return {slot: Answer(self.chunk, 0.0, 0.0) for slot in asks}

    def end_episode(self, slot: int, episode_id: str) -> None:
        """Nothing is kept of it."""


def _player(folder: Path) -> Callable[[int], None]:
    world, bridge, progress = set_up(START), bridge_of(START), Progress.create(1)

    def played(rows: int) -> None:
        once: Any = _Once(rows)
        Player(world, bridge, once, once, Files(folder, None, ""), progress, START.code_dir).run()

    return played


class _Crossed:
    """One process, asked over a line to this one, which answers at once."""

    def __init__(self, folder: Path) -> None:
        self.environment = Environment(sys.executable, {"PYTHONPATH": ":".join(sys.path)}, folder / "env.log", 1)
        self.environment.start(START.model_copy(update={"blob_dir": str(folder)}))
        self.ours, self.theirs = socket.socketpair()
        self.rows = 1
        threading.Thread(target=self._answer, daemon=True).start()
        _heard(self.environment, "ready")

    def __enter__(self) -> Self:
        self(1)
        return self

    def __exit__(self, *_: object) -> None:
        self.environment.kill()
        self.ours.close()

    def __call__(self, rows: int) -> None:
        """Play one episode in chunks of so many rows."""
        self.rows = rows
        self.environment.play([_episode()])
        if self.theirs.fileno() >= 0:
            _heard(self.environment, "open")
            self.environment.hand([self.theirs])
        _heard(self.environment, "ended")

    def _answer(self) -> None:
        while (content := relay.receive(self.ours)) is not None:
            if EPISODE_END not in codec.parse(content, codec.MSGPACK):
                told = {"outputs": _chunk(self.rows), "perf": {}}
                relay.send(self.ours, ANSWERED + codec.dumps(told, codec.MSGPACK))


def _heard(environment: Environment, what: str) -> None:
    message = environment.hear(LIMIT_S)
    if message is None or what not in message:
        raise RuntimeError(f"an environment process said {message}, not {what}")
