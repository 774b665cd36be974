"""The fleet's decisions over a simulated day, on a clock moved by hand: waits, starts, and what a decision costs.

Nothing real runs but `runner.fleet.slots`. Robots think, drive, ask again as the client does, and fall silent now and
then; workers take a while to start. `waits` of one fixed fleet are held against the queue M/G/k (Erlang C, with
Allen and Cunneen's factor for service times that are not exponential), whose service includes half a poll.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from bench.rows import Promise, Row
from bench.supports.robots_day import Day, Demand, simulate
from runner.fleet.slots import Fleet, Rules, Worker, connect

LEASE_S, POLL_S = 300.0, 2.2
THE_DAY = "a day of many robots"

PROMISES = (
    Promise(THE_DAY, "double_leases", at_most=0),
    Promise(THE_DAY, "waited_beyond_the_limit", at_most=0),
    Promise("a fixed fleet at 0.7 of its slots", "wait_to_theory", at_most=1.3),
    Promise("a fixed fleet at 0.9 of its slots", "wait_to_theory", at_most=1.3),
)


@dataclass(frozen=True)
class Size:
    """Robots, deployments and hours of the day; customers of each fixed fleet; decisions timed."""

    robots: int = 10_000
    deployments: int = 500
    hours: float = 24.0
    customers: int = 20_000
    decisions: int = 2_000


FULL, TINY = Size(), Size(robots=40, deployments=4, hours=0.5, customers=400, decisions=20)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:
    """The day, two fixed fleets, and a decision at growing numbers of robots."""
    fixed = [_fixed(load, size, seed) for load in (0.7, 0.9)]
    return [_day(size, seed), *fixed, *(_cost(robots, size) for robots in (10, 100, 1000))]


def _day(size: Size, seed: int) -> Row:
    chance = np.random.default_rng(seed)
    shares = chance.pareto(1.5, size.deployments) + 1
    robots = np.maximum(1, np.round(size.robots * shares / shares.sum())).astype(int)
    rules = Rules(target=4, most=4, lease_s=LEASE_S, queue_timeout_s=600)
    days: list[Day] = []
    for number, count in enumerate(robots):
        workers = max(1, math.ceil(0.3 * count / rules.target))
        demand = Demand(robots=int(count), session_s=900, think_s=2700, silent=0.01)
        days.append(simulate(demand, rules, workers, start_s=60, end_s=size.hours * 3600, seed=[seed, number]))
    waits = np.concatenate([day.waits for day in days])
    all_waits = np.concatenate([waits, *(day.open_waits for day in days)])
    return Row(
        THE_DAY,
        {
            "robots": int(robots.sum()),
            "deployments": size.deployments,
            "sessions": len(waits),
            "wait_p50_s": float(np.quantile(waits, 0.5)),
            "wait_p99_s": float(np.quantile(waits, 0.99)),
            "wait_max_s": float(waits.max()),
            "given_up": sum(day.given_up for day in days),
            "waited_beyond_the_limit": int((all_waits > rules.queue_timeout_s + 60 + 2 * POLL_S).sum()),
            "double_leases": sum(day.double_leases for day in days),
            "workers_started": sum(day.started for day in days),
            "workers_ended": sum(day.ended for day in days),
            "decisions": sum(day.decisions for day in days),
        },
        {"wait_s": np.quantile(waits, np.linspace(0, 1, 201)).tolist(), "share": np.linspace(0, 1, 201).tolist()},
    )


def _fixed(load: float, size: Size, seed: int) -> Row:
    """Customers of a Poisson stream at three workers of four slots that are always there."""
    rules, workers, service_s, spread = Rules(4, 4, LEASE_S, queue_timeout_s=1e9), 3, 300.0, 0.5
    slots = workers * rules.target
    arrivals_s = service_s / (slots * load)
    demand = Demand(robots=size.customers, session_s=service_s, think_s=arrivals_s, spread=spread, stream=True)
    day = simulate(demand, rules, workers, start_s=0.0, end_s=math.inf, seed=[seed, int(100 * load)], floor=workers)
    warm = day.waits[len(day.waits) // 10 :]
    theory = waiting_s(slots, 1 / arrivals_s, service_s + POLL_S / 2, _variation(spread))
    mean = float(warm.mean())
    return Row(
        f"a fixed fleet at {load:g} of its slots",
        {"wait_mean_s": mean, "theory_s": theory, "wait_to_theory": mean / (theory + POLL_S / 2)},
    )


def waiting_s(slots: int, rate: float, service_s: float, variation: float) -> float:
    """The mean wait of M/G/k: Erlang's C over what is left of the slots, times (1 + the squared variation) / 2."""
    offered = rate * service_s
    terms = [offered**n / math.factorial(n) for n in range(slots)]
    last = offered**slots / math.factorial(slots) * slots / (slots - offered)
    return last / (sum(terms) + last) / (slots / service_s - rate) * (1 + variation) / 2


def _variation(spread: float) -> float:
    """The squared coefficient of variation of a lognormal time."""
    return math.exp(spread**2) - 1


def _cost(robots: int, size: Size) -> Row:
    rules = Rules(target=4, most=4, lease_s=LEASE_S)
    fleet = Fleet(tuple(Worker(f"w{number:04}", ready=True) for number in range(max(1, robots // 6))))
    for robot in range(robots):
        fleet, _ = connect(fleet, f"r{robot}", 0.0, rules, 0)
    begun = time.perf_counter()
    for number in range(size.decisions):
        connect(fleet, f"r{number % robots}", 1.0, rules, 0)
    each = (time.perf_counter() - begun) / size.decisions
    return Row(f"a decision among {robots} robots", {"decision_us": each * 1e6})
