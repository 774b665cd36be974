"""Cards against three limits: what the platform has, what an account may hold, what a deployment may."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.fleet.cards import CPU, NEXT_CARD_AFTER_S, Held, Lack, Offer, Stock, Wish, offer, queue_timeout

STOCK = Stock({"L4": 4, "H100": 8}, cores=3, account_limit=8)


def wish(*cards: str, max_gpus: int | None = None, short_since: float | None = None) -> Wish:
    return Wish("me", "arm", cards, max_gpus, short_since)


def held(card: str, count: int = 1, *, who: str = "me", deployment: str = "arm", purpose="serve") -> Held:
    return Held(card, count, who, deployment, purpose)


def lack(*args, now: float = 0.0, stock: Stock = STOCK) -> Lack:
    found = offer(args[0], args[1:], stock, now)
    assert (found.card, found.room) == (None, 0)
    assert found.lack is not None
    return found.lack


@pytest.mark.parametrize(
    ("asks", "others", "room"),
    [
        (wish("L4"), [], 4),
        (wish("L4"), [held("L4"), held("L4", who="you")], 2),
        (wish("L4:2"), [held("L4", who="you")], 1),
        (wish("H100"), [held("L4", 3)], 5),  # the account's limit
        (wish("H100"), [held("L4", 3, purpose="eval", deployment="other")], 5),
        (wish("H100"), [held("L4", 3, purpose="check", deployment="other")], 5),
        (wish("L4", max_gpus=3), [held("L4")], 2),
        (wish("L4:2", max_gpus=3), [], 1),
        (wish("L4", max_gpus=1), [held("L4", purpose="eval")], 1),  # an eval's are not the deployment's
        (wish("L4"), [held(CPU)] * 9 + [held(CPU, purpose="eval")] * 9, 4),  # a processor is no GPU of the account's
    ],
)
def test_the_room_is_what_the_tightest_limit_leaves(asks, others, room):
    """How many such workers could start now, by platform, account and deployment together."""
    found = offer(asks, others, STOCK, 0.0)
    kind, _, count = asks.cards[0].partition(":")
    assert found == Offer(kind, int(count or 1), room, None)


@pytest.mark.parametrize(("most", "room"), [(None, 2), (5, 4), (2, 1), (99, 11)])
def test_a_worker_without_a_card_counts_against_its_deployment_alone(most, room):
    """On "cpu" there are `max_gpus` workers, at most four a core, or one a core; others take nothing away."""
    others = [held(CPU), held(CPU, deployment="other"), held(CPU, who="you"), held("H100", 8, deployment="other")]
    assert offer(wish(CPU, max_gpus=most), others, STOCK, 0.0) == Offer(CPU, 1, room, None)


def test_the_next_card_is_tried_when_the_one_before_was_short_for_a_minute():
    """The clock starts with the first offer that finds the first choice gone, and stops when it is back."""
    asks, gone = wish("L4", "H100", CPU), [held("L4", 4, who="you")]
    first = offer(asks, gone, STOCK, 1000.0)
    assert (first.card, first.short_since) == (None, 1000.0)
    assert "H100, is tried in 60 s" in first.lack.detail
    asks = replace(asks, short_since=first.short_since)
    assert offer(asks, gone, STOCK, 1059.9).card is None
    assert offer(asks, gone, STOCK, 1060.0) == Offer("H100", 1, 8, None, 1000.0)
    all_gone = [*gone, held("H100", 8, who="you")]
    assert offer(asks, all_gone, STOCK, 1119.9).lack.reason == "gpu_busy"
    assert offer(asks, all_gone, STOCK, 1120.0) == Offer(CPU, 1, 3, None, 1000.0)
    assert offer(asks, [], STOCK, 1120.0) == Offer("L4", 1, 4, None, None)


def test_a_card_that_the_platform_does_not_have_is_not_waited_for():
    """The first of the list that is there at all is the first choice."""
    assert offer(wish("B200", "A100", "L4"), [], STOCK, 0.0).card == "L4"


def test_an_account_at_its_limit_is_told_what_holds_its_gpus():
    """`gpu_limit_reached`, with the numbers that a client writes its own sentence from."""
    found = lack(wish("L4:2"), held("H100", 5), held("H100", 1, purpose="check"), held("L4", 1, purpose="eval"))
    assert found.reason == "gpu_limit_reached"
    assert "of 8, serving holds 6 and evals hold 1; this needs 2 (1 short)" in found.detail
    assert found.details == {"limit": 8, "requested": 2, "short": 1, "in_use": {"serving": 6, "eval": 1}}


def test_what_never_fits_the_account_is_said_so():
    """More cards at once than the account may hold is no matter of waiting."""
    assert "never fits" in lack(wish("H100:16"), stock=replace(STOCK, cards={"H100": 16})).detail


def test_a_platform_with_no_card_left_is_busy():
    """`gpu_busy` is said only where no GPU of any kind is free."""
    taken = [held("L4", 4, who="you"), held("H100", 8, who="you")]
    assert lack(wish("L4"), *taken).reason == "gpu_busy"
    assert lack(wish("L4"), taken[0]).reason == "gpu_low_stock"


def test_a_card_out_of_stock_is_named_with_what_is_free():
    """`gpu_low_stock` says how many are free, and which other cards would do."""
    found = lack(wish("L4:2"), held("L4", 3, who="you"))
    assert (found.reason, found.details) == ("gpu_low_stock", {"gpu": "L4"})
    assert "L4:2 is out of stock (1 of 4 free); list fallbacks in gpu=[...] (free now: 8 x H100)" in found.detail


def test_a_card_that_is_not_there_at_all_is_named_with_what_is():
    """A platform started again with other cards says what it has."""
    found = lack(wish("B200", "A100:2"))
    assert (found.reason, found.details) == ("gpu_low_stock", {"gpu": "B200"})
    assert "does not have B200 or A100:2, it has 8 x H100, 4 x L4" in found.detail


@pytest.mark.parametrize(
    ("asks", "others", "says", "most"),
    [
        (wish("L4", max_gpus=2), [held("L4"), held("H100", purpose="check")], "holds its max_gpus=2", 2),
        (wish("L4:4", max_gpus=2), [], "needs 4 cards", 2),
        (wish(CPU, max_gpus=1), [held(CPU)], "holds its max_gpus=1", 1),
        (wish(CPU), [held(CPU)] * 3, "one for each core", 3),
    ],
)
def test_a_deployment_at_its_own_limit_is_full(asks, others, says, most):
    """`deployment_full` comes before any other reason, since raising max_gpus= is what helps."""
    found = lack(asks, *others, *[held("L4", 4, who="you"), held("H100", 8, who="you")])
    assert (found.reason, found.details) == ("deployment_full", {"max_gpus": most})
    assert says in found.detail


def test_a_robot_that_waited_too_long_is_told_for_how_long():
    """The queue's own reason, in its sentence."""
    found = queue_timeout(120.4)
    assert (found.reason, found.details) == ("queue_timeout", {"waited_s": 120.4})
    assert "for 120 s" in found.detail


KINDS = ("L4", "H100", "B200", CPU)
WISHES = st.builds(
    lambda account, deployment, kinds, count, most: (
        Wish(account, deployment, tuple(f"{kind}:{count}" for kind in kinds if kind != CPU) or (CPU,), most, None)
        if count > 1
        else Wish(account, deployment, tuple(kinds), most, None)
    ),
    st.sampled_from("ab"),
    st.sampled_from("xy"),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True),
    st.integers(1, 3),
    st.none() | st.integers(1, 4),
)
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["serve", "eval", "check"]), st.integers(0, 90), st.booleans()),
    max_size=30,
)
STOCKS = st.builds(
    Stock, st.dictionaries(st.sampled_from(KINDS[:3]), st.integers(0, 4)), st.integers(1, 4), st.integers(0, 5)
)


@given(STOCKS, st.lists(WISHES, min_size=4, max_size=4), STEPS)
def test_offers_that_are_followed_exceed_no_limit_and_none_is_missed(stock, wishes, steps):
    """Workers come and go for two accounts; an offer is made exactly where a count made anew finds a card to be had."""
    # One deployment has one limit of its own, whoever asks for it.
    limits = {(one.account, one.deployment): one.max_gpus for one in wishes}
    wishes = [replace(one, max_gpus=limits[one.account, one.deployment]) for one in wishes]
    now, there = 0.0, []
    for index, purpose, passes_s, ends in steps:
        now += passes_s
        if ends and there:
            there.pop(index % len(there))
            continue
        asks = wishes[index]
        found = offer(asks, there, stock, now)
        there_at_all = [card for card in asks.cards if on_the_platform(card, stock)]
        short_s = 0.0 if found.short_since is None else now - found.short_since
        tried = there_at_all[: 1 + int(short_s // NEXT_CARD_AFTER_S)]
        fits = [card for card in tried if within(stock, limits, [*there, taken(asks, card, "serve")])]
        assert found.card == (fits[0].partition(":")[0] if fits else None)
        assert (found.lack is None) == bool(fits)
        if fits:
            more = taken(asks, fits[0], "serve")
            assert within(stock, limits, [*there, *[more] * found.room])
            assert not within(stock, limits, [*there, *[more] * (found.room + 1)])
            there.append(replace(more, purpose=purpose))
        wishes[index] = replace(asks, short_since=found.short_since)
        assert within(stock, limits, there)


def taken(asks: Wish, card: str, purpose) -> Held:
    kind, _, count = card.partition(":")
    return Held(kind, int(count or 1), asks.account, asks.deployment, purpose)


def on_the_platform(card: str, stock: Stock) -> bool:
    kind, _, count = card.partition(":")
    return kind == CPU or stock.cards.get(kind, 0) >= int(count or 1)


def within(stock: Stock, limits: dict[tuple[str, str], int | None], there: list[Held]) -> bool:
    """Whether no limit is exceeded, counted anew from the workers alone."""
    cards = [one for one in there if one.card != CPU]
    by_kind = all(sum(one.count for one in cards if one.card == kind) <= stock.cards.get(kind, 0) for kind in KINDS)
    by_account = all(sum(one.count for one in cards if one.account == who) <= stock.account_limit for who in "ab")
    by_deployment = True
    for (account, name), most in limits.items():
        own = [one for one in there if (one.account, one.deployment, one.purpose != "eval") == (account, name, True)]
        used = sum(one.count for one in own if most is not None or one.card == CPU)
        by_deployment = by_deployment and used <= (stock.cores if most is None else most)
    return by_kind and by_account and by_deployment
