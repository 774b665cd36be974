"""Robots and workers of one deployment as events in time, deciding with `runner.fleet.slots`."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field, replace

import numpy as np

from runner.fleet.slots import Answer, Fleet, Full, Granted, Rules, Worker, connect, release, swept, unneeded, wanted

RETRY_S, JITTER = 2.0, 0.2
IDLE_TIMEOUT_S, LOOK_EVERY_S = 600.0, 60.0


@dataclass(frozen=True)
class Demand:
    """Robots that think, drive and think again; times are means in s.

    Driving times are lognormal with this `spread`, thinking times exponential; the share `silent` of those that got a
    slot falls silent instead of giving it back. `stream`: each robot drives once, arriving `think_s` after another.
    """

    robots: int
    session_s: float
    think_s: float
    spread: float = 0.5
    silent: float = 0.0
    stream: bool = False


@dataclass
class Day:
    """What came of it: waits in s, of each session that began and of each robot that still waits at the end; counts."""

    waits: np.ndarray = field(default_factory=lambda: np.zeros(0))
    open_waits: np.ndarray = field(default_factory=lambda: np.zeros(0))
    given_up: int = 0
    double_leases: int = 0
    started: int = 0
    ended: int = 0
    decisions: int = 0


def simulate(
    demand: Demand, rules: Rules, workers: int, *, start_s: float, end_s: float, seed: list[int], floor: int = 0
) -> Day:
    """Play `demand` on at most `workers` workers, each of which takes `start_s` to start, until `end_s`."""
    return _Simulation(demand, rules, workers, start_s, floor, np.random.default_rng(seed)).run(end_s)


def _pace(_position: int) -> float:
    return RETRY_S * (1 + JITTER)


class _Simulation:
    def __init__(
        self, demand: Demand, rules: Rules, workers: int, start_s: float, floor: int, chance: np.random.Generator
    ) -> None:
        self.demand, self.rules, self.workers, self.start_s, self.floor = demand, rules, workers, start_s, floor
        self.chance = chance
        self.fleet = Fleet()
        self.events: list[tuple[float, int, str, str]] = []
        self.order = itertools.count()
        self.asking: dict[str, float] = {}
        self.driving: dict[str, float] = {}
        self.busy: dict[str, float] = {}
        self.waits: list[float] = []
        self.day = Day()

    def run(self, end_s: float) -> Day:
        arrival = 0.0
        for robot in range(self.demand.robots):
            thinks = self.chance.exponential(self.demand.think_s)
            arrival = arrival + thinks if self.demand.stream else thinks
            self.at(arrival, "asks", f"r{robot}")
        self.scale(0.0)
        self.at(LOOK_EVERY_S, "looks", "")
        now = 0.0
        while len(self.events) > 1 and self.events[0][0] < end_s:  # the next look alone is no life
            now, _, what, who = heapq.heappop(self.events)
            getattr(self, what)(now, who)
        self.day.waits = np.array(self.waits or [0.0])
        self.day.open_waits = np.array([now - since for since in self.asking.values()])
        return self.day

    def at(self, when: float, what: str, who: str) -> None:
        heapq.heappush(self.events, (when, next(self.order), what, who))

    def asks(self, now: float, robot: str) -> None:
        self.asking.setdefault(robot, now)
        answer = self.connect(now, robot)
        if isinstance(answer, Granted):
            self.begins(now, robot)
        elif isinstance(answer, Full):
            self.day.given_up += 1
            del self.asking[robot]
            self.thinks(now, robot)
        else:
            self.at(now + RETRY_S * self.chance.uniform(1, 1 + JITTER), "asks", robot)
        self.scale(now)

    def begins(self, now: float, robot: str) -> None:
        self.waits.append(now - self.asking.pop(robot))
        mean = np.log(self.demand.session_s) - self.demand.spread**2 / 2
        self.driving[robot] = now + self.chance.lognormal(mean, self.demand.spread)
        self.goes_on(now, robot)

    def goes_on(self, now: float, robot: str) -> None:
        renewal = now + self.rules.lease_s / 2
        ends = self.driving[robot]
        self.at(*((ends, "leaves") if ends <= renewal else (renewal, "renews")), robot)

    def renews(self, now: float, robot: str) -> None:
        self.connect(now, robot)
        self.goes_on(now, robot)

    def leaves(self, now: float, robot: str) -> None:
        del self.driving[robot]
        if self.chance.random() >= self.demand.silent:
            self.fleet = release(self.fleet, robot)
        self.thinks(now, robot)
        self.scale(now)

    def thinks(self, now: float, robot: str) -> None:
        if not self.demand.stream:
            self.at(now + self.chance.exponential(self.demand.think_s), "asks", robot)

    def ready(self, now: float, worker: str) -> None:
        others = tuple(one for one in self.fleet.workers if one.id != worker)
        self.fleet = replace(self.fleet, workers=(*others, Worker(worker, ready=True)))
        self.scale(now)

    def looks(self, now: float, _nobody: str) -> None:
        """End what nobody drives any more and nobody needs."""
        self.fleet = swept(self.fleet, now, self.rules)
        self.scale(now)
        busy = {lease.worker for lease in self.fleet.leases}
        self.busy |= dict.fromkeys(busy, now)
        idle = {worker.id: now - self.busy.setdefault(worker.id, now) for worker in self.fleet.workers}
        count = wanted(self.fleet, self.rules, floor=self.floor, spare=0, most=self.workers)
        gone = set(unneeded(self.fleet, idle, IDLE_TIMEOUT_S, count))
        workers = tuple(worker for worker in self.fleet.workers if worker.id not in gone)
        self.fleet = replace(self.fleet, workers=workers)
        self.day.ended += len(gone)
        self.at(now + LOOK_EVERY_S, "looks", "")

    def connect(self, now: float, robot: str) -> Answer:
        self.day.decisions += 1
        room = self.workers - len(self.fleet.workers)
        self.fleet, answer = connect(self.fleet, robot, now, self.rules, room, pace=_pace)
        if isinstance(answer, Granted):
            here = sum(lease.worker == answer.lease.worker for lease in self.fleet.leases)
            self.day.double_leases += here > self.rules.most
        return answer

    def scale(self, now: float) -> None:
        """Start what is wanted."""
        count = wanted(self.fleet, self.rules, floor=self.floor, spare=0, most=self.workers)
        while len(self.fleet.workers) < count:
            self.day.started += 1
            worker = f"w{self.day.started}"
            at_once = self.start_s == 0
            self.fleet = replace(self.fleet, workers=(*self.fleet.workers, Worker(worker, ready=at_once)))
            if not at_once:
                self.at(now + self.start_s, "ready", worker)
