"""What is told of an eval beside its own table: how far it is, its wait for cards, how it compares with another one."""

from __future__ import annotations

from typing import Any

from runner.cluster.base import ClusterLostError
from runner.context import Context
from runner.evals import line, reading, submit, table
from runner.evals.comparing import differences
from runner.evals.table import Table
from runner.store.queries import episodes as episode_rows
from runner.store.queries import evals as rows
from runner.store.tables import Eval


def progress(ctx: Context, account_id: str, ref: str) -> dict[str, Any]:
    """How far an eval is, by counts alone: cheap however often it is asked and however many episodes there are."""
    with ctx.store.read() as session:
        row = reading.find(session, account_id, ref)
        counts = episode_rows.counts(session, row)
        total = table.space(row, rows.arms(session, row.id))
    taken_over = total - counts.total
    told = {
        "done": taken_over + counts.done,
        "total": total,
        "failed": counts.failed,
        "running": counts.leased,
        "pending": counts.pending,
        "not_run": counts.not_run,
    }
    return {"status": row.status, "progress": told, **_queue(ctx, row)}


def beside(ctx: Context, found: Table) -> dict[str, Any]:
    """Of an eval in line, the wait; of a scheduled run, how the one before it compares; of a rerun, what differs."""
    more = _queue(ctx, found.row)
    previous = found.row.previous or {}
    if "eval_id" in previous:
        more |= {"previous": previous, "differs": previous["differs"]}
    return more | _rerun(ctx, found)


def _rerun(ctx: Context, found: Table) -> dict[str, Any]:
    if found.row.rerun_of is None:
        return {}
    with ctx.store.read() as session:
        earlier = rows.get(session, found.row.rerun_of)
        before = table.head(session, earlier, found.now) if earlier is not None else None
    return {"differs": differences(before, found)} if before is not None else {}


def _queue(ctx: Context, row: Eval) -> dict[str, Any]:
    """Where the cluster does not answer, how many cards are free is not known."""
    if row.status != "queued":
        return {}
    wait = line.wait_block(row, ctx.clock.now())
    try:
        there = ctx.cluster.capacity().cards
    except ClusterLostError:
        return {"queue": {**wait, "available": None}}
    with ctx.store.read() as session:
        free = submit.stock_of(ctx, session, row.account_id, there).free(row.cards)
    return {"queue": {**wait, "available": free}}
