"""Which card the next worker of a deployment gets, how many more could start now, or why none. Pure.

Three limits hold at once: what the platform has of a kind, what an account may hold, and what a deployment may
(`max_gpus`). "cpu" counts as one card for the deployment and as none for the other two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

CPU = "cpu"
NEXT_CARD_AFTER_S = 60.0
A_CORE = 4
"""Workers a deployment may hold on each core where `max_gpus` asks for more than the machine can carry."""


@dataclass(frozen=True)
class Held:
    """The `count` cards of one kind (`L4`, `cpu`) that a worker holds from when it is wanted until it has ended.

    An eval's count for the account and the platform; for the deployment only those that serve, or check its build.
    """

    card: str
    count: int
    account: str
    deployment: str
    purpose: Literal["serve", "eval", "check"]


@dataclass(frozen=True)
class Wish:
    """One more worker. `cards` in order of preference, as declared: `("L4:2", "H100:2")`, all with the same count.

    `short_since` is what the offer before this one said; None for a first wish, and again once no worker is wanted.
    """

    account: str
    deployment: str
    cards: tuple[str, ...]
    max_gpus: int | None
    short_since: float | None


@dataclass(frozen=True)
class Stock:
    """What there is: cards by kind, processor cores, and the cards that one account may hold."""

    cards: Mapping[str, int]
    cores: int
    account_limit: int


@dataclass(frozen=True)
class Lack:
    """Why there is no card: one of the five reasons, a sentence, and the numbers of it that go beside it (wire 1.7)."""

    reason: str
    detail: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Offer:
    """The kind of card the next worker gets, how many of them (1 for "cpu"), and how many such workers could start now.

    `card` is None and `room` 0 where none can: `lack` says why. `short_since` is since when the first choice could
    not be had, for the next wish.
    """

    card: str | None
    count: int
    room: int
    lack: Lack | None
    short_since: float | None = None


def offer(wish: Wish, held: Sequence[Held], stock: Stock, now: float) -> Offer:
    """The first choice where it can be had; each card after it once the first could not for one minute more.

    A card that the platform does not have at all is passed over without the wait. Without `max_gpus` a deployment
    may hold as many workers on "cpu" as there are cores.
    """
    count, left = _count(wish.cards[0]), _left(wish, held, stock)
    if left.deployment is not None and left.deployment < count:
        return Offer(None, count, 0, _full(wish, count))
    kinds = [kind for kind in map(_kind, wish.cards) if kind == CPU or stock.cards.get(kind, 0) >= count]
    rooms = [_room(kind, count, left) for kind in kinds]
    short_since = None
    if not rooms or rooms[0] < 1:
        short_since = now if wish.short_since is None else wish.short_since
    tried = 1 if short_since is None else 1 + int((now - short_since) // NEXT_CARD_AFTER_S)
    for kind, room in zip(kinds[:tried], rooms, strict=False):
        if room > 0:
            return Offer(kind, count, room, None, short_since)
    coming = None
    if short_since is not None and tried < len(kinds):
        wait_s = NEXT_CARD_AFTER_S * tried - (now - short_since)
        coming = f"the next card of gpu=, {kinds[tried]}, is tried in {math.ceil(wait_s)} s"
    return Offer(None, count, 0, _lack(wish, count, left, stock, kinds, coming), short_since)


def queue_timeout(waited_s: float) -> Lack:
    """What a robot is told that has waited in line for as long as it may."""
    detail = f"no slot became free: this robot waited in line for {waited_s:.0f} s, the most its deployment allows"
    return Lack("queue_timeout", f"{detail} (queue_timeout_s)", {"waited_s": waited_s})


@dataclass(frozen=True)
class _Left:
    """What is left for one wish of each limit, and what of its account is in use; `deployment` None is no limit."""

    deployment: int | None
    account: int
    kinds: Mapping[str, int]
    cores: int
    crowd: int
    serving: int
    evals: int


def _left(wish: Wish, held: Sequence[Held], stock: Stock) -> _Left:
    mine = [one for one in held if one.account == wish.account]
    own = [one for one in mine if one.deployment == wish.deployment and one.purpose != "eval"]
    evals = _sum(one for one in mine if one.purpose == "eval" and one.card != CPU)
    serving = _sum(one for one in mine if one.purpose != "eval" and one.card != CPU)
    used: Counter[str] = Counter()
    for one in held:
        used[one.card] += one.count
    return _Left(
        deployment=None if wish.max_gpus is None else max(0, wish.max_gpus - _sum(own)),
        account=max(0, stock.account_limit - serving - evals),
        kinds={kind: max(0, there - used[kind]) for kind, there in stock.cards.items()},
        cores=max(0, stock.cores - _sum(one for one in own if one.card == CPU)),
        crowd=max(0, A_CORE * stock.cores - _sum(one for one in own if one.card == CPU)),
        serving=serving,
        evals=evals,
    )


def _room(kind: str, count: int, left: _Left) -> int:
    if kind == CPU:
        return left.cores if left.deployment is None else min(left.deployment, left.crowd)
    limits = [left.account, left.kinds[kind], *([] if left.deployment is None else [left.deployment])]
    return min(limits) // count


def _lack(wish: Wish, count: int, left: _Left, stock: Stock, kinds: Sequence[str], coming: str | None) -> Lack:
    """Why the first choice cannot be had, the deployment's own limit aside; `coming` is what is tried next."""
    if not kinds:
        return _absent(wish, stock)
    if kinds[0] == CPU:
        return _cores_full(wish, stock)
    if left.account < count:
        return _limit_reached(count, left, stock)
    return _out_of_stock(kinds[0], count, left, stock, coming)


def _full(wish: Wish, count: int) -> Lack:
    most = wish.max_gpus or 0
    if count > most:
        detail = f"one worker needs {count} cards and the deployment's max_gpus is {most}, so none can start: raise it"
    else:
        detail = f"the deployment holds its max_gpus={most}; raise it, or wait for a robot to leave"
    return Lack("deployment_full", detail, {"max_gpus": most})


def _cores_full(wish: Wish, stock: Stock) -> Lack:
    if wish.max_gpus is None:
        most, why = stock.cores, "one for each core, the most without max_gpus=; declare it to have more"
    else:
        most, why = A_CORE * stock.cores, f"{A_CORE} for each core, the most whatever max_gpus is; add copies instead"
    detail = f"the deployment holds {most} workers on the platform's {stock.cores} processor cores, {why}"
    return Lack("deployment_full", f"{detail}, or wait for a robot to leave", {"max_gpus": most})


def _limit_reached(count: int, left: _Left, stock: Stock) -> Lack:
    limit = stock.account_limit
    if count > limit:
        detail = f"this needs {count} GPUs at once and your account may hold {limit}, so it never fits: ask for fewer"
    else:
        detail = (
            f"your account's GPUs are in use: of {limit}, serving holds {left.serving} and evals hold {left.evals}; "
            f"this needs {count} ({count - left.account} short)"
        )
    in_use = {"serving": left.serving, "eval": left.evals}
    numbers = {"limit": limit, "requested": count, "short": count - left.account, "in_use": in_use}
    return Lack("gpu_limit_reached", detail, numbers)


def _out_of_stock(kind: str, count: int, left: _Left, stock: Stock, coming: str | None) -> Lack:
    free = {other: there for other, there in sorted(left.kinds.items()) if there > 0}
    if not free:
        return Lack("gpu_busy", "every GPU of the platform is busy; try again later")
    others = ", ".join(f"{there} x {other}" for other, there in free.items() if other != kind and there >= count)
    fallbacks = f"list fallbacks in gpu=[...]{f' (free now: {others})' if others else ''}, or try again later"
    asked = kind if count == 1 else f"{kind}:{count}"
    detail = f"{asked} is out of stock ({left.kinds[kind]} of {stock.cards[kind]} free); {coming or fallbacks}"
    return Lack("gpu_low_stock", detail, {"gpu": kind})


def _absent(wish: Wish, stock: Stock) -> Lack:
    has = ", ".join(f"{there} x {kind}" for kind, there in sorted(stock.cards.items()) if there > 0) or "no GPU"
    detail = f"this platform does not have {' or '.join(wish.cards)}, it has {has}; list fallbacks in gpu=[...]"
    return Lack("gpu_low_stock", detail, {"gpu": _kind(wish.cards[0])})


def _sum(held: Iterable[Held]) -> int:
    return sum(one.count for one in held)


def _kind(card: str) -> str:
    return card.partition(":")[0]


def _count(card: str) -> int:
    return int(card.partition(":")[2] or 1)
