"""Who gets a slot of a deployment's workers, who waits, and how many workers that asks for. Pure.

Robots ask again at the pace they are told. So a free slot is nobody's by name: it is left to those who came first by
counting the places before one's own, and a place whose robot has fallen silent is given up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Rules:
    """What a deployment declares. Times in s.

    Attributes:
        target: robots a worker takes before another one is wanted; its slots, unless declared.
        most: robots it takes while that one starts.
        lease_s: how long a slot is held without a renewal.
        on_full: whether robots wait in line when no slot is free and no worker can be started.
        queue_timeout_s: how long they do.
        silence_s: how long a place is kept for a robot that is late to ask again.
        return_s: within which time a robot whose worker is gone asks again.
    """

    target: int
    most: int
    lease_s: float
    on_full: Literal["queue", "reject"] = "queue"
    queue_timeout_s: float = 120.0
    silence_s: float = 4.0
    return_s: float = 20.0


@dataclass(frozen=True)
class Worker:
    """A worker that serves, or is on its way to; `leaving` ones take no robot any more."""

    id: str
    ready: bool
    leaving: bool = False


@dataclass(frozen=True)
class Lease:
    """A robot's slot: on which worker, until when, since when the robot is here, and since when it drives."""

    session: str
    worker: str
    until: float
    since: float
    began: float


@dataclass(frozen=True)
class Place:
    """A robot that waits: since when, by when it asks again, and since when no worker is on its way for it."""

    session: str
    since: float
    due: float
    queued: float | None = None


@dataclass(frozen=True)
class Fleet:
    """One deployment at one moment. Places are in the order of arrival."""

    workers: tuple[Worker, ...] = ()
    leases: tuple[Lease, ...] = ()
    places: tuple[Place, ...] = ()

    @property
    def robots(self) -> int:
        """Those that drive and those that wait."""
        return len(self.leases) + len(self.places)


@dataclass(frozen=True)
class Granted:
    """A slot; `leaving` asks the robot to move where no episode is under way."""

    lease: Lease
    leaving: bool


@dataclass(frozen=True)
class Warming:
    """A worker is on its way, or can be; 1 is the front of those that wait."""

    position: int


@dataclass(frozen=True)
class Queued:
    """A place in line, 1 being the front, and for how long it has been in line."""

    position: int
    queued_s: float


@dataclass(frozen=True)
class Full:
    """No slot, and no place in line: nobody may wait, or this robot has for as long as it may."""

    waited_s: float | None


Answer = Granted | Warming | Queued | Full
Pace = Callable[[int], float]
"""Within how many seconds a robot at a position asks again."""


def at_once(_position: int) -> float:
    """Nobody needs a pause."""
    return 0.0


def connect(
    fleet: Fleet, session: str, now: float, rules: Rules, room: int, *, move: bool = False, pace: Pace = at_once
) -> tuple[Fleet, Answer]:
    """What a robot that asks is answered, and the fleet after it. `room` is how many more workers could be started.

    The same question renews: a lease is extended on a worker that still serves; at `move` a worker that is leaving is
    left for one with a free slot. A robot whose worker is gone keeps its turn, since it came before those that wait.
    One that has to wait will ask again at the `pace` of its place.
    """
    fleet = swept(fleet, now, rules)
    held = next((lease for lease in fleet.leases if lease.session == session), None)
    if held is not None:
        return _renewed(fleet, held, now, rules, move=move)
    fleet = _with_place(fleet, session, now)
    ahead = next(index for index, place in enumerate(fleet.places) if place.session == session)
    taken = _free_worker(fleet, rules) if ahead < free(fleet, rules) else None
    if taken is not None:
        since = fleet.places[ahead].since
        lease = Lease(session, taken, now + rules.lease_s, since, now)
        return _with_lease(_without(fleet, session), lease), Granted(lease, leaving=False)
    place = fleet.places[ahead]
    fleet = _replaced(fleet, replace(place, due=now + pace(ahead + 1)))
    return _waiting(fleet, ahead, now, rules, room)


def release(fleet: Fleet, session: str) -> Fleet:
    """The fleet without a robot that left; an unknown one is nothing."""
    return _without(fleet, session)


def swept(fleet: Fleet, now: float, rules: Rules) -> Fleet:
    """The fleet without leases that ended and places of robots that fell silent.

    Robots whose worker is gone came before those that wait, so they have their place by that, for as long as it takes
    them to find out.
    """
    serving = {worker.id for worker in fleet.workers if worker.ready}
    leases = tuple(lease for lease in fleet.leases if lease.until > now)
    lost = [lease for lease in leases if lease.worker not in serving]
    if lost:
        leases = tuple(lease for lease in leases if lease.worker in serving)
        places = [*fleet.places, *(Place(one.session, one.since, now + rules.return_s) for one in lost)]
        fleet = replace(fleet, places=tuple(sorted(places, key=lambda place: place.since)))
    places = tuple(place for place in fleet.places if now - place.due <= rules.silence_s)
    return replace(fleet, leases=leases, places=places)


def free(fleet: Fleet, rules: Rules) -> int:
    """How many robots could be given a slot now."""
    limit = _limit(fleet, rules)
    taken = _taken(fleet)
    return sum(max(0, limit - taken[worker.id]) for worker in fleet.workers if worker.ready and not worker.leaving)


def wanted(fleet: Fleet, rules: Rules, *, floor: int, spare: int, most: int | None) -> int:
    """How many workers there should be: for each `target` robots one, `spare` more while there are robots, at least
    `floor`, at most `most` (None: no limit of the deployment's own).
    """
    needed = math.ceil(fleet.robots / rules.target) + (spare if fleet.robots else 0)
    count = max(floor, needed)
    return count if most is None else min(count, most)


def unneeded(fleet: Fleet, idle_s: Mapping[str, float], idle_timeout_s: float, count: int) -> list[str]:
    """Workers to end, the longest idle first, so that `count` are left; those that start are left alone.

    Nobody drives them, and they have been idle for too long; `idle_s` says for how long, by worker.
    """
    taken = _taken(fleet)
    idle = [
        worker.id
        for worker in fleet.workers
        if worker.ready and not worker.leaving and not taken[worker.id] and idle_s.get(worker.id, 0.0) > idle_timeout_s
    ]
    spare = sum(not worker.leaving for worker in fleet.workers) - count
    return sorted(idle, key=lambda worker: -idle_s[worker])[: max(0, spare)]


def _renewed(fleet: Fleet, held: Lease, now: float, rules: Rules, *, move: bool) -> tuple[Fleet, Granted]:
    leaving = next(worker.leaving for worker in fleet.workers if worker.id == held.worker)
    other = _free_worker(fleet, rules) if move and leaving else None
    lease = replace(held, worker=other or held.worker, until=now + rules.lease_s)
    return _with_lease(fleet, lease), Granted(lease, leaving=leaving and other is None)


def _waiting(fleet: Fleet, ahead: int, now: float, rules: Rules, room: int) -> tuple[Fleet, Answer]:
    coming = sum(not worker.ready and not worker.leaving for worker in fleet.workers) + room
    place = fleet.places[ahead]
    if ahead - free(fleet, rules) < coming * rules.target:
        return _replaced(fleet, replace(place, queued=None)), Warming(ahead + 1)
    if rules.on_full == "reject":
        return _without(fleet, place.session), Full(None)
    queued = now if place.queued is None else place.queued
    if now - queued > rules.queue_timeout_s:
        return _without(fleet, place.session), Full(now - queued)
    return _replaced(fleet, replace(place, queued=queued)), Queued(ahead + 1, now - queued)


def _limit(fleet: Fleet, rules: Rules) -> int:
    starting = any(not worker.ready and not worker.leaving for worker in fleet.workers)
    return rules.most if starting else rules.target


def _taken(fleet: Fleet) -> Counter[str]:
    return Counter(lease.worker for lease in fleet.leases)


def _free_worker(fleet: Fleet, rules: Rules) -> str | None:
    """The worker with the fewest robots that takes one more."""
    taken, limit = _taken(fleet), _limit(fleet, rules)
    open_ones = [worker.id for worker in fleet.workers if worker.ready and not worker.leaving]
    fitting = [worker for worker in open_ones if taken[worker] < limit]
    return min(fitting, key=lambda worker: (taken[worker], worker), default=None)


def _with_lease(fleet: Fleet, lease: Lease) -> Fleet:
    others = tuple(other for other in fleet.leases if other.session != lease.session)
    return replace(fleet, leases=(*others, lease))


def _with_place(fleet: Fleet, session: str, now: float) -> Fleet:
    """The robot where it stands, or at the end of the line."""
    if any(place.session == session for place in fleet.places):
        return fleet
    places = (*fleet.places, Place(session, now, now))
    return replace(fleet, places=tuple(sorted(places, key=lambda place: place.since)))


def _replaced(fleet: Fleet, place: Place) -> Fleet:
    places = tuple(place if other.session == place.session else other for other in fleet.places)
    return replace(fleet, places=places)


def _without(fleet: Fleet, session: str) -> Fleet:
    leases = tuple(lease for lease in fleet.leases if lease.session != session)
    places = tuple(place for place in fleet.places if place.session != session)
    return replace(fleet, leases=leases, places=places)
