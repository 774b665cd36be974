"""Whether an eval's cards can be had now. What cannot start at once waits in line, whole, and gives up in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.errors import Refused
from runner.evals.plan import Plan, card_of
from runner.store.tables import Eval
from runner.times import iso

TIMEOUT_S = 600.0
NEXT_CARD_AFTER_S = 60.0


@dataclass(frozen=True)
class Stock:
    """Cards of the platform by kind, what all accounts hold of them, and this account's limit and holdings."""

    there: Mapping[str, int]
    held: Mapping[str, int]
    limit: int
    serving: int
    evals: int

    @property
    def available(self) -> int:
        """How many more cards the account may hold."""
        return max(0, self.limit - self.serving - self.evals)

    def free(self, kinds: Iterable[str]) -> int:
        """How many more cards of these kinds the account may hold now."""
        return min(self.available, sum(self._unheld(kind) for kind in kinds))

    def lacks(self, cards: Mapping[str, int]) -> str | None:
        """Why these cards cannot be had now: the reason's word; None where they can."""
        if sum(cards.values()) > self.available:
            return "gpu_limit_reached"
        if all(self._unheld(kind) >= wanted for kind, wanted in cards.items()):
            return None
        return "gpu_low_stock" if any(self._unheld(kind) for kind in self.there) else "gpu_busy"

    def _unheld(self, kind: str) -> int:
        return max(0, self.there.get(kind, 0) - self.held.get(kind, 0))


@dataclass(frozen=True)
class Choice:
    """A card for each policy, and the cards by kind that the whole eval then holds."""

    cards: tuple[str, ...]
    held: dict[str, int]


def refuse_beyond_limit(plan: Plan, stock: Stock) -> None:
    """Raise Refused for an eval that the account's limit can never hold."""
    wanted = sum(plan.cards.values())
    if wanted > stock.limit:
        raise Refused(
            "conflict",
            f"this eval needs {wanted} cards at once and the account may hold {stock.limit}, so it never fits",
            hint="ask for fewer instances or arms, or a smaller card",
            reason="gpu_limit_reached",
            limit=stock.limit,
            requested=wanted,
            short=wanted - stock.limit,
            in_use={"serving": stock.serving, "eval": stock.evals},
        )


def cards_block(plan: Plan, stock: Stock) -> dict[str, Any]:
    """The `cards` block of a dry run: the layout's cards beside the account's, and what a real run would do."""
    total, reason = sum(plan.cards.values()), stock.lacks(plan.cards)
    policies = [policy.machines for policy in plan.policies]
    of_policies = sum(card_of(machines.card)[1] * machines.instances for machines in policies)
    free = stock.free(plan.cards) if plan.cards else stock.available
    block: dict[str, Any] = {
        "policy": {
            "instances": sum(machines.instances for machines in policies),
            "gpu": policies[0].card,
            "cards_each": of_policies // sum(machines.instances for machines in policies),
        },
        "benchmark": {
            "instances": plan.benchmark.instances * plan.playing,
            "gpu": plan.benchmark.card,
            "cards_each": card_of(plan.benchmark.card)[1],
        },
        "total": total,
        "limit": stock.limit,
        "in_use": {"serving": stock.serving, "eval": stock.evals},
        "available": free,
        "short": 0 if reason is None else max(1, total - free),
        "would_queue": reason is not None and total <= stock.limit,
        "queue_timeout_s": int(TIMEOUT_S),
    }
    return block if reason is None else {**block, "reason": reason}


def wait_block(row: Eval, now: float) -> dict[str, Any]:
    """How many cards an eval in line waits for, since when, and when it gives up."""
    return {
        "cards": sum(row.cards.values()),
        "waited_s": round(now - row.created_at, 1),
        "gives_up_at": iso(row.created_at + TIMEOUT_S),
    }


def choices(policies: Sequence[Mapping[str, Any]], benchmark: Mapping[str, int], waited_s: float) -> list[Choice]:
    """What an eval that has waited so long may be laid out on, its first choice first.

    After each minute the next card of its policies' lists is tried, too.
    """
    most = max(len(policy["cards"]) for policy in policies)
    tried = min(most, 1 + int(waited_s // NEXT_CARD_AFTER_S))
    found = []
    for number in range(tried):
        cards = tuple(policy["cards"][min(number, len(policy["cards"]) - 1)] for policy in policies)
        held: Counter[str] = Counter(benchmark)
        for policy, card in zip(policies, cards, strict=True):
            kind, each = card_of(card)
            if each and policy["machines"]["instances"]:
                held[kind] += each * policy["machines"]["instances"]
        found.append(Choice(cards, dict(held)))
    return found


def held_by_kind(given: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Holdings of one kind after the other, added up."""
    held: Counter[str] = Counter()
    for kind, number in given:
        held[kind] += number
    return dict(held)
