"""The finished episodes of one arm as arrays, which every number of a report is computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from runner.evals import parts
from runner.store.blobs import Blobs
from runner.store.db import Session
from runner.store.queries import episodes as rows
from runner.store.queries import evals as eval_rows
from runner.store.tables import Arm
from seq.contract.internal import OUTPUT_FOLLOWS

Runs = NDArray[np.int64]
"""Ascending ranges of episodes' numbers, (k, 2): the first of each, and how many."""
FLAGS = ("terminated", "truncated", "timed_out", "recorded", "trajectory")
COUNTS = ("steps", "acts")
TIMES = ("wall_s", "env_cpu_s", "act_s", "infer_s", "act_max_s")
TEXTS = ("error", "traceback", "record_error")
MOST_CAUSES = 20
MOST_DIFFERENT = 1000
OTHERS = "other errors, each of its own kind"
SHOWN = 10


@dataclass
class Cause:
    """One error: how often, its first traceback, and the first episodes it ended."""

    text: str
    count: int = 0
    traceback: str | None = None
    episodes: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Columns:
    """Finished episodes of an arm, by index: arrays of one length, (n,).

    `index` int64, `failed` and the `flags` bool, `counts` int64; `metrics` float64, NaN where an episode lacks one or
    failed. `totals` are sums in s (`act_max_s` the greatest), `phase_s` and `phase_n` sums by phase.
    """

    index: NDArray[np.int64]
    failed: NDArray[np.bool_]
    counts: dict[str, NDArray[np.int64]]
    flags: dict[str, NDArray[np.bool_]]
    metrics: dict[str, NDArray[np.float64]]
    totals: dict[str, float]
    phase_s: dict[str, float]
    phase_n: dict[str, int]
    causes: list[Cause]
    unrecorded: list[Cause]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which of them count, (n,)."""
        return ~self.failed


class Gathering:
    """Collects outcomes, from rows and parts in any order, until `columns`."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, NDArray[Any]]] = []
        self._totals = dict.fromkeys(TIMES, 0.0)
        self._phase_s: dict[str, float] = {}
        self._phase_n: dict[str, int] = {}
        self._causes: dict[str, Cause] = {}
        self._unrecorded: dict[str, Cause] = {}

    def add_outcomes(self, found: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Outcomes as rows keep them, each with its index."""
        indices, bodies = [], []
        for index, body in found:
            indices.append(index)
            bodies.append(body)
            self._note(index, body.get("error"), body.get("traceback"), body.get("record_error"))
            for name, seconds in (body.get("phase_s") or {}).items():
                self._phase_s[name] = self._phase_s.get(name, 0.0) + seconds
            for name, times in (body.get("phase_n") or {}).items():
                self._phase_n[name] = self._phase_n.get(name, 0) + times
            self._add_times({name: body.get(name) or 0.0 for name in TIMES})
        names = sorted({name for body in bodies for name in body.get("metrics") or {}})
        self._blocks.append(
            {
                "index": np.asarray(indices, dtype=np.int64),
                "failed": np.asarray([body.get("error") is not None for body in bodies], dtype=bool),
                **{name: np.asarray([body.get(name) or 0 for body in bodies], dtype=np.int64) for name in COUNTS},
                **{name: np.asarray([bool(body.get(name)) for body in bodies], dtype=bool) for name in FLAGS},
                **{
                    parts.METRIC + name: np.asarray(
                        [(body.get("metrics") or {}).get(name, np.nan) for body in bodies], dtype=np.float64
                    )
                    for name in names
                },
            }
        )

    def add_part(self, table: pa.Table) -> None:
        """All rows of a part."""
        plain = {name: table.column(name).to_numpy() for name in ("index", *COUNTS, *FLAGS)}
        metrics = [name for name in table.column_names if name.startswith(parts.METRIC)]
        error = table.column("error")
        failed = ~np.asarray(error.is_null().to_numpy(), dtype=bool)
        self._blocks.append(
            {
                **plain,
                "failed": failed,
                **{name: table.column(name).to_numpy(zero_copy_only=False).astype(np.float64) for name in metrics},
            }
        )
        for name in table.column_names:
            if name.startswith(parts.PHASE_S):
                phase = name.removeprefix(parts.PHASE_S)
                self._phase_s[phase] = self._phase_s.get(phase, 0.0) + _sum(table.column(name))
            elif name.startswith(parts.PHASE_N):
                phase = name.removeprefix(parts.PHASE_N)
                self._phase_n[phase] = self._phase_n.get(phase, 0) + int(_sum(table.column(name)))
        last = float(np.max(table.column("act_max_s").to_numpy(), initial=0.0))
        self._add_times({**{name: _sum(table.column(name)) for name in TIMES[:-1]}, "act_max_s": last})
        unrecorded = ~np.asarray(table.column("record_error").is_null().to_numpy(), dtype=bool)
        for row in table.filter(pa.array(failed | unrecorded)).select(["index", *TEXTS]).to_pylist():
            self._note(row["index"], row["error"], row["traceback"], row["record_error"])

    def columns(self) -> Columns:
        """Everything that was added, by index."""
        names = sorted({name for block in self._blocks for name in block if name.startswith(parts.METRIC)})
        index = self._joined("index", np.int64)
        order = np.argsort(index, kind="stable")
        failed = self._joined("failed", np.bool_)[order]
        metrics = {name.removeprefix(parts.METRIC): self._joined(name, np.float64)[order] for name in names}
        return Columns(
            index=index[order],
            failed=failed,
            counts={name: self._joined(name, np.int64)[order] for name in COUNTS},
            flags={name: self._joined(name, np.bool_)[order] for name in FLAGS},
            metrics={name: np.where(failed, np.nan, values) for name, values in metrics.items()},
            totals=self._totals,
            phase_s=self._phase_s,
            phase_n=self._phase_n,
            causes=_most_frequent(self._causes),
            unrecorded=_most_frequent(self._unrecorded),
        )

    def _joined(self, name: str, dtype: Any) -> NDArray[Any]:
        """A column of all blocks; a metric that a block lacks is missing there."""
        found = [
            block[name] if name in block else np.full(len(block["index"]), np.nan, dtype=np.float64)
            for block in self._blocks
        ]
        return np.concatenate(found).astype(dtype, copy=False) if found else np.empty(0, dtype=dtype)

    def _add_times(self, times: Mapping[str, float]) -> None:
        for name, seconds in times.items():
            if name == "act_max_s":
                self._totals[name] = max(self._totals[name], seconds)
            else:
                self._totals[name] += seconds

    def _note(self, index: int, error: str | None, traceback: str | None, record_error: str | None) -> None:
        for text, trace, causes in ((error, traceback, self._causes), (record_error, None, self._unrecorded)):
            if text is None:
                continue
            text, _, printed = text.partition(OUTPUT_FOLLOWS)  # noqa: PLW2901  what follows is no part of the cause
            known = text in causes or len(causes) < MOST_DIFFERENT
            cause = causes.setdefault(text if known else OTHERS, Cause(text if known else OTHERS))
            cause.count += 1
            cause.traceback = cause.traceback or trace or printed or None
            if len(cause.episodes) < SHOWN:
                cause.episodes.append(index)


def read(session: Session, blobs: Blobs, arm: Arm) -> Columns:
    """An arm's finished episodes; of a rerun, with those that the earlier eval had and this one does not play."""
    gathering = Gathering()
    played: list[Runs] = []
    mine: Arm | None = arm
    while mine is not None:
        _add(session, blobs, mine, played, gathering)
        todo: Runs = np.asarray(mine.todo, dtype=np.int64).reshape(-1, 2)
        played.append(todo + np.asarray([mine.first, 0]))
        mine = _earlier(session, mine)
    return gathering.columns()


def _add(session: Session, blobs: Blobs, arm: Arm, played: Sequence[Runs], gathering: Gathering) -> None:
    """What an eval finished of an arm, but for the episodes that later ones play again."""
    for part in rows.parts(session, arm.eval_id, arm.number):
        table = parts.read(blobs, part)
        if played:
            table = table.filter(pa.array(~_among(table.column("index").to_numpy(), played)))
        gathering.add_part(table)
    own = list(rows.outcomes(session, arm.eval_id, arm.number))
    again = _among(np.asarray([index for index, _ in own], dtype=np.int64), played)
    gathering.add_outcomes(one for one, gone in zip(own, again, strict=True) if not gone)


def _earlier(session: Session, arm: Arm) -> Arm | None:
    row = eval_rows.get(session, arm.eval_id)
    return eval_rows.arm(session, row.rerun_of, arm.number) if row is not None and row.rerun_of else None


def _among(indices: NDArray[np.int64], given: Sequence[Runs]) -> NDArray[np.bool_]:
    """Which numbers lie in one of these runs, (n,)."""
    found = np.zeros(len(indices), dtype=bool)
    for runs in given:
        if len(runs):
            first, size = runs[np.searchsorted(runs[:, 0], indices, side="right") - 1].T
            found |= (indices >= first) & (indices < first + size)
    return found


def _sum(column: pa.ChunkedArray) -> float:
    return float(np.nansum(column.to_numpy().astype(np.float64)))


def _most_frequent(causes: Mapping[str, Cause]) -> list[Cause]:
    return sorted(causes.values(), key=lambda cause: -cause.count)[:MOST_CAUSES]
