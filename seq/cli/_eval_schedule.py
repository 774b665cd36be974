"""Evals that run by themselves: what is asked of a schedule, set and removed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from seq._bodies import checked
from seq._eval_answers import Answer, Schedule, answered
from seq._eval_request import refuse_amount, refuse_texts
from seq.api import Api, Json, named
from seq.contract.evals import ScheduleRequest
from seq.evaluating import Adapter, adapter_ref
from sequence_ai import InvalidRequest


def change(benchmark: str, asked: Mapping[str, Any], *, off: bool) -> ScheduleRequest | None:
    """What is to be set; None where nothing is, and the schedule is removed (`off`) or only shown.

    Raises InvalidRequest on what no platform could take, and on a change together with `off`.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    if off and given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InvalidRequest(f"--off removes the schedule: leave {flags} out with it", code="invalid_request")
    refuse_texts({"benchmark": benchmark, **given})
    if "max_usd" in given:
        refuse_amount("max_usd", given["max_usd"])
    if "webhook" in given:
        _refuse_address(given["webhook"])
    return checked(ScheduleRequest, {"benchmark": benchmark, **given}) if given else None


def keep(api: Api, policy: str, wanted: ScheduleRequest, adapter: Adapter | None) -> Json:
    """Set it; what the platform then says of it."""
    if adapter is not None:
        wanted = wanted.model_copy(update={"adapter": adapter_ref(api, adapter)})
    return answered(Schedule, api.put(_path(policy), wanted.wire()), "a schedule")


def drop(api: Api, policy: str, benchmark: str) -> Json:
    """Remove it."""
    return answered(Answer, api.delete(_path(policy), benchmark=benchmark), "that of a schedule removed")


def change_lines(told: Mapping[str, Any], removed: str | None) -> Iterator[str]:
    """What a list of schedules will not tell: that one was removed, and the secret of a webhook that was just set."""
    if removed is not None:
        yield removed
    secret = (told.get("schedule") or {}).get("webhook_secret")
    if secret:
        yield f"webhook secret: {secret}"
        yield "  told this once; X-Seq-Signature is sha256= and the HMAC-SHA256 of the body under it, in hex"


def _path(policy: str) -> str:
    return f"/v1/deployments/{named(policy)}/evals/schedule"


def _refuse_address(url: str) -> None:
    """A webhook is told over https, or plainly on the platform's own machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:  # a bracket that nothing closes
        parts, host = urlsplit(""), ""
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_here(host))):
        raise InvalidRequest(
            f"--webhook {url!r}: give an https:// address (http:// only on the platform's own machine)",
            code="invalid_request",
        )


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
