"""The files that episodes left: recordings and trajectories."""

from __future__ import annotations

from typing import Literal

from runner.context import Context
from runner.errors import Refused
from runner.evals import reading, table
from runner.store.queries import evals as rows

_LACKING = {"recorded": "recording", "trajectory": "trajectory"}


def read(
    ctx: Context, account_id: str, ref: str, index: int, kind: Literal["recorded", "trajectory"], name: str
) -> bytes:
    """A file that the episode of that index left; raises Refused where there is none."""
    with ctx.store.read() as session:
        row = reading.find(session, account_id, ref)
        total = table.space(row, rows.arms(session, row.id))
        if not 0 <= index < total:
            raise Refused("not_found", f"eval {row.id} has no episode {index}; it has 0 to {total - 1}")
        played = table.outcomes_between(session, ctx.blobs, row, index, index).get(index)
    if played is None or not played[1].get(kind):
        raise Refused("not_found", f"episode {index} of eval {row.id} has no {_LACKING[kind]}")
    eval_id, outcome = played
    try:
        return ctx.blobs.get(f"eval/{eval_id}/{index}/{outcome['attempt']}/{name}")
    except FileNotFoundError as gone:
        raise Refused(
            "not_found", f"the {_LACKING[kind]} of episode {index} of eval {row.id} is no longer there"
        ) from gone
