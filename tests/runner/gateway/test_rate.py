"""How often a key may ask: the buckets on a clock moved by hand, and the answer through the application."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import Refused
from runner.gateway.rate import DOOR, Buckets, Pace, Rates
from runner.store.queries import accounts
from runner.testing import account_of, first_key, make_client, make_context

SLOW = 0.5
"""Requests a second at which a burst is one request, so that the second one is told to wait."""


@pytest.fixture
def slow(tmp_path):
    """A context in which a key may ask once in two seconds; its clock stands still."""
    made = make_context(tmp_path, rate_per_s=SLOW)
    yield made
    made.store.close()


def taken(buckets, who, now, times):
    """How many of `times` requests at one moment are let through."""
    return sum(buckets.take(who, now) == 0 for _ in range(times))


def test_a_burst_then_the_pace():
    """A rested caller asks a whole burst at once, then as many as the seconds since allow, never more than a burst."""
    buckets = Buckets(Pace(50, 100))
    assert taken(buckets, "a", 0.0, 150) == 100
    assert taken(buckets, "a", 1.0, 150) == 50
    assert taken(buckets, "a", 60.0, 150) == 100


def test_the_wait_is_when_there_is_one_to_take():
    """Who waits as long as it was told is let through, who asks before is not, and asking in vain costs nothing."""
    buckets = Buckets(Pace(4, 1))
    assert buckets.take("a", 10.0) == 0
    assert [buckets.take("a", 10.0) for _ in range(3)] == [0.25] * 3
    assert buckets.take("a", 10.125) == 0.125
    assert buckets.take("a", 10.25) == 0


def test_callers_do_not_share():
    """One that asks too often takes nothing from another."""
    buckets = Buckets(Pace(1, 2))
    assert (taken(buckets, "a", 0.0, 9), taken(buckets, "b", 0.0, 9)) == (2, 2)


def test_a_clock_that_steps_back_gives_and_takes_nothing():
    """Time before the last request counts as no time at all."""
    buckets = Buckets(Pace(1, 2))
    assert taken(buckets, "a", 100.0, 9) == 2
    assert taken(buckets, "a", 50.0, 9) == 0


@given(st.lists(st.floats(0, 5), max_size=200))
def test_no_order_of_arrivals_beats_the_pace(gaps):
    """However requests are spaced, no stretch of time lets more through than a burst and its own seconds' worth."""
    buckets, now, passed = Buckets(Pace(3, 5)), 0.0, []
    for gap in gaps:
        now += gap
        if buckets.take("a", now) == 0:
            passed.append(now)
    for first, begin in enumerate(passed):
        for count, end in enumerate(passed[first:], start=1):
            assert count <= 5 + 3 * (end - begin) + 1e-6


def test_memory_is_bounded_and_the_busiest_is_remembered():
    """Beyond the most callers, those silent longest are forgotten; one that keeps asking is not."""
    buckets = Buckets(Pace(0.001, 1), most=3)
    buckets.take("busy", 0.0)
    for number in range(1000):
        buckets.take(f"other-{number}", 0.0)
        assert buckets.take("busy", 0.0) > 0
    assert len(buckets) == 3


def test_a_thousand_robots_of_one_key_connect_at_once():
    """Connecting and leaving have a wide bucket of their own, which reading does not empty; it too has an end."""
    rates = Rates(50)
    for _ in range(100):
        rates.by_key("k", "/v1/account", 0.0)
    with pytest.raises(Refused, match="50 times a second"):
        rates.by_key("k", "/v1/account", 0.0)
    for number in range(2000):
        rates.by_key("k", sorted(DOOR)[number % 2], 0.0)
    with pytest.raises(Refused, match="200 times a second"):
        rates.by_key("k", "/v1/act/connect", 0.0)


def test_forty_robots_in_line_are_never_refused():
    """On one key, each asking every two seconds for an hour."""
    rates = Rates(50)
    for tick in range(1800):
        for robot in range(40):
            rates.by_key("k", "/v1/act/connect", 2.0 * tick + 0.01 * robot)


def test_latency_records_take_nothing():
    """The client bounds them, so they are not counted."""
    rates = Rates(50)
    for _ in range(5000):
        rates.by_key("k", "/v1/latency", 0.0)
    rates.by_key("k", "/v1/account", 0.0)


def test_who_asks_too_often_is_told_the_pace_and_when(slow):
    """429 `busy` with Retry-After, the key's own pace in words, and one request more once that time has passed."""
    client = make_client(slow, first_key())
    assert client.get("/v1/account").status_code == 200
    answer = client.get("/v1/account")
    told = answer.json()
    assert (answer.status_code, told["code"], told["retryable"]) == (429, "busy", True)
    assert "this key may ask 0.5 times a second" in told["detail"]
    assert told["details"] == {"reason": "rate_limited", "per_s": 0.5}
    assert answer.headers["Retry-After"] == f"{told['retry_after_s']:g}" == "2"
    slow.clock.sleep(told["retry_after_s"])
    assert client.get("/v1/account").status_code == 200


def test_two_keys_of_one_account_have_a_pace_each(slow):
    """A script that floods with its key does not slow a robot with another."""
    client = make_client(slow, first_key())
    secret = client.post("/v1/keys", json={"name": "robot"}).json()["secret"]
    bearer = {"Authorization": f"Bearer {secret}"}
    assert client.get("/v1/account").status_code == 429
    assert client.get("/v1/account", headers=bearer).status_code == 200


def test_an_evals_instances_are_not_counted(slow):
    """Their environments connect all at once, and the platform itself decided how many there are."""
    new = accounts.NewKey("k", "seq_live_" + "e" * 43, "eval", "eval")
    with slow.store.write() as session:
        accounts.add_key(session, account_of(slow, first_key()), new, 0.0)
    client = make_client(slow, new.text)
    answers = {client.post("/v1/act/release", json={"model": "arm", "session": "s"}).status_code for _ in range(50)}
    assert 429 not in answers


def test_the_wait_told_is_never_too_short(slow):
    """It is rounded up to a millisecond: who waits it out is let through, at any moment of asking."""
    client = make_client(slow, first_key())
    for step in (0.0001, 0.3, 1 / 3, math.pi / 7):
        while (answer := client.get("/v1/account")).status_code == 200:
            pass
        slow.clock.sleep(step)
        if (answer := client.get("/v1/account")).status_code == 429:
            slow.clock.sleep(answer.json()["retry_after_s"])
            assert client.get("/v1/account").status_code == 200
