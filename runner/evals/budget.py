"""The bound that an eval may not cost more than: episodes start only while one more minute of everything fits in it."""

from __future__ import annotations

from runner.evals.costs import machines_usd
from runner.evals.plan import Machines
from runner.evals.table import spent_usd
from runner.store.db import Session
from runner.store.queries import instances, workers
from runner.store.tables import Eval

MINUTE_S = 60.0


def is_spent(session: Session, row: Eval, now: float) -> bool:
    """Whether one more minute of all its machines would cost more than the eval may."""
    most: float | None = row.request.get("max_usd")
    if most is None:
        return False
    spent = spent_usd(row, workers.of_eval(session, row.id), instances.of_eval(session, row.id), now)
    return spent + minute_usd(row) > most


def minute_usd(row: Eval) -> float:
    """What a minute of all its machines costs."""
    plan = row.plan
    machines = [Machines(**side["machines"]) for side in plan["policies"]]
    machines += [Machines(**plan["benchmark"])] * plan["playing"]
    return sum(machines_usd(one, MINUTE_S) for one in machines)
