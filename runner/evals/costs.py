"""What machines cost for a while, by the shipped price list. Pure."""

from __future__ import annotations

from dataclasses import replace

from runner.evals.plan import Machines, Plan, card_of
from runner.pricing import CARDS, MIN_BILLABLE_S, cpu_usd


def machines_usd(machines: Machines, seconds: float) -> float:
    """One side's machines for so long: card, cores and memory apart."""
    return machines.instances * machine_usd(machines.card, machines.cores, machines.memory_gb, seconds)


def machine_usd(card: str, cores: float, memory_gb: float, seconds: float) -> float:
    """One machine for so long."""
    return _card_usd(card, seconds) + cpu_usd(cores * seconds, memory_gb * seconds)


def worker_usd(card: str, cores: float, memory_gb: float, seconds: float) -> float:
    """One policy worker for so long, at least the shortest time that is billed."""
    return machine_usd(card, cores, memory_gb, max(seconds, MIN_BILLABLE_S))


def plan_usd(plan: Plan, seconds: float, *, dearest: bool = False) -> float:
    """All machines of a plan for so long; each policy on the card it gets first, or on the dearest it may get."""
    policies = sum(
        max(machines_usd(replace(policy.machines, card=card), max(seconds, MIN_BILLABLE_S)) for card in cards)
        for policy in plan.policies
        for cards in [policy.cards if dearest else (policy.machines.card,)]
    )
    return policies + plan.playing * machines_usd(plan.benchmark, seconds)


def _card_usd(card: str, seconds: float) -> float:
    kind, number = card_of(card)
    prices = {row.gpu: row.usd_per_hour for row in CARDS}
    return number * prices[kind] * seconds / 3600 if number else 0.0
