"""Every metric of an eval: overall, as the mean of task means, and by task, suite and variant. Pure.

An episode that ended in an error has no metrics and counts in no mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.evals.stats.interval import Interval, intervals, is_rate
from runner.evals.stats.sample import Codes, Floats, sample

Variation = Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Grouping:
    """What each of n episodes belongs to, as codes into names; episodes by index.

    `suite` is -1 where an episode has none. `variation` is the code of the whole combination of variants, and
    `of_variation` has the codes of the variants ("axis=value") of each combination. Episodes with one number in
    `cluster` started from the same task and seed, so they depend on each other.
    """

    tasks: tuple[str, ...]
    task: npt.NDArray[np.int32]
    suites: tuple[str, ...]
    suite: npt.NDArray[np.int32]
    variants: tuple[str, ...]
    variation: npt.NDArray[np.int32]
    of_variation: tuple[tuple[int, ...], ...]
    cluster: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls, tasks: Sequence[str], seeds: Sequence[int], suites: Sequence[str | None], variations: Sequence[Variation]
    ) -> Grouping:
        """The grouping of episodes told one by one: each one's task, seed, suite and variation."""
        task, suite = _Names(), _Names()
        variation, variant, cluster = _Names(), _Names(), _Names()
        codes = [task.code(name) for name in tasks]
        combinations = [variation.code(tuple(f"{axis}={value}" for axis, value in each)) for each in variations]
        return cls(
            task=np.array(codes, dtype=np.int32),
            suite=np.array([suite.code(name) if name else -1 for name in suites], dtype=np.int32),
            variation=np.array(combinations, dtype=np.int32),
            of_variation=tuple(tuple(variant.code(label) for label in labels) for labels in variation.names),
            cluster=np.array([cluster.code(start) for start in zip(codes, seeds, strict=True)], dtype=np.int64),
            tasks=tuple(task.names),
            suites=tuple(suite.names),
            variants=tuple(variant.names),
        )


@dataclass(frozen=True)
class Summary:
    """One metric: over all episodes (`overall`, the micro mean), as mean of task means (`macro`), and by group.

    Groups are in the order of their first episode; `per_variant` is empty where fewer than two variants ran.
    """

    overall: Interval
    macro: Interval
    per_task: dict[str, Interval]
    per_suite: dict[str, Interval]
    per_variant: dict[str, Interval]


def summarize(metrics: Mapping[str, Floats], grouping: Grouping) -> dict[str, Summary]:
    """Every metric's summary, metrics by name; each has one value (n,) an episode, NaN where it is missing.

    A metric that no episode has is left out. Raises ValueError on a metric of another length, or an infinite one.
    """
    found = {name: _summary(name, np.asarray(metrics[name], dtype=np.float64), grouping) for name in sorted(metrics)}
    return {name: summary for name, summary in found.items() if summary is not None}


class _Names(dict[Any, int]):
    """Names and their codes, by first use."""

    def code(self, name: Any) -> int:
        return self.setdefault(name, len(self))

    @property
    def names(self) -> list[Any]:
        return list(self)


def _summary(name: str, values: Floats, grouping: Grouping) -> Summary | None:
    if len(values) != len(grouping.task):
        raise ValueError(f"{name}: {len(values)} values for {len(grouping.task)} episodes")
    there = np.flatnonzero(~np.isnan(values))
    if not len(there):
        return None
    values, cluster, task = values[there], grouping.cluster[there], grouping.task[there]
    groups = [
        *_groups("task", grouping.tasks, task),
        *_groups("suite", grouping.suites, grouping.suite[there]),
        *_variants(grouping, grouping.variation[there]),
    ]
    samples = [sample(values, cluster), sample(values, cluster, task)]
    samples += [sample(values[where], cluster[where]) for _, _, where in groups]
    rate, within = is_rate(name, values), (float(values.min()), float(values.max()))
    overall, macro, *rest = intervals(samples, rate=rate, within=within)
    kinds: dict[str, dict[str, Interval]] = {"task": {}, "suite": {}, "variant": {}}
    for (kind, group, _), found in zip(groups, rest, strict=True):
        kinds[kind][group] = found
    variants = kinds["variant"]
    return Summary(overall, macro, kinds["task"], kinds["suite"], variants if len(variants) > 1 else {})


_Group = tuple[str, str, Codes]  # its kind, its name and where its episodes are


def _groups(kind: str, names: Sequence[str], codes: Codes) -> list[_Group]:
    """The groups of one kind, by first episode; no group has the code -1."""
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return [
        (kind, names[codes[part[0]]], part) for part in sorted(parts, key=lambda part: part[0]) if codes[part[0]] >= 0
    ]


def _variants(grouping: Grouping, variation: Codes) -> list[_Group]:
    """The groups of all variants; a combination of variants is in the group of each."""
    found = []
    for code, name in enumerate(grouping.variants):
        has = np.array([code in variants for variants in grouping.of_variation])
        where = np.flatnonzero(has[variation])
        if len(where):
            found.append(("variant", name, where))
    return sorted(found, key=lambda group: group[2][0])
