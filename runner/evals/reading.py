"""Finding an account's evals, and ending one."""

from __future__ import annotations

import re

from runner.context import Context
from runner.errors import Refused
from runner.evals import ending
from runner.store.db import Session
from runner.store.queries import evals as rows
from runner.store.tables import Eval

MIN_START = 8
_HEX = re.compile(r"[0-9a-f]+")


def find(session: Session, account_id: str, ref: str) -> Eval:
    """The account's eval of that id, or the one whose id begins with `ref` (8 digits at least); else `not_found`."""
    digits = ref.replace("-", "").lower()
    found = rows.find(session, account_id, digits) if len(digits) >= MIN_START and _HEX.fullmatch(digits) else []
    if not found:
        hint = "`seq eval ls POLICY` lists them; an id may be shortened to its first 8 digits or more"
        raise Refused("not_found", f"no eval {ref!r}", hint=hint)
    if len(found) > 1:
        ids = [row.id for row in found]
        raise Refused("invalid_request", f"{ref!r} begins several eval ids", hint="give more of its digits", evals=ids)
    return found[0]


def cancel(ctx: Context, account_id: str, ref: str, why: str | None = None) -> Eval:
    """Stop an eval: nothing more is handed out, what finished is kept, and its report says `why`. One that has ended
    is left as it is.
    """
    with ctx.store.write() as session:
        row = find(session, account_id, ref)
        ending.cancel(session, row, ctx.clock.now(), why)
    ctx.wake.set()
    return row
