"""What a deployment uses and costs, its workers and robots, and how far it may grow."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

from sequence_ai._asking import TIMEOUT_S, gateway, in_path, one_of, read
from sequence_ai._credentials import resolve
from sequence_ai._errors import InternalError, InvalidRequest
from sequence_ai._transport import Link
from sequence_ai._warn import warn_caller

_MOST_DAYS = 366
_ON_FULL = ("queue", "reject")
_RENAMED = {"min_containers": "min_workers", "buffer_containers": "buffer_workers", "scaledown_window": "idle_timeout"}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class _Unset:
    """What a knob is that was not passed: None already means "no limit"."""

    def __repr__(self) -> str:
        return "unset"


_UNSET: Any = _Unset()


def usage(model: str, *, days: int = 30, api_key: str | None = None, base_url: str | None = None) -> dict[str, Any]:
    """What a deployment used on each of the last `days` days (1 to 366).

    `days` holds rows of `day, gpu_card_s, cpu_core_s, memory_gib_s, gpu_usd, cpu_usd, memory_usd, calls, p50_ms,
    p95_ms, errors`: seconds of one card, one core and one GiB, and what each cost.
    """
    if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= _MOST_DAYS:
        raise InvalidRequest(f"days is {days!r}: give 1 to {_MOST_DAYS}", code="invalid_request")
    return read(f"/v1/deployments/{in_path(model)}/usage", api_key, base_url, query={"days": str(days)})


def billing(
    start: str, end: str, *, csv: bool = False, api_key: str | None = None, base_url: str | None = None
) -> list[dict[str, Any]] | str:
    """The account's bill from `start` to `end` (YYYY-MM-DD), a row a day, deployment and resource.

    Rows are `{day, deployment, resource, qty, unit, usd}`; with `csv=True` the same as CSV text. Raises InvalidRequest
    on what is no day, and on an end before the start.
    """
    first, last = _day("start", start), _day("end", end)
    if last < first:
        raise InvalidRequest(f"end {end} lies before start {start}", code="invalid_request")
    query = {"from": first.isoformat(), "to": last.isoformat(), "format": "csv" if csv else "json"}
    with gateway(resolve(api_key, base_url)) as link:
        text = _text(link, "/v1/account/billing", query)
    return text if csv else _rows(text)


def fleet(model: str, *, api_key: str | None = None, base_url: str | None = None) -> dict[str, Any]:
    """A deployment's limits, its `workers` (state, card, slots, sessions) and the robots waiting in `queue`."""
    return read(f"/v1/deployments/{in_path(model)}/fleet", api_key, base_url)


def scale(
    model: str,
    *,
    min_workers: int = _UNSET,
    buffer_workers: int = _UNSET,
    max_gpus: int | None = _UNSET,
    idle_timeout: int = _UNSET,
    on_full: str = _UNSET,
    queue_timeout_s: int = _UNSET,
    api_key: str | None = None,
    base_url: str | None = None,
    **renamed: int,
) -> dict[str, Any]:
    """Change how a deployment grows and shrinks, at once and without a redeploy; what is not passed stays.

    Args:
        model: the deployment's name.
        min_workers: workers that run with no robot connected.
        buffer_workers: spare workers while robots are connected.
        max_gpus: the most cards it may hold; None is no limit of its own.
        idle_timeout: seconds that an idle worker stays.
        on_full: what a robot gets when every slot is taken: "queue" or "reject".
        queue_timeout_s: seconds that a robot waits in line at most.
        api_key: else SEQUENCES_API_KEY, else the local platform's own.
        base_url: else SEQUENCES_BASE_URL, else the local platform, else the hosted one.
        renamed: the knobs' old names, which still work and warn.

    Returns:
        The deployment's scaling as it is now, by the same names.

    Raises:
        InvalidRequest: nothing was passed, or a knob or its value is none there is.
    """
    passed = {
        "min_workers": min_workers,
        "buffer_workers": buffer_workers,
        "max_gpus": max_gpus,
        "idle_timeout": idle_timeout,
        "on_full": on_full,
        "queue_timeout_s": queue_timeout_s,
    }
    knobs = {name: value for name, value in passed.items() if value is not _UNSET}
    _take_renamed(knobs, renamed, known=list(passed))
    if not knobs:
        raise InvalidRequest(f"nothing to change: pass one of {list(passed)}", code="invalid_request")
    if "on_full" in knobs:
        one_of("on_full", knobs["on_full"] or "None", _ON_FULL)
    path = f"/v1/deployments/{in_path(model)}/scaling"
    with gateway(resolve(api_key, base_url)) as link:
        return link.resend_if_dropped("PUT", path, body=knobs, timeout_s=TIMEOUT_S).body


def _take_renamed(knobs: dict[str, Any], renamed: dict[str, Any], *, known: list[str]) -> None:
    for old, value in renamed.items():
        new = _RENAMED.get(old)
        if new is None:
            raise InvalidRequest(f"scale() knows no {old!r}: its knobs are {known}", code="invalid_request")
        if new in knobs:
            raise InvalidRequest(f"{old} is the old name of {new}: give only {new}", code="invalid_request")
        warn_caller(f"scale({old}=) is now {new}=")
        knobs[new] = value


def _text(link: Link, path: str, query: dict[str, str]) -> str:
    """An answer as text: CSV is none of the JSON objects that `call` reads, and a platform may answer a bare list."""
    with link.stream("GET", path, query=query, timeout_s=TIMEOUT_S) as lines:
        return "".join(lines)


def _day(name: str, value: Any) -> date:
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:  # the right form, and no day of the calendar
        pass
    raise InvalidRequest(f"{name} is {value!r}: give a day as YYYY-MM-DD", code="invalid_request")


def _rows(text: str) -> list[dict[str, Any]]:
    try:
        told = json.loads(text)
    except ValueError as wrong:
        raise InternalError(f"malformed /v1/account/billing response: {wrong}", code="internal") from wrong
    rows = next((told[key] for key in ("rows", "data") if key in told), None) if isinstance(told, dict) else told
    if not isinstance(rows, list):
        raise InternalError("malformed /v1/account/billing response: it has no rows", code="internal")
    return rows
