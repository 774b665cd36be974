"""A gateway really killed, on a platform of the test's own, and a worker really killed in mid-chunk."""

import os
import signal
import time
import warnings

import pytest

from sequence_ai import Unavailable
from tests.e2e.driving import PAIR, deployed, driving, held, labels, seen, sound, worker_pids
from tests.e2e.harness import Platform, lives, wait_for

LEASE_S = 10
DEAD_S = 20  # instead of a minute: with a lease of 10 s four renewals fall due in it, where a minute of 300 s has none


@pytest.fixture
def own(platform: Platform) -> Platform:
    return deployed(platform)


@pytest.fixture(scope="module")
def served(shared: Platform) -> Platform:
    return deployed(shared)


def test_a_killed_gateway_stops_no_robot(own: Platform) -> None:
    """Killed for twenty seconds of a run while the lease runs out twice: no row is missing; back again, it renews."""
    with driving(own, change=lambda answer: answer["lease"].update(ttl_s=LEASE_S)) as drive:
        drive.policy.predict(seen(0))
        gateway = own.address["pid"]

        def kill() -> None:
            os.kill(gateway, signal.SIGKILL)
            wait_for(lambda: not lives(gateway))

        drive.robot.plan("act", 20, kill)
        outcome = drive.run(100_000, max_seconds=DEAD_S)
        assert (outcome.reason, outcome.episode_resets) == ("timeout", 0)
        assert outcome.underrun_s < 1, "a row waited for the gateway"
        assert outcome.actions > 0.9 * DEAD_S * 20
        sound(drive.robot)
        own.seq("up")
        asked = drive.road.gateway.accepted
        again = drive.run(100_000, max_seconds=LEASE_S / 2 + 1)
        assert (again.reason, again.episode_resets) == ("timeout", 0)
        assert drive.road.gateway.accepted > asked, "the lease was not renewed"


@pytest.mark.parametrize("prefetch", [True, False])
def test_a_worker_killed_in_mid_chunk(served: Platform, prefetch: bool) -> None:
    """The rows it answered are played out; then a new worker takes over, told as a reset, or the run ends in `hold`."""
    with driving(served) as drive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that what the policy remembered is lost
        drive.policy.predict(seen(0))
        victim = worker_pids(served)

        def kill() -> None:
            for pid in victim:
                os.kill(pid, signal.SIGKILL)

        drive.robot.plan("act", 25, kill)
        try:
            outcome = drive.run(60, prefetch=prefetch)
            assert (outcome.reason, outcome.episode_resets) == ("completed", 1)
        except Unavailable:
            held(drive.robot)
            assert drive.policy.outcome.reason.startswith("raised:Una")
        assert [label.row for label in labels(drive.robot)][20:30] == list(range(10))
        sound(drive.robot)
        began, limit_s = time.monotonic(), 90
        while len({label.process for label in labels(drive.robot)}) < 2:
            assert time.monotonic() - began < limit_s
            try:
                drive.run(20)
            except Unavailable:
                time.sleep(0.5)
        sound(drive.robot)


@pytest.mark.parametrize("prefetch", [True, False])
def test_a_worker_killed_beside_another_is_replaced_by_it(shared: Platform, prefetch: bool) -> None:
    """With a second worker up the run goes on there: told once as a reset and in a warning, its reason "completed"."""
    deployed(shared, PAIR, workers=2)
    with driving(shared, model=PAIR) as drive:
        drive.robot.plan("act", 25, lambda: os.kill(labels(drive.robot)[-1].process, signal.SIGKILL))
        with pytest.warns(UserWarning, match="worker changed"):
            outcome = drive.run(60, prefetch=prefetch)
        assert (outcome.reason, outcome.actions, outcome.episode_resets) == ("completed", 60, 1)
        assert drive.robot.calls("hold") == []
        assert len({label.process for label in labels(drive.robot)}) == 2
        sound(drive.robot)
