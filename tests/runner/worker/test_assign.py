"""Which copy takes which act: the pure core, driven by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.worker.assign import IDLE_LIMIT_S, Assignment
from runner.worker.batching import Batching, for_evals, for_robots

LATER = 1e6


def turns(assignment, now=LATER):
    """Every turn that begins now: (copy, acts)."""
    begun = []
    while (turn := assignment.next(now)) is not None:
        begun.append((turn.copy, turn.acts))
    return begun


def test_acts_beyond_the_copies_wait_in_order():
    """As many run as there are copies; the others go as copies come free, first come first served."""
    acts = Assignment(2)
    for name in "abcd":
        acts.arrive(name, None, 0.0)
    assert turns(acts) == [(0, ["a"]), (1, ["b"])]
    assert (acts.waiting, acts.finished(1, 1.0)) == (2, ["b"])
    assert turns(acts) == [(1, ["c"])]
    acts.finished(0, 2.0)
    assert turns(acts) == [(0, ["d"])]


def test_an_episode_goes_back_to_its_copy_when_that_is_free():
    """The copy that served an episode last is taken before the longest idle one; when it is busy, another is."""
    acts = Assignment(3)
    acts.arrive("a", "e1", 0.0)
    assert turns(acts) == [(0, ["a"])]
    acts.finished(0, 1.0)
    acts.arrive("b", "e1", 2.0)
    acts.arrive("c", "e1", 2.0)
    acts.arrive("d", None, 2.0)
    assert turns(acts) == [(0, ["b"]), (1, ["c"]), (2, ["d"])]
    assert sorted(acts.ended("e1")) == [0, 1]
    assert acts.ended("e1") == []


def test_the_longest_idle_copy_is_taken_for_an_episode_of_none():
    """Without a copy of its own an act takes the one that has been free for longest."""
    acts = Assignment(2)
    for name in "ab":
        acts.arrive(name, None, 0.0)
    turns(acts)
    acts.finished(1, 1.0)
    acts.finished(0, 2.0)
    acts.arrive("c", "e", 3.0)
    assert turns(acts) == [(1, ["c"])]


def test_a_streaming_episode_waits_for_its_copy():
    """Each new episode begins where the fewest are open; its acts wait for that copy while others go ahead."""
    acts = Assignment(2, sticky=True)
    for number in range(3):
        acts.arrive(f"e{number}", f"e{number}", 0.0)
    assert turns(acts) == [(0, ["e0"]), (1, ["e1"])]
    acts.finished(0, 1.0)
    assert turns(acts) == [(0, ["e2"])]
    acts.finished(1, 2.0)
    acts.arrive("e0 again", "e0", 3.0)
    acts.arrive("e1 again", "e1", 3.0)
    assert turns(acts) == [(1, ["e1 again"])]
    acts.finished(0, 4.0)
    assert turns(acts) == [(0, ["e0 again"])]


def test_the_end_of_a_streaming_episode_makes_room():
    """An episode that ended does not count any more where the next one is placed."""
    acts = Assignment(2, sticky=True)
    for name in ("e0", "e1"):
        acts.arrive(name, name, 0.0)
    for copy, _ in turns(acts):
        acts.finished(copy, 1.0)
    assert acts.ended("e1") == [1]
    acts.arrive("e2", "e2", 2.0)
    assert turns(acts) == [(1, ["e2"])]


@pytest.mark.parametrize("sticky", [True, False])
def test_a_copy_that_is_down_takes_nothing(sticky):
    """Its turn is handed back once, others take what waits, and it serves again when it is up."""
    acts = Assignment(2, sticky=sticky)
    acts.arrive("a", "e", 0.0)
    turns(acts)
    acts.down(0, 1.0)
    assert (acts.serving, acts.finished(0, 1.0), acts.finished(0, 1.0)) == (1, ["a"], [])
    acts.arrive("b", "e", 2.0)
    acts.arrive("c", None, 2.0)
    assert turns(acts) == [(1, ["b"])]
    acts.up(0)
    assert turns(acts) == [(0, ["c"])]
    assert acts.ended("e") == [1]


def test_a_lost_episode_is_told_of_once_and_begins_anew():
    """An episode whose copy died is lost until it is asked about; its next turn is the first of a new state."""
    acts = Assignment(2, sticky=True)
    acts.arrive("a", "e", 0.0)
    turns(acts)
    acts.down(0, 1.0)
    acts.finished(0, 1.0)
    assert [acts.take_lost(name) for name in ("e", "e", "other", None)] == [True, False, False, False]
    assert [acts.take_anew(name) for name in ("e", "e", "other", None)] == [True, False, False, False]
    acts.arrive("b", "e", 2.0)
    assert turns(acts) == [(1, ["b"])]


def test_without_streaming_no_episode_is_lost():
    """A policy without state needs no new beginning when a copy dies."""
    acts = Assignment(2)
    acts.arrive("a", "e", 0.0)
    turns(acts)
    acts.down(0, 1.0)
    assert not acts.take_lost("e")


def test_an_episode_is_stale_after_five_idle_minutes():
    """An episode whose last act ended five minutes ago is named until it is ended; one with an act under way never."""
    acts = Assignment(2)
    acts.arrive("a", "idle", 0.0)
    acts.arrive("b", "busy", 0.0)
    turns(acts)
    acts.finished(0, 100.0)
    assert acts.stale(100.0 + IDLE_LIMIT_S) == []
    assert acts.stale(101.0 + IDLE_LIMIT_S) == ["idle"]
    assert (acts.ended("idle"), acts.stale(101.0 + IDLE_LIMIT_S), acts.open()) == ([0], [], ["busy"])


def test_a_batch_goes_once_nothing_came_for_a_while():
    """Acts gather until it was quiet for as long as is waited, and then go together in order."""
    acts = Assignment(1, batching=Batching(4, quiet_s=0.02, longest_s=0.25))
    acts.arrive("a", None, 0.0)
    acts.arrive("b", None, 0.015)
    assert (turns(acts, 0.03), acts.due()) == ([], 0.035)
    assert turns(acts, 0.035) == [(0, ["a", "b"])]
    assert acts.due() is None


def test_a_full_batch_goes_at_once():
    """At the largest size there is nothing to wait for; what is beyond it is the next batch."""
    acts = Assignment(2, batching=Batching(2, quiet_s=1.0, longest_s=1.0))
    for name in "abc":
        acts.arrive(name, None, 0.0)
    assert turns(acts, 0.0) == [(0, ["a", "b"])]
    assert acts.due() == 1.0


def test_a_steady_trickle_does_not_hold_a_batch_for_ever():
    """However often another act comes, the first waits no longer than it may."""
    acts = Assignment(1, batching=Batching(256, quiet_s=0.02, longest_s=0.25))
    now = 0.0
    while not (begun := turns(acts, now)):
        acts.arrive(now, None, now)
        now += 0.01
    assert now == pytest.approx(0.25)
    assert len(begun[0][1]) == 25


def test_what_waited_for_a_copy_does_not_wait_again():
    """Acts that came while every copy was busy go together as soon as one is free."""
    acts = Assignment(1, batching=Batching(8, quiet_s=0.02, longest_s=0.25))
    acts.arrive("a", None, 0.0)
    turns(acts, 0.02)
    for name in "bc":
        acts.arrive(name, None, 0.1)
    assert acts.due() is None
    acts.finished(0, 1.0)
    assert turns(acts, 1.0) == [(0, ["b", "c"])]


def test_how_long_a_batch_waits():
    """An eval waits as declared within its bounds; a robot only as declared, and where robots outnumber copies."""
    assert for_evals(8, None) == Batching(8, 0.02, 0.25)
    assert for_evals(8, 500) == Batching(8, 0.5, 0.5)
    assert for_evals(8, 10_000) == Batching(8, 10.0, 1.0)
    assert for_evals(8, 0) == Batching(8, 0.0, 0.25)
    assert for_robots(8, None, crowded=True) == for_robots(8, 10, crowded=False) == Batching(8)
    assert for_robots(8, 10, crowded=True) == Batching(8, 0.01, 0.01)


@given(
    st.integers(1, 4),
    st.booleans(),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(["come", "done", "die", "up", "end"]), st.integers(0, 3)), max_size=60),
)
def test_every_act_runs_once_and_none_waits_beside_a_free_copy(copies, sticky, most, events):
    """Whatever happens in whatever order: one turn a copy, no act twice, none idle that could run, each in order."""
    most = 1 if sticky else most
    acts = Assignment(copies, batching=Batching(most), sticky=sticky)
    running, down, begun, came = {}, set(), [], 0
    for now, (what, which) in enumerate(events):
        if what == "come":
            acts.arrive((came, which), f"e{which}", now)
            came += 1
        elif what == "done" and running.pop(which, None):
            acts.finished(which, now)
        elif what == "die" and which < copies and which not in down:
            down.add(which)
            acts.down(which, now)
            acts.finished(which, now)
            running.pop(which, None)
        elif what == "up" and which in down:
            down.discard(which)
            acts.up(which)
        elif what == "end":
            acts.ended(f"e{which}")
        for copy, items in turns(acts, now):
            assert copy not in running
            assert copy not in down
            assert len(items) <= most
            running[copy] = items
            begun += items
        free = copies - len(down) - len(running)
        assert not acts.waiting or not free or sticky
    assert len(set(begun)) == len(begun)
    assert len(begun) + acts.waiting == came
    for which in range(4):
        mine = [number for number, episode in begun if episode == which]
        assert mine == sorted(mine)
