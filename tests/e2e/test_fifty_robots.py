"""Fifty robots, each a process of its own, on two workers of four slots: everyone drives in turn."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.e2e.driving import deployed
from tests.e2e.harness import ROOT, Platform, wait_for

MODEL = "labelled-four"
ROBOTS, WORKERS, SLOTS = 50, 2, 4
ROWS = 20
LIMIT_S = 300
LEASE_S = 10  # as short as idle_timeout makes it


@dataclass(frozen=True)
class Robot:
    """One process and the lines it wrote."""

    process: subprocess.Popen[str]
    lines: list[dict[str, Any]]

    def at(self, event: str) -> float:
        """When it said so first."""
        return next(line["at"] for line in self.lines if line["event"] == event)

    def told(self, event: str) -> list[dict[str, Any]]:
        """All lines of this kind."""
        return [line for line in self.lines if line["event"] == event]


def started(platform: Platform, rows: int = ROWS) -> Robot:
    """A robot that begins to wait, or to drive."""
    script = ROOT / "tests/supports/queued_robot.py"
    command = [sys.executable, str(script), platform.address["url"], platform.key, MODEL, str(rows)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    robot = Robot(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True), [])
    threading.Thread(target=_read, args=(robot,), daemon=True).start()
    return robot


def _read(robot: Robot) -> None:
    assert robot.process.stdout is not None
    with robot.process.stdout as lines:
        robot.lines.extend(map(json.loads, lines))


def drives(robot: Robot) -> bool:
    assert robot.process.poll() in (None, 0)
    return bool(robot.told("drives"))


@pytest.fixture(scope="module")
def four(shared: Platform) -> Platform:
    """The policy with four copies a worker, at most two workers, both up."""
    options = f"max_gpus={WORKERS}, idle_timeout={LEASE_S}, queue_timeout_s={LIMIT_S}"
    return deployed(shared, MODEL, WORKERS, slots=f"replicas_per_gpu={SLOTS}", options=options)


@pytest.fixture(scope="module")
def crowd(four: Platform) -> Iterator[tuple[list[Robot], list[list[str]]]]:
    """Fifty robots that came and went, and the line as the fleet block showed it, again and again."""
    robots, over, queues = [started(four) for _ in range(ROBOTS)], threading.Event(), []

    def watch() -> None:
        while not over.wait(0.2):
            block = four.api("GET", f"/v1/deployments/{MODEL}/fleet").json()
            queues.append([place["session"] for place in block["queue"]])

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        for robot in robots:
            robot.process.wait(LIMIT_S)
        wait_for(lambda: all(robot.told("closed") for robot in robots), 10)
        yield robots, queues
    finally:
        over.set()
        watching.join()
        for robot in robots:
            robot.process.kill()
            robot.process.wait()


def test_everyone_drives_once_and_to_the_end(crowd: tuple[list[Robot], list[list[str]]]) -> None:
    """Each robot got one slot, played what it was to play, and left."""
    robots, _ = crowd
    assert [robot.process.returncode for robot in robots] == [0] * ROBOTS
    assert all(len(robot.told("drives")) == 1 for robot in robots)
    assert {robot.told("closes")[0]["reason"] for robot in robots} == {"completed"}


def test_no_more_drive_at_once_than_there_are_slots(crowd: tuple[list[Robot], list[list[str]]]) -> None:
    """At the moment at which a robot got its slot, at most seven others held one."""
    robots, _ = crowd
    for robot in robots:
        now = robot.at("drives")
        holding = [other for other in robots if other.at("drives") <= now < other.at("closes")]
        assert len(holding) <= WORKERS * SLOTS


def test_the_order_of_the_line_is_kept(crowd: tuple[list[Robot], list[list[str]]]) -> None:
    """Whoever stood before another stands there as long as both wait, and leaves from the front."""
    _, queues = crowd
    assert max(map(len, queues)) > SLOTS, "the robots never stood in line"
    for earlier, later in itertools.pairwise(queues):
        both = set(earlier) & set(later)
        assert [name for name in earlier if name in both] == [name for name in later if name in both]
        gone = [index for index, name in enumerate(earlier) if name not in both]
        assert not gone or max(gone) < len(gone) + WORKERS * SLOTS


def test_printed_positions_are_true(crowd: tuple[list[Robot], list[list[str]]]) -> None:
    """A position counts the robots that came before and had no slot yet when it was decided.

    That was between two lines of the robot: the one before it asked, and the one that tells the answer.
    """
    robots, _ = crowd
    order = sorted(robots, key=lambda robot: robot.at("drives"))
    for robot in robots:
        told = robot.told("waits")
        positions = [line["position"] for line in told]
        assert positions == sorted(positions, reverse=True)
        before = order[: order.index(robot)]
        for asked, line in itertools.pairwise([*robot.told("asks"), *told]):
            still = sum(bool(other.told("waits")) and other.told("waits")[-1]["at"] > line["at"] for other in before)
            perhaps = sum(other.at("drives") > asked["at"] for other in before)
            # Robots that hold a slot, or have just got it, may start to drive in another order than they came in.
            assert still - WORKERS * SLOTS < line["position"] <= perhaps + 1 + WORKERS * SLOTS


def test_a_silent_robots_slot_comes_back(four: Platform) -> None:
    """Eight robots are killed while they drive: their leases end, and those behind them drive."""
    silent = [started(four, rows=0) for _ in range(WORKERS * SLOTS)]
    wait_for(lambda: all(drives(robot) for robot in silent))
    waiting = [started(four) for _ in range(2)]
    wait_for(lambda: all(robot.told("waits") for robot in waiting))
    for robot in silent:
        robot.process.kill()
        robot.process.wait()
    killed = time.monotonic()
    for robot in waiting:
        assert robot.process.wait(LIMIT_S) == 0
        assert robot.at("drives") > killed


def test_a_thousand_at_once(four: Platform) -> None:
    """Everyone is answered: as many as there are slots drive, all others are told a place."""
    sessions = [f"{number:032x}" for number in range(1000)]
    answers = asyncio.run(posted(four, "connect", sessions))
    try:
        granted = [answer for answer in answers if answer.status_code == 200]
        refused = [answer.json() for answer in answers if answer.status_code != 200]
        assert len(granted) == WORKERS * SLOTS
        # Nobody asks again here, so those who came first have fallen silent by the time the last are told their place.
        assert min(answer["details"]["queue_position"] for answer in refused) == 1
        assert {answer["code"] for answer in refused} == {"unavailable"}
    finally:
        left = asyncio.run(posted(four, "release", sessions))
    assert {answer.status_code for answer in left} == {200}
    block = four.api("GET", f"/v1/deployments/{MODEL}/fleet").json()
    assert (block["robots"], block["queue"]) == (0, [])


async def posted(platform: Platform, what: str, sessions: list[str]) -> list[httpx.Response]:
    """The answers to all of these robots, asked as fast as it goes."""
    headers = {"Authorization": f"Bearer {platform.key}"}
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(headers=headers, timeout=LIMIT_S, trust_env=False, limits=limits) as client:
        url = f"{platform.address['url']}/v1/act/{what}"
        bodies = [{"model": MODEL, "session": session, "moves": True} for session in sessions]
        return list(await asyncio.gather(*(client.post(url, json=body) for body in bodies)))
