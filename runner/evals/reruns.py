"""Evals of what an earlier one left: its errored and unplayed episodes, or its unsuccessful ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from runner.context import Context
from runner.errors import Refused
from runner.evals import reading, table
from runner.evals.selection import Ranges, Selection, ranges
from runner.evals.table import ArmTable
from runner.store.db import Session
from runner.store.queries import evals as rows
from runner.store.tables import Eval
from seq.contract.evals import EvalRequest

INHERITED = ("adapter", "suite", "tasks", "trials", "variants", "compare", "sweep", "params")
METRIC = "success"


@dataclass(frozen=True)
class Rerun:
    """What is played again: starts, and for a completion which of them each arm lacks (by its number).

    `metric` is by what the others were unsuccessful, where that is why they run.
    """

    earlier: Eval
    selection: Selection
    todo: Mapping[int, Ranges]
    metric: str | None = None


def inherited(
    ctx: Context, session: Session, account_id: str, request: EvalRequest
) -> tuple[EvalRequest, Rerun] | None:
    """The request as the earlier eval makes it whole, and what is to be played; None where it is no rerun.

    Raises Refused where the two do not go together, and where nothing is left to play.
    """
    ref = request.rerun_of or request.rerun_unsuccessful_of
    if ref is None:
        if request.metric is not None:
            raise Refused("invalid_request", "metric goes with rerun_unsuccessful_of (--metric, --rerun-unsuccessful)")
        return None
    earlier = reading.find(session, account_id, ref)
    _refuse_mismatch(request, earlier)
    found = table.read(session, ctx.blobs, earlier, ctx.clock.now())
    rerun = _unplayed(found) if request.rerun_of else _unsuccessful(found, request.metric or METRIC)
    before = EvalRequest.model_validate(earlier.request)
    taken_over = {name: getattr(before, name) for name in INHERITED}
    return request.model_copy(update={**taken_over, "record": request.record or before.record}), rerun


def _refuse_mismatch(request: EvalRequest, earlier: Eval) -> None:
    if request.rerun_of and request.rerun_unsuccessful_of:
        raise Refused("invalid_request", "give rerun_of or rerun_unsuccessful_of, not both")
    if request.rerun_of and request.metric is not None:
        raise Refused("invalid_request", "metric goes with rerun_unsuccessful_of; a rerun of errors asks no metric")
    given = [name for name in INHERITED if getattr(request, name) is not None]
    if given:
        raise Refused(
            "invalid_request",
            f"a rerun takes its adapter, its starts and its arms from the eval it reruns; leave out {', '.join(given)}",
        )
    if (request.model, request.benchmark) != (earlier.model, earlier.benchmark):
        raise Refused(
            "invalid_request",
            f"eval {earlier.id} ran {earlier.model} on {earlier.benchmark}, "
            f"and this names {request.model} on {request.benchmark}",
        )
    if earlier.ended_at is None:
        raise Refused("conflict", f"eval {earlier.id} is still {earlier.status}", hint="wait for it, or cancel it")


def _unplayed(found: table.Table) -> Rerun:
    """Episodes that ended in an error or never ran. One that failed its task is not played again: that would lift
    the rate.
    """
    todo = {one.arm.number: _lacking(one) for one in found.arms}
    if not any(todo.values()):
        raise Refused("conflict", f"every episode of eval {found.row.id} was scored, so there is nothing to run again")
    return Rerun(found.row, found.selection, todo)


def _lacking(one: ArmTable) -> Ranges:
    scored = np.zeros(len(one.selection), dtype=bool)
    scored[one.starts[one.columns.scored]] = True
    return ranges(int(start) for start in np.flatnonzero(~scored))


def _unsuccessful(found: table.Table, metric: str) -> Rerun:
    """Starts at which some arm was scored 0 by the metric."""
    known = sorted({name for one in found.arms for name in one.metrics})
    if metric not in known:
        raise Refused(
            "invalid_request",
            f"eval {found.row.id} has no metric {metric!r}",
            hint=f"it has: {', '.join(known) or 'none'}; name one with --metric",
        )
    having = [one for one in found.arms if metric in one.metrics]
    missed = np.concatenate([one.starts[one.columns.scored][one.metrics[metric] == 0] for one in having])
    if not len(missed):
        raise Refused("conflict", f"no episode of eval {found.row.id} was unsuccessful by {metric!r}")
    selection = found.selection.only(np.unique(missed).tolist())
    everything: Ranges = ((0, len(selection)),)
    return Rerun(found.row, selection, {one.arm.number: everything for one in found.arms}, metric)


def pinned(session: Session, earlier: Eval) -> list[str]:
    """The policy versions of the earlier eval's arms, the first arm's first."""
    return list(dict.fromkeys(arm.version_id for arm in rows.arms(session, earlier.id)))
