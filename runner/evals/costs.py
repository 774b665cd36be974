"""What machines cost for a while, by the shipped price list. Pure."""

from __future__ import annotations

from runner.evals.plan import Machines
from runner.pricing import CARDS, cpu_usd


def machines_usd(machines: Machines, seconds: float) -> float:
    """One side's machines for so long: card, cores and memory apart."""
    each = cpu_usd(machines.cores * seconds, machines.memory_gb * seconds)
    return machines.instances * (each + _card_usd(machines.card, seconds))


def _card_usd(card: str, seconds: float) -> float:
    kind, _, count = card.partition(":")
    prices = {row.gpu: row.usd_per_hour for row in CARDS}
    return 0.0 if kind == "cpu" else int(count or 1) * prices[kind] * seconds / 3600
