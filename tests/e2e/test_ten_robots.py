"""Ten robots drive one deployment of two workers, which are killed and frozen under them at twenty random moments."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

import sequence_ai
from sequence_ai import SequencesError
from sequence_ai.testing import FakeRobot
from tests.e2e.driving import PAIR, Label, door_of, labels, seen, sound, worker_pids
from tests.e2e.driving import deployed as deploy
from tests.e2e.harness import Platform, wait_for

# That a worker changed in the middle of an episode is warned of, from ten threads at once.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ROBOTS = 10
FATES = (*[(1, signal.SIGKILL)] * 14, *[(2, signal.SIGKILL)] * 3, *[(1, signal.SIGSTOP)] * 3)  # so many workers at once
BEFORE_S, BETWEEN_S = 0.5, 2.0  # at least, and at most; once every robot moves
PAUSE_S = 0.5  # of an operator, before a robot that was held is driven again
LIMIT_S = 90


@dataclass
class Driver:
    """One robot, driven again as often as its run ends."""

    robot: FakeRobot = field(default_factory=lambda: FakeRobot(look=seen))
    outcomes: list[sequence_ai.RunOutcome] = field(default_factory=list)
    errors: list[SequencesError] = field(default_factory=list)

    def drive(self, platform: Platform, over: threading.Event) -> None:
        with sequence_ai.connect(PAIR, base_url=platform.address["url"], api_key=platform.key) as policy:
            while not over.is_set():
                try:
                    policy.run(**{**self.robot.callables, "until": over.is_set}, max_actions=10_000, progress=False)
                except SequencesError as error:
                    self.errors.append(error)
                    over.wait(PAUSE_S)
                assert policy.outcome is not None
                self.outcomes.append(policy.outcome)

    def moves(self, pids: list[int]) -> bool:
        return bool(self.robot.played) and door_of(Label.of(self.robot.played[-1].row).process) in pids


@pytest.fixture(scope="module")
def drivers(shared: Platform) -> list[Driver]:
    """Ten drivers after twenty kills and freezes, each at a random moment while all of them move."""
    platform, over, chance = deploy(shared, PAIR, workers=2), threading.Event(), random.Random(11)
    fates = chance.sample(FATES, len(FATES))
    team = [Driver() for _ in range(ROBOTS)]
    with ThreadPoolExecutor(ROBOTS) as threads:
        driving = [threads.submit(driver.drive, platform, over) for driver in team]
        try:
            for count, fate in fates:
                all_move(platform, team, driving)
                time.sleep(chance.uniform(BEFORE_S, BETWEEN_S))
                for pid in chance.sample(worker_pids(platform, PAIR), count):
                    os.kill(pid, fate)
            all_move(platform, team, driving)
            time.sleep(BETWEEN_S)
        finally:
            over.set()
        for done in driving:
            done.result(LIMIT_S)
    return team


def all_move(platform: Platform, team: list[Driver], driving: list[Future[None]]) -> None:
    """Both workers live, and every robot plays rows of one of them."""

    def moving() -> bool:
        for done in driving:
            assert not done.done(), done.exception()
        pids = worker_pids(platform, PAIR)
        return len(pids) == 2 and all(driver.moves(pids) for driver in team)

    wait_for(moving, LIMIT_S)


def test_every_robot_goes_on_or_holds(drivers: list[Driver]) -> None:
    """A run ends as the test told it, or in Unavailable; with `hold`, no row after it, its reason in the outcome."""
    for driver in drivers:
        assert {outcome.reason for outcome in driver.outcomes} <= {"until", "raised:Unavailable", "raised:Unreachable"}
        assert all(isinstance(error, sequence_ai.Unavailable) for error in driver.errors)
        assert len(driver.robot.calls("hold")) == len(driver.outcomes)
        for run in range(1, driver.robot.runs + 1):
            calls = [told.call for told in driver.robot.told if told.run == run]
            assert "act" not in calls[calls.index("hold") :]


def test_every_robot_felt_a_kill(drivers: list[Driver]) -> None:
    """Each one played rows of at least two processes, since once both were killed."""
    assert all(len({label.process for label in labels(driver.robot)}) >= 2 for driver in drivers)


def test_what_was_played_is_sound(drivers: list[Driver]) -> None:
    """No row from before a kill after it, none twice, none out of order, none late in a burst."""
    for driver in drivers:
        sound(driver.robot)


def test_a_new_worker_is_told_as_a_reset(drivers: list[Driver]) -> None:
    """A run whose rows come from more than one process says so in `episode_resets`; some runs did go on so."""
    gone_on = 0
    for driver in drivers:
        for run, outcome in enumerate(driver.outcomes, 1):
            processes = {label.process for label in labels(driver.robot, run)}
            assert outcome.episode_resets >= len(processes) - 1
            gone_on += len(processes) > 1
    assert gone_on
