"""One `predict`, ours beside other clients at the same worker, in short blocks taken in random order.

`ours_to_it` is our p50 in JSON over the row's own: the median of the ratios of neighbouring blocks, with its 95 %
interval. `observation_p50_ms` is what `sequence_ai.observation` took before it, from ready JPEGs; no other figure
holds it. The bare POST sends our very bytes and does nothing with the answer; openpi-client talks to
a server of its own kind, without TLS and without checks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bench.figures import paired_ratio, spread
from bench.rows import Promise, Row
from bench.supports.children import Child
from bench.supports.environments import NotMadeError
from bench.supports.rig import Rig, rig

OURS, FAST, PUBLISHED, BARE, OPENPI = (
    "ours, JSON",
    "ours, MessagePack",
    "published client",
    "bare httpx POST",
    "openpi-client",
)
SIZES = ("15 kB", "150 kB")
WARM_UP = 20

PROMISES = tuple(
    promise
    for size in SIZES
    for promise in (
        Promise(f"{PUBLISHED}, {size}", "ours_to_it_high", at_most=1.05),
        Promise(f"{BARE}, {size}", "ours_to_it_high", at_most=1.25),
        Promise(f"{FAST}, {size}", "ours_to_it_low", at_least=1.0),
    )
)


@dataclass(frozen=True)
class Size:
    """How many blocks of every client, and how many counted calls in each."""

    rounds: int = 150
    calls: int = 10


FULL, TINY = Size(), Size(rounds=2, calls=2)


@dataclass(frozen=True)
class Way:
    """One client ready to be called: it answers with its times of one block, in ms."""

    what: str
    call: Callable[[str, int], dict[str, list[Any]]]


class Ways(NamedTuple):
    """The clients there are, and why others are not."""

    there: list[Way]
    missing: dict[str, str]


def run(size: Size = FULL, seed: int = 0) -> list[Row]:
    """One row for each client and size of observation."""
    with rig() as made:
        ways = _ways(made)
        blocks = _blocks(ways.there, size, random.Random(seed))
        sent = {weight: (made.folder / f"body of {weight}").stat().st_size for weight in SIZES}
    rows = [_row(way.what, weight, blocks, sent, seed) for weight in SIZES for way in ways.there]
    absent = [Row(f"{what}, {weight}", not_measured=why) for weight in SIZES for what, why in ways.missing.items()]
    return rows + absent


Blocks = dict[tuple[str, str], list[dict[str, list[Any]]]]


def _ways(made: Rig) -> Ways:
    ours = made.ours("bench-0", "bench-0-fast")
    others: dict[str, Callable[[], Way]] = {
        PUBLISHED: lambda: _robot(PUBLISHED, made.published("bench-0"), "bench-0"),
        BARE: lambda: _plain(BARE, made.bare(made.workers[0], made.bodies(ours, SIZES))),
        OPENPI: lambda: _plain(OPENPI, made.openpi(SIZES)),
    }
    ways = Ways([_robot(OURS, ours, "bench-0"), _robot(FAST, ours, "bench-0-fast")], {})
    for what, make in others.items():
        try:
            ways.there.append(make())
        except NotMadeError as why:
            ways.missing[what] = str(why)
    return ways


def _robot(what: str, child: Child, model: str) -> Way:
    return Way(what, lambda weight, calls: child.ask("predict", model=model, size=weight, calls=calls))


def _plain(what: str, child: Child) -> Way:
    return Way(what, lambda weight, calls: child.ask("predict", size=weight, calls=calls))


def _blocks(ways: list[Way], size: Size, chance: random.Random) -> Blocks:
    """Every round: one block of every client, at one weight and then at the other, so that pairs lie close together.

    A block's first call pays for the change of process, and is left out.
    """
    for way in ways:
        for weight in SIZES:
            way.call(weight, WARM_UP)
    blocks: Blocks = {(way.what, weight): [] for way in ways for weight in SIZES}
    for _ in range(size.rounds):
        for weight in chance.sample(SIZES, len(SIZES)):
            for way in chance.sample(ways, len(ways)):
                told = way.call(weight, size.calls + 1)
                blocks[way.what, weight].append({name: values[1:] for name, values in told.items()})
    return blocks


def _row(what: str, weight: str, blocks: Blocks, sent: dict[str, int], seed: int) -> Row:
    mine = [block["ms"] for block in blocks[what, weight]]
    figures = spread(np.ravel(mine).tolist(), "ms")
    if what == OURS:
        figures["body_kb"] = sent[weight] / 1000
    else:
        ours = [block["ms"] for block in blocks[OURS, weight]]
        figures |= paired_ratio(ours, mine, seed).named("ours_to_it")
    for name in ("observation", "worker_overhead"):
        found = [value for block in blocks[what, weight] for value in block.get(f"{name}_ms", ())]
        if found:
            figures[f"{name}_p50_ms"] = float(np.median(found))
    return Row(f"{what}, {weight}", figures)
