"""`python tools/coverage.py`: how often the 95 % intervals of runner/evals/stats hold the truth, by simulation.

Prints the tables, writes them into docs/statistics.md between its markers, and ends with 1 where one is off its bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from runner.evals.stats import difference, holm
from runner.evals.stats.interval import intervals
from runner.evals.stats.sample import sample

PAGE = Path(__file__).resolve().parents[1] / "docs/statistics.md"
BEGIN, END = "<!-- coverage: written by tools/coverage.py -->", "<!-- end of coverage -->"
SEED = 20_261_130
REPEATS = 10_000
AT_ONCE = 500

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Draw = Callable[[np.random.Generator], Floats]


@dataclass(frozen=True, eq=False)
class Case:
    """A metric whose true mean is known: how its values are drawn, and the bounds that its coverage is held to."""

    metric: str
    truth: float
    draw: Draw
    rate: bool
    bounds: tuple[float, float]
    clusters: Codes | None = None
    strata: Codes | None = None


@dataclass(frozen=True)
class Coverage:
    """The share of intervals that held the truth, and their median width."""

    share: float
    width: float


def coverage(case: Case, repeats: int, seed: int = SEED) -> Coverage:
    """Of so many evals of the case; one without an interval (values that do not vary) is left out."""
    rng = np.random.default_rng(seed)
    held, widths = [], []
    for first in range(0, repeats, AT_ONCE):
        count = min(AT_ONCE, repeats - first)
        samples = [sample(case.draw(rng), case.clusters, case.strata) for _ in range(count)]
        for found in intervals(samples, rate=case.rate):
            if found.low is not None and found.high is not None:
                held.append(found.low <= case.truth <= found.high)
                widths.append(found.high - found.low)
    return Coverage(float(np.mean(held)), float(np.median(widths)))


def rates() -> list[Case]:
    """0/1 metrics of independent episodes: Wilson."""
    return [
        Case(f"rate {p}, n = {n}", p, partial(_rate, n=n, p=p), rate=True, bounds=(0.93, 0.975))
        for n in (20, 50, 200)
        for p in (0.1, 0.5, 0.9)
    ]


def others() -> list[Case]:
    """Any other metric of independent episodes: the bootstrap; fewer than 50 skewed values are held to nothing."""
    metrics: dict[str, tuple[float, Callable[..., Floats]]] = {
        "normal": (0.0, _normal),
        "exponential (skewness 2)": (1.0, _exponential),
        "log-normal (skewness 6)": (float(np.exp(0.5)), _log_normal),
        "share of a task done (0, 0.25, ..., 1)": (0.75, _progress),
        "0 in 70 of 100, else uniform": (0.15, _mostly_zero),
    }
    return [
        Case(f"{name}, n = {n}", mean, partial(draw, n=n), rate=False, bounds=(0.92 if n >= 50 else 0, 1))
        for name, (mean, draw) in metrics.items()
        for n in (5, 10, 20, 50, 200)
    ]


def dependent() -> list[Case]:
    """Episodes that share their start: clusters of `m`, and the correlation of two outcomes of one start."""
    cases = [
        Case(
            f"rate {p}, {starts} starts x {m}, correlation {rho}",
            p,
            partial(_correlated, starts=starts, m=m, p=p, rho=rho),
            rate=True,
            bounds=(0.92, 1),
            clusters=np.repeat(np.arange(starts), m),
        )
        for starts, m in ((20, 4), (50, 2), (50, 10))
        for p, rho in ((0.5, 0.3), (0.9, 0.3), (0.9, 0.8))
    ]
    return cases + [
        Case(
            f"skewed, {starts} starts x {m}, correlation 0.8",
            1.5,
            partial(_skewed_starts, starts=starts, m=m),
            rate=False,
            bounds=(0.92, 1),
            clusters=np.repeat(np.arange(starts), m),
        )
        for starts, m in ((20, 4), (50, 4))
    ]


def macros() -> list[Case]:
    """The mean of task means, over tasks of unequal rates or means."""
    cases = []
    for tasks, n in ((4, 50), (40, 2), (40, 10)):
        task = np.repeat(np.arange(tasks), n)
        easy = np.linspace(0.8, 1, tasks)
        cases += [
            Case(
                f"rates 0.8 to 1, {tasks} tasks x {n}",
                float(easy.mean()),
                partial(_rate, n=len(task), p=easy[task]),
                rate=True,
                bounds=(0.93, 0.98),
                strata=task,
            ),
            Case(
                f"exponential, means 1 to 4, {tasks} tasks x {n}",
                2.5,
                partial(_shifted, shift=np.linspace(0, 3, tasks)[task]),
                rate=False,
                bounds=(0.92, 1),
                strata=task,
            ),
        ]
    return cases


def paired(rate_a: float, rate_b: float, n: int, repeats: int, seed: int = SEED) -> Coverage:
    """Of the Agresti-Min interval, for two arms whose outcomes on one start come from one number drawn for both."""
    rng = np.random.default_rng(seed)
    held, widths = [], []
    for _ in range(repeats):
        luck, own = rng.random(n), rng.random(n)
        a, b = (luck < rate_a) * 1.0, (np.where(own < 0.5, luck, rng.random(n)) < rate_b) * 1.0
        found = difference(a, b, rate=True)
        if found.low is not None and found.high is not None:
            held.append(found.low <= rate_b - rate_a <= found.high)
            widths.append(found.high - found.low)
    return Coverage(float(np.mean(held)), float(np.median(widths)))


def family_errors(arms: int, n: int, repeats: int, seed: int = SEED) -> tuple[float, float]:
    """How often any of so many identical arms is called different from the first: with Holm, and without."""
    rng = np.random.default_rng(seed)
    with_holm = without = 0
    for _ in range(repeats):
        outcomes = (rng.random((arms + 1, n)) < 0.7) * 1.0
        found = [difference(outcomes[0], other, rate=True).p for other in outcomes[1:]]
        without += min(p for p in found if p is not None) <= 0.05
        with_holm += min(p for p in holm(found) if p is not None) <= 0.05
    return with_holm / repeats, without / repeats


def main() -> None:
    """Simulate everything and write it down."""
    off: list[str] = []
    text = "\n".join(_report(off))
    print(text)
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    if off:
        sys.exit(f"off their bounds: {'; '.join(off)}")


def _report(off: list[str]) -> Iterator[str]:
    yield f"Each row is {REPEATS:,} simulated evals (a standard error of 0.2 points), seed {SEED}."
    for title, cases in (
        ("0/1 metric, independent episodes (Wilson)", rates()),
        ("other metric, independent episodes (studentised bootstrap)", others()),
        ("dependent episodes, and what the plain interval would hold", dependent()),
        ("mean of task means", macros()),
    ):
        yield from _table(title, cases, off)
    yield "\n| paired difference of rates (Agresti-Min) | held | median width | bounds |\n|---|---|---|---|"
    for rate_a, rate_b, n in ((0.5, 0.5, 20), (0.5, 0.7, 50), (0.9, 0.95, 50), (0.9, 0.95, 200)):
        what = f"{rate_a} against {rate_b}, n = {n}"
        yield _row(what, paired(rate_a, rate_b, n, REPEATS), (0.93, 1), off)
    with_holm, without = family_errors(10, 50, REPEATS)
    if with_holm > 0.05:
        off.append("Holm")
    yield (
        f"\nTen arms identical to the first, 50 episodes each: some arm is called different in {_percent(without)} of "
        f"evals by its plain p, in {_percent(with_holm)} by Holm's (at most 5 %)."
    )


def _table(title: str, cases: list[Case], off: list[str]) -> Iterator[str]:
    plain = any(case.clusters is not None for case in cases)
    yield f"\n| {title} | held | median width | bounds |{' plain |' if plain else ''}"
    yield f"|---|---|---|---|{'---|' if plain else ''}"
    for case in cases:
        row = _row(case.metric, coverage(case, REPEATS), case.bounds, off)
        apart = Case(case.metric, case.truth, case.draw, case.rate, case.bounds) if plain else None
        yield f"{row} {_percent(coverage(apart, REPEATS).share)} |" if apart else row


def _row(what: str, found: Coverage, bounds: tuple[float, float], off: list[str]) -> str:
    low, high = bounds
    if not low <= found.share <= high:
        off.append(f"{what} ({_percent(found.share)})")
    told = "" if low == 0 else f"{_percent(low)} or more" if high == 1 else f"{_percent(low)} to {_percent(high)}"
    return f"| {what} | {_percent(found.share)} | {found.width:.3f} | {told} |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _rate(rng: np.random.Generator, n: int, p: float | Floats) -> Floats:
    return (rng.random(n) < p) * 1.0


def _normal(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(size=n)


def _exponential(rng: np.random.Generator, n: int) -> Floats:
    return rng.exponential(size=n)


def _log_normal(rng: np.random.Generator, n: int) -> Floats:
    return rng.lognormal(size=n)


def _progress(rng: np.random.Generator, n: int) -> Floats:
    return rng.choice([0, 0.25, 0.5, 0.75, 1], p=[0.1, 0.1, 0.1, 0.1, 0.6], size=n)


def _mostly_zero(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.7, 0, rng.random(n))


def _shifted(rng: np.random.Generator, shift: Floats) -> Floats:
    return rng.exponential(size=len(shift)) + shift


def _correlated(rng: np.random.Generator, starts: int, m: int, p: float, rho: float) -> Floats:
    """Each start has a rate of its own, drawn from a beta distribution with mean p."""
    many = 1 / rho - 1
    return (rng.random(starts * m) < np.repeat(rng.beta(p * many, (1 - p) * many, starts), m)) * 1.0


def _skewed_starts(rng: np.random.Generator, starts: int, m: int) -> Floats:
    """What the start adds has four times the variance of what the episode adds."""
    return np.repeat(rng.exponential(size=starts), m) + 0.5 * rng.exponential(size=starts * m)


if __name__ == "__main__":
    main()
