"""Who gets a slot and who waits, by example and held against every order of events."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runner.fleet.slots import (
    Fleet,
    Full,
    Granted,
    Lease,
    Queued,
    Rules,
    Warming,
    Worker,
    connect,
    free,
    release,
    swept,
    unneeded,
    wanted,
)

RULES = Rules(target=2, most=3, lease_s=300, queue_timeout_s=120)
ONE = Fleet(workers=(Worker("a", ready=True),))


def asked(fleet, *sessions, now=0.0, rules=RULES, room=0, **more):
    """The fleet after these robots asked in turn, and their answers."""
    answers = []
    for session in sessions:
        fleet, answer = connect(fleet, session, now, rules, room, **more)
        answers.append(answer)
    return fleet, answers


def test_robots_take_the_slots_of_the_emptiest_worker():
    """Each robot gets a slot of its own, spread over the workers that serve."""
    fleet, answers = asked(Fleet(workers=(Worker("a", ready=True), Worker("b", ready=True))), "1", "2", "3")
    assert [answer.lease.worker for answer in answers] == ["a", "b", "a"]
    assert free(fleet, RULES) == 1


def test_asking_again_renews():
    """The same session keeps its slot, for another lease from now."""
    fleet, _ = asked(ONE, "1")
    fleet, [answer] = asked(fleet, "1", now=100.0)
    assert fleet.leases == (Lease("1", "a", 400.0, 0.0, 0.0),) == (answer.lease,)


def test_where_a_worker_can_be_started_robots_warm_and_beyond_it_they_queue():
    """Room for one worker of two slots: two robots wait for it, the others stand in line behind them."""
    fleet, _ = asked(ONE, "1", "2")
    fleet, answers = asked(fleet, "3", "4", "5", "6", room=1)
    assert answers == [Warming(1), Warming(2), Queued(3, 0.0), Queued(4, 0.0)]
    assert wanted(fleet, RULES, floor=0, spare=0, most=None) == 3


def test_the_first_in_line_is_served_first():
    """A slot that becomes free is not given to a robot that came later, even when that one asks first."""
    fleet, _ = asked(ONE, "1", "2", "3", "4")
    fleet = release(fleet, "1")
    fleet, [late, early] = asked(fleet, "4", "3", now=1.0)
    assert late == Queued(2, 1.0)
    assert isinstance(early, Granted)


def test_a_robot_that_falls_silent_loses_its_place_and_in_the_end_its_slot():
    """A place is kept until its robot is late to ask again, a slot for its lease."""
    fleet, _ = asked(ONE, "1", "2", "3", pace=lambda _position: 2.0)
    fleet, [answer] = asked(fleet, "4", now=6.0)
    assert answer == Queued(2, 0.0)
    fleet, [answer] = asked(fleet, "4", now=7.0)
    assert answer == Queued(1, 1.0)
    fleet, [answer] = asked(fleet, "4", now=10.0)
    fleet = swept(fleet, 301.0, RULES)
    assert fleet == ONE


def test_the_line_ends_with_its_time():
    """After queue_timeout_s in line a robot is told so and leaves it; warming up is no time in line."""
    fleet, _ = asked(ONE, "1", "2", now=90.0)
    fleet, [answer] = asked(fleet, "3", now=95.0, room=1)
    assert answer == Warming(1)
    rules = Rules(target=2, most=2, lease_s=300, queue_timeout_s=10)
    for now in (98.0, 102.0, 106.0, 108.0):
        fleet, [answer] = asked(fleet, "3", now=now, rules=rules)
    assert answer == Queued(1, 10.0)
    fleet, [answer] = asked(fleet, "3", now=108.5, rules=rules)
    assert answer == Full(10.5)
    assert fleet.places == ()


def test_where_nobody_may_wait_a_robot_is_refused():
    """on_full="reject" keeps no line."""
    rules = Rules(target=1, most=1, lease_s=300, on_full="reject")
    fleet, answers = asked(ONE, "1", "2", rules=rules)
    assert answers[1] == Full(None)
    assert fleet.places == ()


def test_a_worker_takes_more_while_another_starts():
    """Up to max_inputs, and only as long as a worker is on its way."""
    starting = Fleet(workers=(Worker("a", ready=True), Worker("b", ready=False)))
    _, answers = asked(starting, "1", "2", "3", "4")
    assert [type(answer) for answer in answers] == [Granted, Granted, Granted, Warming]
    _, answers = asked(ONE, "1", "2", "3")
    assert isinstance(answers[2], Queued)


def test_a_robot_whose_worker_is_gone_stands_before_those_that_wait():
    """It came first, so the next slot is its own, also when another asks before it; until it is late to ask at all."""
    fleet, _ = asked(ONE, "1", "2", now=0.0)
    fleet, _ = asked(fleet, "3", now=1.0)
    alone = Rules(target=1, most=1, lease_s=300)
    other = Fleet(workers=(Worker("b", ready=True),), leases=fleet.leases, places=fleet.places)
    fleet, [behind] = asked(other, "3", now=2.0, rules=alone)
    assert behind == Queued(3, 1.0)
    assert [place.session for place in fleet.places] == ["1", "2", "3"]
    fleet, [first] = asked(fleet, "1", now=3.0, rules=alone)
    assert isinstance(first, Granted)
    late = swept(fleet, 3.0 + alone.return_s + alone.silence_s, alone)
    assert "2" not in {place.session for place in late.places}


def test_a_worker_that_leaves_is_left_where_no_episode_is_under_way():
    """A lease on it is renewed and told; a robot that may move gets a slot elsewhere, where there is one."""
    fleet, _ = asked(ONE, "1")
    leaving = Fleet(workers=(Worker("a", ready=True, leaving=True), Worker("b", ready=True)), leases=fleet.leases)
    _, [stays] = asked(leaving, "1", now=1.0)
    assert (stays.lease.worker, stays.leaving) == ("a", True)
    fleet, [moves] = asked(leaving, "1", now=1.0, move=True)
    assert (moves.lease.worker, moves.leaving) == ("b", False)
    assert len(fleet.leases) == 1
    alone = Fleet(workers=leaving.workers[:1], leases=leaving.leases)
    _, [stays] = asked(alone, "1", now=1.0, move=True)
    assert (stays.lease.worker, stays.leaving) == ("a", True)


def test_how_many_workers_are_wanted():
    """One for each `target` robots, spare ones only while there are robots, between floor and most."""
    crowd, _ = asked(ONE, *map(str, range(5)))
    assert wanted(crowd, RULES, floor=0, spare=0, most=None) == 3
    assert wanted(crowd, RULES, floor=0, spare=1, most=None) == 4
    assert wanted(crowd, RULES, floor=0, spare=1, most=2) == 2
    assert wanted(Fleet(), RULES, floor=1, spare=1, most=None) == 1


def test_idle_workers_end_down_to_what_is_wanted():
    """The longest idle first; never one that a robot drives, that starts, or that is wanted."""
    workers = tuple(Worker(name, ready=name != "new") for name in ("a", "b", "c", "new"))
    fleet = Fleet(workers, leases=(Lease("1", "a", 300.0, 0.0, 0.0),))
    idle = {"a": 900.0, "b": 700.0, "c": 800.0, "new": 900.0}
    assert unneeded(fleet, idle, 600, 1) == ["c", "b"]
    assert unneeded(fleet, idle, 600, 3) == ["c"]
    assert unneeded(fleet, idle, 600, 4) == []
    assert unneeded(fleet, idle, 750, 1) == ["c"]


class Robots(RuleBasedStateMachine):
    """Robots that come, go, drive and fall silent on workers that start, serve, leave and die."""

    def __init__(self):
        super().__init__()
        self.now, self.made = 0.0, 0
        self.rules = Rules(target=2, most=3, lease_s=30, queue_timeout_s=20)
        self.cards = 3
        self.fleet = Fleet()
        self.arrived: dict[str, float] = {}

    @property
    def room(self):
        return self.cards - len(self.fleet.workers)

    def ask(self, session, **more):
        before = swept(self.fleet, self.now, self.rules)
        self.fleet, answer = connect(
            self.fleet, session, self.now, self.rules, self.room, pace=lambda _position: 2.0, **more
        )
        known = {one.session for one in (*before.leases, *before.places)}
        if session not in known:
            self.arrived[session] = self.now
        if isinstance(answer, Granted) and session in {place.session for place in before.places}:
            earlier = [place for place in self.fleet.places if place.since < answer.lease.since]
            assert len(earlier) <= free(self.fleet, self.rules), "a later robot took the slot of an earlier one"
        return answer

    @rule(session=st.sampled_from("abcdefgh"), move=st.booleans())
    def a_robot_asks(self, session, move):
        self.ask(session, move=move)

    @rule(session=st.sampled_from("abcdefgh"))
    def a_robot_leaves(self, session):
        self.fleet = release(self.fleet, session)
        assert session not in {one.session for one in (*self.fleet.leases, *self.fleet.places)}

    @rule(seconds=st.floats(0.1, 15))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def workers_are_started(self):
        count = wanted(swept(self.fleet, self.now, self.rules), self.rules, floor=0, spare=0, most=self.cards)
        while len(self.fleet.workers) < count:
            self.made += 1
            self.change((*self.fleet.workers, Worker(f"w{self.made}", ready=False)))
        assert len(self.fleet.workers) <= self.cards

    @precondition(lambda self: self.fleet.workers)
    @rule(data=st.data(), fate=st.sampled_from(["ready", "leaving", "gone"]))
    def a_worker_changes(self, data, fate):
        chosen = data.draw(st.sampled_from(self.fleet.workers))
        others = tuple(worker for worker in self.fleet.workers if worker is not chosen)
        if fate == "gone":
            self.change(others)
        else:
            self.change((*others, Worker(chosen.id, ready=True, leaving=fate == "leaving")))

    def change(self, workers):
        self.fleet = Fleet(workers, self.fleet.leases, self.fleet.places)

    @rule()
    def everybody_waiting_asks(self):
        """Once all who wait have asked, nobody waits while a slot is free, and positions are true."""
        self.fleet = swept(self.fleet, self.now, self.rules)
        waiting = [place.session for place in self.fleet.places]
        answers = {session: self.ask(session) for session in waiting}
        if self.fleet.places:
            assert free(self.fleet, self.rules) == 0
        told = [answer.position for answer in answers.values() if isinstance(answer, Queued)]
        assert told == sorted(set(told))

    @invariant()
    def no_robot_holds_two(self):
        here = [one.session for one in (*self.fleet.leases, *self.fleet.places)]
        assert len(here) == len(set(here))

    @invariant()
    def no_worker_holds_more_than_it_may(self):
        for worker in self.fleet.workers:
            held = [lease for lease in self.fleet.leases if lease.worker == worker.id]
            assert len(held) <= self.rules.most

    @invariant()
    def the_line_is_in_the_order_of_arrival(self):
        since = [place.since for place in self.fleet.places]
        assert since == sorted(since)

    @invariant()
    def every_lease_ends(self):
        assert all(lease.until <= self.now + self.rules.lease_s for lease in self.fleet.leases)


TestRobots = Robots.TestCase
TestRobots.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
