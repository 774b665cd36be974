"""Two evals held against each other: what differs between them, and the difference over the starts that both scored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner.context import Context
from runner.errors import Refused
from runner.evals import reading, table
from runner.evals.details import facts
from runner.evals.table import ArmTable, Table, paired


def compare(ctx: Context, account_id: str, first: str, second: str) -> dict[str, Any]:
    """The second eval's first arm minus the first's, by every metric that both have, and what else differs.

    Raises Refused where the starts of one are not those of the other: another benchmark, or another version of it.
    """
    with ctx.store.read() as session:
        rows = [reading.find(session, account_id, ref) for ref in (first, second)]
        a, b = (table.read(session, ctx.blobs, row, ctx.clock.now()) for row in rows)
    _refuse_other_starts(a, b)
    found = paired(a.first, b.first)
    return {
        "a": _named(a),
        "b": _named(b),
        "paired": [
            {"metric": one.metric, **one.difference.wire(), "p_adjusted": one.difference.p, "comparisons": 1}
            for one in found
        ],
        "differs": differences(a, b),
        "incomplete": a.incomplete or b.incomplete,
    }


def differences(a: Table, b: Table) -> list[str]:
    """What differs between two evals beside the policies' versions, a sentence each; seeds are paired, not compared."""
    return [*_plan_differences(a, b), *_fact_differences(a, b)]


def same_starts(a: Table, b: Table) -> bool:
    """Whether equal seeds mean equal starts in both."""
    one, other = a.row, b.row
    return one.benchmark_version_id == other.benchmark_version_id and _setup(a.first) == _setup(b.first)


def _refuse_other_starts(a: Table, b: Table) -> None:
    if a.row.plan["benchmark_id"] != b.row.plan["benchmark_id"]:
        raise Refused("conflict", f"one eval ran {a.row.benchmark} and the other {b.row.benchmark}: nothing to compare")
    if not same_starts(a, b):
        raise Refused(
            "conflict",
            f"the evals ran other versions or other parameters of {a.row.benchmark}, "
            "so equal seeds need not be equal starts",
            hint="run one of the two again with what the other ran",
            differs=differences(a, b),
        )


def _setup(one: ArmTable) -> dict[str, Any]:
    return {name: told["value"] for name, told in (one.arm.settings.get("benchmark") or {}).items()}


def _plan_differences(a: Table, b: Table) -> Iterator[str]:
    one, other = a.row, b.row
    if one.plan["benchmark_version"] != other.plan["benchmark_version"]:
        yield _told(
            f"benchmark {one.benchmark}", f"v{one.plan['benchmark_version']}", f"v{other.plan['benchmark_version']}"
        )
    if one.plan["adapter"] != other.plan["adapter"]:
        yield _told("adapter", _adapter(one.plan["adapter"]), _adapter(other.plan["adapter"]))
    for side in ("policy", "adapter", "benchmark", "eval"):
        mine, its = ((row.arm.settings.get(side) or {}) for row in (a.first, b.first))
        for name in sorted(mine.keys() | its.keys()):
            was, now = ((given.get(name) or {}).get("value") for given in (mine, its))
            if was != now:
                yield _told(f"{side}.{name}", was, now)
    if a.selection.blocks != b.selection.blocks:
        yield _told("starts", f"{len(a.selection)}", f"{len(b.selection)}") + "; only those of both are paired"
    for what, key in (("platform", "platform"), ("cores of the machine", "machine_cores")):
        if one.plan[key] != other.plan[key]:
            yield _told(what, one.plan[key], other.plan[key])


def _fact_differences(a: Table, b: Table) -> Iterator[str]:
    """Versions, drawing and machine, where both told."""
    mine, its = facts(a), facts(b)
    for name in sorted(mine.keys() & its.keys()):
        if mine[name] != its[name]:
            yield _told(name, mine[name], its[name])


def _adapter(plan: dict[str, Any] | None) -> str:
    return "none" if plan is None else f"{plan['name']} v{plan['version']}"


def _told(what: str, was: Any, now: Any) -> str:
    return f"{what}: {was} before, {now} now"


def _named(found: Table) -> dict[str, Any]:
    row = found.row
    return {
        "eval_id": row.id,
        "model": row.model,
        "model_version": row.plan["model_version"],
        "status": row.status,
        "scored": found.first.scored,
    }
