"""A deployment's bounds, changed without a redeploy."""

from __future__ import annotations

from typing import Any

from runner.context import Context
from runner.errors import Refused
from runner.fleet.deployments import owned
from runner.store.queries import deployments
from seq.contract.deployments import Autoscaler, Resources
from seq.contract.scaling import Scaling, ScalingRequest

APPLIED = {
    "min_workers": "min_containers",
    "buffer_workers": "buffer_containers",
    "max_gpus": "max_gpus",
    "idle_timeout": "scaledown_window",
    "on_full": "on_full",
    "queue_timeout_s": "queue_timeout_s",
}
"""What takes effect on this platform, and the name it is kept under."""


def read(ctx: Context, account_id: str, name: str) -> Scaling:
    """The bounds as they stand: those of the serving version, or of the newest where none serves."""
    with ctx.store.read() as session:
        row = owned(session, account_id, name)
        shown = deployments.numbered(session, row.id, row.serving) or deployments.newest(session, row.id)
        assert shown is not None  # noqa: S101 - made together with the deployment
        return Scaling.of(_declared(shown.request))


def scale(ctx: Context, account_id: str, name: str, request: ScalingRequest) -> Scaling:
    """Change what was sent, for the serving version and all after it; a later deploy declares its own.

    Raises Refused, and changes nothing, where a knob would have no effect yet.
    """
    sent = request.model_dump(include=request.model_fields_set)
    with ctx.store.write() as session:
        row = owned(session, account_id, name)
        if not sent:
            raise Refused("invalid_request", f"nothing to change: send one of {', '.join(ScalingRequest.model_fields)}")
        rows = [version for version in deployments.versions(session, row.id) if version.number >= (row.serving or 0)]
        shown = deployments.numbered(session, row.id, row.serving) or rows[0]
        stands = Scaling.of(_declared(shown.request)).model_dump()
        _refuse_unbuilt({key for key, value in sent.items() if stands.get(key, ...) != value})
        kept = {APPLIED[key]: value for key, value in sent.items() if key in APPLIED}
        cards = Resources.model_validate(shown.request["resources"]).cards
        _check_bounds(_declared(shown.request).model_copy(update=kept), cards)
        for version in rows:
            declared = _declared(version.request).model_copy(update=kept)
            # A new dictionary, since a change inside a JSON value is not seen.
            version.request = {**version.request, "autoscaler": declared.wire()}
        now = Scaling.of(_declared(shown.request))
    ctx.wake.set()
    return now


def _check_bounds(declared: Autoscaler, cards: int) -> None:
    """Raise Refused where more workers are to stay than may be held."""
    most, least = declared.max_gpus, declared.min_containers * cards
    if most is not None and least > most:
        raise Refused(
            "invalid_request",
            f"min_workers={declared.min_containers} takes {least} card(s) (a worker on cpu is one), and max_gpus is "
            f"{most}",
            hint="raise max_gpus, or lower min_workers",
        )


def _declared(request: dict[str, Any]) -> Autoscaler:
    return Autoscaler.model_validate(request.get("autoscaler") or {})


def _refuse_unbuilt(changed: set[str]) -> None:
    unbuilt = sorted(changed - set(APPLIED))
    if unbuilt:
        raise Refused(
            "invalid_request",
            f"{', '.join(unbuilt)}: changing this has no effect on this platform yet, so nothing was changed",
            hint=f"{' and '.join(APPLIED)} can be changed",
        )
