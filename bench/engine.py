"""What an eval costs over a bare loop around the same simulator: seconds that one more episode takes, side by side.

panda-tabletop's state alone, episodes of 128 steps, and a policy that answers 16 fixed rows after 5 ms, so that every
side plays the same physics, which is checked. The bare loop resets, observes, waits, steps and checks; it is forked, or
Gymnasium's AsyncVectorEnv steps a batch of which one wait serves all. Ours is `seq eval run` on a whole platform, with
a copy of the policy for each environment. Few and many episodes are played, and the difference is what more of them
take: so nothing that happens once counts. Each episode notes its own first and last step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from bench.figures import Interval, paired_ratio
from bench.rows import Promise, Row
from bench.supports.cores import CAN_HOLD, Cores, here, physical
from bench.supports.tabletop import ROWS, STARTS, STEPS, How, Played, Run, Tabletop, tabletop

RIVALS: dict[How, str] = {"alone": "bare loop", "forked": "forked loop", "vector": "AsyncVectorEnv"}
HELD_TO = (1, 2)
START = "eval run to the first step"


def _against(rival: How, envs: int) -> str:
    return f"{RIVALS[rival]}, {envs} environment{'s' if envs > 1 else ''}"


def _scaled(envs: int) -> str:
    return f"{HELD_TO[1]} cores for {HELD_TO[0]}, {envs} environments"


PROMISES = (
    Promise(_against("alone", 1), "ours_to_it", at_most=1.10),
    Promise(_against("forked", 8), "ours_to_it", at_most=1.15),
    *(Promise(_against("vector", envs), "ours_to_it", at_most=1.0) for envs in (2, 4, 8, 16)),
    Promise(_scaled(8), "faster", at_least=1.8),
    Promise(START, "p50_s", at_most=3.0),
)


@dataclass(frozen=True)
class Size:
    """`rounds` of everything but `batches`, the environments beside AsyncVectorEnv, whose bound is wide: of them
    `batch_rounds`. `envs` is what is many elsewhere, `more_s` about how long many play beyond few.
    """

    rounds: int = 3
    batch_rounds: int = 1
    more_s: float = 5.0
    envs: int = 8
    batches: tuple[int, ...] = (2, 4, 8, 16)


FULL, TINY = Size(), Size(rounds=1, more_s=0.2, envs=2, batches=(2,))


class Side(NamedTuple):
    """Who plays, in how many environments, on which cores."""

    how: How
    envs: int
    cores: Cores


Round = dict[Side, float]


@dataclass
class Meter:
    """Measures sides. `first_s` collects how long our evals of one environment took to their first step, and `known`
    what each start was played to: it must be the same whoever plays it.
    """

    made: Tabletop
    more_s: float
    alone_s: float = 0.0
    first_s: list[float] = field(default_factory=list)
    known: dict[int, Played] = field(default_factory=dict)

    def calibrate(self, cores: Cores) -> None:
        """About how long the bare loop takes for an episode: from it follows how many are played."""
        self.alone_s = self._play(Side("alone", 1, cores), 2).s / 2

    def episode_s(self, side: Side) -> float:
        """What one more episode takes: two an environment are played, then some more of them."""
        few, at_once = 2 * side.envs, min(side.envs, len(side.cores))
        more = max(1, math.ceil(self.more_s * at_once / self.alone_s / side.envs)) * side.envs
        many = min(few + more, STARTS)
        return (self._play(side, many).s - self._play(side, few).s) / (many - few)

    def _play(self, side: Side, count: int) -> Run:
        run = self.made.play(side.how, side.envs, count, side.cores)
        if set(run.episodes) != set(range(count)):
            raise AssertionError(f"{side} was to play {count} episodes and played {len(run.episodes)}")
        for seed, played in run.episodes.items():
            if self.known.setdefault(seed, played) != played:
                raise AssertionError(f"{side} came from start {seed} to {played}, another side to {self.known[seed]}")
        if side.how == "ours" and side.envs == 1:
            self.first_s.append(run.first_s)
        return run


def run(size: Size = FULL, seed: int = 0) -> list[Row]:
    """One row for each comparison."""
    every, few = here(), [physical()[:count] for count in HELD_TO]
    held = few if CAN_HOLD and len(few[-1]) == HELD_TO[-1] else []
    many = [Side(how, size.envs, cores) for cores in (every, *held) for how in ("ours", "forked")]
    single = [Side("ours", 1, every), Side("alone", 1, every)]
    batches = [Side(how, envs, every) for envs in size.batches for how in ("ours", "vector")]
    chance = np.random.default_rng(seed)
    with tabletop({1, size.envs, *size.batches}) as made:
        meter = Meter(made, size.more_s)
        meter.calibrate(every)
        played = [[*single, *many, *(batches if number < size.batch_rounds else [])] for number in range(size.rounds)]
        rounds = [{side: meter.episode_s(side) for side in in_turn(sides, chance)} for sides in played]
    seen = Seen(rounds, seed)
    return [
        seen.lost(every),
        seen.against("forked", size.envs, every),
        *(seen.against("vector", envs, every) for envs in size.batches),
        seen.scaled(size.envs, held),
        _start(meter.first_s),
    ]


def in_turn(sides: Sequence[Side], chance: np.random.Generator) -> list[Side]:
    """Each side once, in random order; those of one number of environments, which are compared, one after another."""
    distinct = list(dict.fromkeys(sides))
    order = chance.permutation(sorted({side.envs for side in distinct})).tolist()
    mixed = [distinct[place] for place in chance.permutation(len(distinct))]
    return sorted(mixed, key=lambda side: order.index(side.envs))


def _start(first_s: Sequence[float]) -> Row:
    return Row(START, {"p50_s": float(np.median(first_s)), "max_s": max(first_s), "evals": len(first_s)})


@dataclass(frozen=True)
class Seen:
    """All rounds, and the rows they come to: medians over rounds, and of ratios within each round."""

    rounds: Sequence[Round]
    seed: int

    def against(self, rival: How, envs: int, cores: Cores) -> Row:
        """Seconds of one more episode, ours and the rival's."""
        ours, its = Side("ours", envs, cores), Side(rival, envs, cores)
        ratio = self._ratio(ours, its).named("ours_to_it")
        return Row(_against(rival, envs), {"ours_s": self._s(ours), "its_s": self._s(its), **ratio})

    def lost(self, cores: Cores) -> Row:
        """Beside the bare loop; the difference is told for each act and for each step, as if all were lost there."""
        row, ours, bare = self.against("alone", 1, cores), Side("ours", 1, cores), Side("alone", 1, cores)
        lost_ms = float(np.median([1000 * (there[ours] - there[bare]) for there in self.rounds]))
        return replace(row, figures={**row.figures, "act_ms": lost_ms * ROWS / STEPS, "step_ms": lost_ms / STEPS})

    def scaled(self, envs: int, held: Sequence[Cores]) -> Row:
        """How much faster twice the cores are; the forked loop beside it is what this machine gives."""
        if not held:
            return Row(_scaled(envs), not_measured="it takes two cores, and a system that keeps processes to them")
        ours, forked = ([Side(how, envs, cores) for cores in held] for how in ("ours", "forked"))
        figures = {"one_s": self._s(ours[0]), "two_s": self._s(ours[1]), **self._ratio(*ours).named("faster")}
        return Row(_scaled(envs), {**figures, "forked_faster": self._ratio(*forked).value})

    def _s(self, side: Side) -> float:
        return float(np.median([there[side] for there in self.rounds if side in there]))

    def _ratio(self, side: Side, other: Side) -> Interval:
        both = [there for there in self.rounds if side in there and other in there]
        return paired_ratio([[there[side]] for there in both], [[there[other]] for there in both], self.seed)
