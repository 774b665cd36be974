"""What an account used and what it is charged: nothing is charged here, and use is not recorded yet."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response

from runner.errors import Refused
from runner.fleet.deployments import owned
from runner.gateway.deps import Ctx, FullCaller

router = APIRouter()

BILL_COLUMNS = ("day", "deployment", "resource", "qty", "unit", "usd")


@router.get("/v1/account/billing", response_model=None)
def billing(
    caller: FullCaller,  # noqa: ARG001 - a full key is needed all the same
    first: Annotated[date, Query(alias="from")],
    last: Annotated[date, Query(alias="to")],
    format: Literal["json", "csv"] = "json",
) -> dict[str, Any] | Response:
    """The bill, which has no rows: nothing is charged on this platform."""
    if last < first:
        raise Refused("invalid_request", f"to={last} lies before from={first}")
    if format == "csv":
        return PlainTextResponse(",".join(BILL_COLUMNS) + "\n", media_type="text/csv")
    return {"rows": [], "note": "this platform charges nobody, so a bill has no rows"}


@router.get("/v1/account/usage")
def account_usage(
    caller: FullCaller,  # noqa: ARG001 - as above
    by: Literal["hour", "day"] = "day",
    group: Literal["none", "deployment", "gpu", "kind"] = "none",
) -> dict[str, Any]:
    """Refused: see `_unrecorded`."""
    raise _unrecorded(f"the account's use by {by}" + (f" and {group}" if group != "none" else ""))


@router.get("/v1/deployments/{name}/usage")
def deployment_usage(
    name: str, ctx: Ctx, caller: FullCaller, days: Annotated[int, Query(ge=1, le=366)] = 30
) -> dict[str, Any]:
    """Refused: see `_unrecorded`."""
    with ctx.store.read() as session:
        row = owned(session, caller.account_id, name)
    raise _unrecorded(f"what {row.name!r} used in {days} days")


def _unrecorded(what: str) -> Refused:
    """Use is billed on the greater of what was asked for and what was used; the second is measured nowhere here."""
    return Refused(
        "invalid_request",
        f"{what} cannot be told: processor time, memory and calls by day are not recorded on this platform yet",
        hint="`seq policy status NAME` shows a deployment's workers, an eval's report what it cost",
    )
