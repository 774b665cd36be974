"""The simulated fleet: its own sums, its theory, and a day in small."""

import pytest

from bench import capacity
from bench.supports.robots_day import Demand, simulate
from runner.fleet.slots import Rules


def test_the_theory_is_erlangs():
    """Of one slot with exponential times it is M/M/1: the load over (1 - load), times the service."""
    assert capacity.waiting_s(1, 0.5, 1.0, 1.0) == pytest.approx(1.0)
    assert capacity.waiting_s(2, 1.0, 1.0, 1.0) == pytest.approx(1 / 3)


def test_a_day_in_small_keeps_its_promises():
    """The tiny size yields every row, and no lease is given twice."""
    rows = {row.what: row.figures for row in capacity.run(capacity.TINY)}
    assert rows[capacity.THE_DAY]["double_leases"] == 0
    assert rows[capacity.THE_DAY]["waited_beyond_the_limit"] == 0
    assert rows[capacity.THE_DAY]["sessions"] > 0
    assert all(promise.what in rows for promise in capacity.PROMISES)


def test_the_same_seed_is_the_same_day():
    """Nothing but the seed decides."""
    rules = Rules(target=2, most=2, lease_s=300)
    days = [
        simulate(Demand(10, 300, 300, silent=0.1), rules, 2, start_s=60, end_s=4000, seed=[number])
        for number in (1, 1, 2)
    ]
    assert days[0].waits.tolist() == days[1].waits.tolist() != days[2].waits.tolist()


def test_idle_workers_end_and_start_again():
    """With long pauses between sessions, workers end, and the next robot waits for a start."""
    rules = Rules(target=2, most=2, lease_s=300)
    day = simulate(Demand(1, 300, 6000), rules, 1, start_s=60, end_s=80_000, seed=[3])
    assert day.ended >= 1
    assert day.started == pytest.approx(day.ended, abs=1)
    assert 60 <= day.waits.max() < 66


def test_who_still_waits_at_the_end_is_counted():
    """A robot that is never given a slot does not drop out of the sums: its wait so far stands in them."""
    rules = Rules(target=1, most=1, lease_s=300, queue_timeout_s=1e9)
    day = simulate(Demand(2, 50_000, 1, spread=0.01), rules, 1, start_s=0, end_s=20_000, seed=[1])
    assert len(day.waits) == len(day.open_waits) == 1
    assert day.open_waits[0] > 19_000
