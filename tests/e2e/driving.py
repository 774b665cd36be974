"""Robots that drive the labelled policy of a real platform through bad networks, and what their logs must show."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

import sequence_ai
from sequence_ai.testing import Detour, FakeRobot, Played
from tests.e2e.harness import ROOT, Platform, lives, wait_for
from tests.supports.frames import seen
from tests.supports.labelled import checksum

HZ = 20.0  # what the labelled policy declares
SLACK = 0.5  # of a period; how early a row may seem to come on a machine that is busy with other tests
EPISODE = "the-episode"
MODEL = "labelled"
SLOTS = "target_inputs=32"  # what it declares, too
PAIR = "labelled-pair"  # the same with two workers


class Label(NamedTuple):
    """A row of the labelled policy, as it says of itself."""

    process: int
    request: int
    row: int
    look: int
    episode: float
    ended: int
    last: float

    @classmethod
    def of(cls, row: Sequence[float]) -> Label:
        """The label a row is."""
        process, request, number, look, episode, ended, last = row
        return cls(int(process), int(request), int(number), int(look), episode, int(ended), last)


@dataclass(frozen=True)
class Drive:
    """A handle on the labelled policy, the networks before it, and a robot."""

    road: Detour
    policy: sequence_ai.Policy
    robot: FakeRobot

    def run(self, max_actions: int = 40, **options: Any) -> sequence_ai.RunOutcome:
        """Drive the robot."""
        return self.policy.run(**{**self.robot.callables, "progress": False, "max_actions": max_actions, **options})

    def asked(self, **options: Any) -> Label:
        """The first row of an inference outside any run."""
        return Label.of(self.policy.predict(seen(0), **options).action_chunk.steps[0])


def deployed(
    platform: Platform, model: str = MODEL, workers: int = 1, slots: str = SLOTS, options: str = ""
) -> Platform:
    """The platform, with the labelled policy on it under this name and its workers up.

    `slots` are the arguments of its `@seq.concurrent`, `options` more of its `@seq.policy`.
    """
    if f'"{model}"' not in platform.api("GET", "/v1/deployments").text:
        text = (ROOT / "tests/supports/labelled.py").read_text(encoding="utf-8")
        text = text.replace('name="labelled"', f'name="{model}"').replace(SLOTS, slots)
        text = text.replace("min_workers=1", ", ".join([f"min_workers={workers}", *([options] if options else [])]))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "labelled.py"
            file.write_text(text, encoding="utf-8")
            platform.seq("deploy", file, timeout=900)
    wait_for(lambda: len(worker_pids(platform, model)) >= workers)
    return platform


@contextmanager
def driving(
    platform: Platform, *, model: str = MODEL, change: Any = None, seed: int = 0, **options: Any
) -> Iterator[Drive]:
    """A drive, connected; its handle has had no answer yet."""
    with Detour(platform.address["url"], change=change, seed=seed) as road:
        connected = sequence_ai.connect(model, base_url=road.url, api_key=platform.key, **options)
        with connected as policy:
            yield Drive(road, policy, FakeRobot(look=seen))


def labels(robot: FakeRobot, run: int | None = None) -> list[Label]:
    """What was played, in one run or in all."""
    return [Label.of(played.row) for played in robot.played if run in (None, played.run)]


def sound(robot: FakeRobot, hz: float = HZ) -> None:
    """Hold a log to what no fault may change: nothing twice or out of order, never a burst, all from one thread."""
    told = labels(robot)
    assert len({(label.process, label.request, label.row) for label in told}) == len(told), "a row was played twice"
    for run in {played.run for played in robot.played}:
        _in_order(labels(robot, run))
        _evenly([played for played in robot.played if played.run == run], 1 / hz)
    assert len({call.thread for call in robot.told}) <= 1, "the robot was called from two threads"


def _in_order(told: list[Label]) -> None:
    """Chunks begin with their first row, go on without a gap, and never come back."""
    chunks = [list(rows) for _, rows in itertools.groupby(told, key=lambda label: (label.process, label.request))]
    for rows in chunks:
        assert [label.row for label in rows] == list(range(len(rows))), f"rows of one chunk: {rows}"
    for earlier, later in itertools.pairwise(chunks):
        if earlier[0].process == later[0].process:
            assert earlier[0].request < later[0].request, "an older chunk was played after a newer one"
    processes = [process for process, _ in itertools.groupby(label.process for label in told)]
    assert len(set(processes)) == len(processes), "a row from before the kill was played after reconnecting"


def _evenly(played: list[Played], period_s: float) -> None:
    """No two periods hold more than their three rows, so nothing is made up for in a hurry."""
    for first, third in zip(played, played[2:], strict=False):
        assert third.when - first.when >= (1 - SLACK) * period_s, "rows came in a burst"


def held(robot: FakeRobot, times: int = 1) -> None:
    """`hold` came as often as it should, and no row after it."""
    assert len(robot.calls("hold")) == times
    last_hold = max(index for index, call in enumerate(robot.told) if call.call == "hold")
    assert not [call for call in robot.told[last_hold:] if call.call == "act"]


def ended(drive: Drive, episode_id: str = EPISODE) -> bool:
    """Whether the worker was told that this episode is over, and no other one since."""
    return drive.asked().last == checksum(episode_id)


def worker_pids(platform: Platform, model: str = MODEL) -> list[int]:
    """Processes that serve a deployment, oldest first."""
    rows = [row for row in platform.status()["workers"] if row["deployment"] == model and row["state"] == "ready"]
    return [row["pid"] for row in rows if row["pid"] and lives(row["pid"])]


def door_of(copy_pid: int) -> int | None:
    """The process of the worker that this copy of the model belongs to; None when the copy is gone."""
    try:
        return psutil.Process(copy_pid).ppid()
    except psutil.NoSuchProcess:
        return None
