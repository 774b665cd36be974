"""Finished episodes filed in Parquet: a million of them are a few dozen files, and no longer rows of the store."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from runner.context import Context
from runner.evals.selection import span
from runner.store.blobs import Blobs
from runner.store.queries import episodes as rows
from runner.store.queries import evals as eval_rows
from runner.store.tables import Arm, Episode, Part
from seq.contract.internal import EpisodeOutcome

SIZE = 20_000
"""Episodes of a part: so few stay rows of an arm, and so many a reader holds at once."""

METRIC, PHASE_S, PHASE_N = "metric:", "phase_s:", "phase_n:"
_NESTED = {"metrics": (METRIC, pa.float64()), "phase_s": (PHASE_S, pa.float64()), "phase_n": (PHASE_N, pa.int64())}
_TYPES: dict[Any, pa.DataType] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_PLAIN = {
    name: (_TYPES.get(field.annotation, pa.string()), None if field.is_required() else field.default)
    for name, field in EpisodeOutcome.model_fields.items()
    if name not in _NESTED
}
"""The type of each plain field's column, and the value of a row that does not say."""
log = structlog.get_logger(__name__)


def file_finished(ctx: Context, size: int = SIZE) -> int:
    """File what open evals have finished in order, `size` episodes at a time; how many parts were made.

    Their newest stay rows: they tell whether an eval still gets on.
    """
    made = 0
    with ctx.store.read() as session:
        waiting = [
            arm
            for row in eval_rows.open_ones(session)
            for number, there in rows.unfiled(session, row.id).items()
            if there > size and (arm := eval_rows.arm(session, row.id, number)) is not None
        ]
    for arm in waiting:
        made += _file(ctx, arm, size)
    return made


def read(blobs: Blobs, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
    """A part's columns, all or those named that it has; rows by index."""
    content = io.BytesIO(blobs.get(key(part.eval_id, part.arm, part.first)))
    if columns is None:
        return pq.read_table(content)
    there = pq.read_schema(content).names
    return pq.read_table(content, columns=[name for name in columns if name in there])


def outcomes(blobs: Blobs, part: Part, first: int, last: int) -> dict[int, dict[str, Any]]:
    """The outcomes of a part's episodes with an index from `first` to `last`, as EpisodeOutcome bodies."""
    table = read(blobs, part)
    indices = table.column("index").to_numpy()
    begin, end = (int(place) for place in (indices.searchsorted(first), indices.searchsorted(last, side="right")))
    return {row["index"]: _body(row) for row in table.slice(begin, end - begin).to_pylist()}


def key(eval_id: str, arm: int, first: int) -> str:
    """Where a part lies."""
    return f"eval/{eval_id}/parts/{arm}-{first}.parquet"


def _file(ctx: Context, arm: Arm, size: int) -> int:
    with ctx.store.read() as session:
        found = rows.finished(session, arm.eval_id, arm=arm.number, limit=size)
    expected = [arm.first + start for start in span(arm.todo, arm.filed, len(found))]
    if len(found) < size or [row.index for row in found] != expected:
        return 0  # one in between is still under way
    ctx.blobs.put(key(arm.eval_id, arm.number, found[0].index), _written(found))
    with ctx.store.write() as session:
        mine = eval_rows.arm(session, arm.eval_id, arm.number)
        if mine is None or mine.filed != arm.filed:
            return 0
        rows.file(session, mine, found)
    log.info("episodes were filed", eval=arm.eval_id, arm=arm.number, episodes=len(found))
    return 1


def _written(found: Iterable[Episode]) -> bytes:
    bodies = [row.outcome or {} for row in found]
    columns = {
        name: pa.array([body.get(name, default) for body in bodies], type=kind)
        for name, (kind, default) in _PLAIN.items()
    }
    for field, (prefix, kind) in _NESTED.items():
        values = [body.get(field) or {} for body in bodies]
        for name in sorted({name for one in values for name in one}):
            columns[prefix + name] = pa.array([one.get(name) for one in values], type=kind)
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd")
    return file.getvalue()


def _body(row: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {name: row[name] for name in _PLAIN if row.get(name) is not None}
    for field, (prefix, _) in _NESTED.items():
        found = {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
        body[field] = {name: value for name, value in found.items() if value is not None}
    return body
