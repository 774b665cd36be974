"""A thousand stops at random moments, through a network that is slow, uneven and at times silent."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

import sequence_ai
from sequence_ai.testing import Detour, FakeRobot
from tests.e2e.driving import Label, seen
from tests.e2e.driving import deployed as deploy
from tests.e2e.harness import Platform

ROBOTS, STOPS_EACH = 4, 250
HZ = 25.0
MOST_S = 0.25  # the latest moment of a stop after its run began; chunks are 0.2 s long
LIMIT_S = 30


@dataclass(frozen=True)
class Stop:
    """One run and its stop: when `interrupt` returned, when `run` did, and how often the robot had looked before it."""

    run: int
    at: float
    returned: float
    looks_before: int
    outcome: sequence_ai.RunOutcome


@pytest.fixture(scope="module")
def platform(shared: Platform) -> Platform:
    return deploy(shared)


@pytest.fixture(scope="module")
def driven(platform: Platform) -> list[tuple[FakeRobot, list[Stop]]]:
    """Four robots, each stopped 250 times, while the network behind them changes every few hundredths of a second."""
    with Detour(platform.address["url"], seed=3) as road, ThreadPoolExecutor(ROBOTS) as threads:
        quiet = threading.Event()
        weather = weather_over(road, quiet)
        try:
            return list(threads.map(lambda number: stopped_often(platform, road, number), range(ROBOTS)))
        finally:
            quiet.set()
            weather.join()


def weather_over(road: Detour, quiet: threading.Event) -> threading.Thread:
    """The network's moods, in a thread of their own until `quiet`."""
    chance = random.Random(7)
    moods = (
        lambda: road.workers.delay(0.0),
        lambda: road.workers.delay(0.05, jitter_s=0.05),
        lambda: road.workers.delay(0.2, jitter_s=0.1),
        road.workers.stall,
        road.workers.heal,
        road.workers.heal,
        road.workers.reset,
    )

    def change() -> None:
        while not quiet.wait(chance.uniform(0.02, 0.15)):
            chance.choice(moods)()
        road.workers.heal()

    thread = threading.Thread(target=change, name="weather")
    thread.start()
    return thread


def stopped_often(platform: Platform, road: Detour, number: int) -> tuple[FakeRobot, list[Stop]]:
    chance, robot = random.Random(number), FakeRobot(look=seen)
    with sequence_ai.connect("labelled", base_url=road.url, api_key=platform.key, control_hz=HZ) as policy:
        return robot, [stopped(policy, robot, chance.uniform(0.0, MOST_S)) for _ in range(STOPS_EACH)]


def stopped(policy: sequence_ai.Policy, robot: FakeRobot, after_s: float) -> Stop:
    """One run, interrupted `after_s` after it began."""
    begun, at = threading.Event(), []
    looks = len(robot.calls("observe"))

    def stop() -> None:
        assert begun.wait(LIMIT_S)
        time.sleep(after_s)
        policy.interrupt()
        at.append(time.monotonic())

    def on_status(state: str) -> None:
        robot.on_status(state)
        begun.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    told = {**robot.callables, "on_status": on_status, "progress": False, "params": {"rows": 5}}
    outcome = policy.run(**told, max_actions=10_000)
    returned = time.monotonic()
    stopper.join()
    return Stop(robot.runs, at[0], returned, looks, outcome)


@pytest.fixture(scope="module")
def stops(driven: list[tuple[FakeRobot, list[Stop]]]) -> list[tuple[FakeRobot, Stop]]:
    """Every stop with its robot."""
    return [(robot, stop) for robot, theirs in driven for stop in theirs]


def acts(robot: FakeRobot, stop: Stop) -> list[float]:
    return [played.when for played in robot.played if played.run == stop.run]


def test_every_stop_is_an_outcome(stops: list[tuple[FakeRobot, Stop]]) -> None:
    """Nothing is raised and the reason is told, a thousand times."""
    assert len(stops) == 1000
    assert {stop.outcome.reason for _, stop in stops} == {"interrupted"}
    assert all(stop.outcome.actions == len(acts(robot, stop)) for robot, stop in stops)


def test_stops_fell_into_every_stage(stops: list[tuple[FakeRobot, Stop]]) -> None:
    """Some came before the first action, some while rows were played: the thousand were not all alike."""
    before = sum(not acts(robot, stop) for robot, stop in stops)
    assert 50 < before < 950


def test_no_action_starts_a_period_after_the_stop(stops: list[tuple[FakeRobot, Stop]]) -> None:
    """At most the one action that was on its way starts after `interrupt` returned, within one control period."""
    late = [[when - stop.at for when in acts(robot, stop) if when > stop.at] for robot, stop in stops]
    assert [times for times in late if len(times) > 1] == []
    assert [times for times in late if times and times[0] > 1 / HZ] == []


def test_hold_came_once_for_each_stop_and_nothing_moved_after_it(stops: list[tuple[FakeRobot, Stop]]) -> None:
    """Every run has one `hold`, after its last action."""
    for robot, stop in stops:
        holds = [told.when for told in robot.calls("hold") if told.run == stop.run]
        assert len(holds) == 1
        assert not acts(robot, stop) or acts(robot, stop)[-1] <= holds[0]


def test_nothing_of_an_old_plan_is_in_the_next_run(stops: list[tuple[FakeRobot, Stop]]) -> None:
    """All rows of a run are of its own episode and from looks taken in it, beginning with a chunk's first row."""
    episodes = []
    for robot, stop in stops:
        rows = [Label.of(played.row) for played in robot.played if played.run == stop.run]
        if rows:
            assert rows[0].row == 0
            assert min(row.look for row in rows) > stop.looks_before
            assert len({row.episode for row in rows}) == 1
            episodes.append(rows[0].episode)
    assert len(set(episodes)) == len(episodes)
