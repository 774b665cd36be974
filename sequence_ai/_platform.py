"""Plain questions to the gateway: what it serves, what it costs, what this account has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sequence_ai._asking import one_of, read
from sequence_ai._errors import InvalidRequest
from sequence_ai._types import Model

_KINDS = ("model", "template")
_ENDPOINTS = ("chat", "decide")


def models(
    *,
    kind: str | None = None,
    endpoint: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
) -> list[Model]:
    """The models that the platform serves itself, then the templates that `seq init` writes. Needs no key.

    `kind` is "model" or "template"; `endpoint` ("chat" or "decide") keeps the models that answer there. Raises
    InvalidRequest on another value, and on an endpoint asked of templates.
    """
    one_of("kind", kind, _KINDS)
    one_of("endpoint", endpoint, _ENDPOINTS)
    if endpoint is not None and kind == "template":
        raise InvalidRequest(f"endpoint={endpoint!r} is asked of templates, which have none: leave one of the two out")
    found: list[Model] = []
    if kind != "template":
        query = {"endpoint": endpoint} if endpoint else None
        rows = read("/v1/models", api_key, base_url, key_needed=False, query=query).get("data") or []
        found += [_model(row) for row in rows if not row.get("alias_of")]
    if kind != "model" and endpoint is None:
        rows = read("/v1/templates", api_key, base_url, key_needed=False).get("data") or []
        found += [_template(row) for row in rows]
    return found


def account(*, api_key: str | None = None, base_url: str | None = None) -> dict[str, Any]:
    """This account's `balance`, `usage`, `limits` and `gpus`.

    `gpus` is `{limit, in_use: {serving, eval, total}, available, waiting_evals}`; a count that the platform could not
    read is None: show it as "unknown", never as "full".
    """
    body = read("/v1/account", api_key, base_url)
    cards = body.get("gpus") or {}
    used = cards.get("in_use") or {}
    return {
        "balance": None,
        "usage": None,
        "limits": {},
        **body,
        "gpus": {
            "limit": None,
            "available": None,
            "waiting_evals": [],
            **cards,
            "in_use": {"serving": None, "eval": None, "total": None, **used},
        },
    }


def gpus(*, base_url: str | None = None) -> dict[str, Any]:
    """The cards that `gpu=` can name and what they, a core and a GiB of memory cost. Needs no key.

    `gpus` has a row a card (`gpu, usd_per_hour, usd_per_second, vram_gb, policy, benchmark, rt_core, nvenc,
    render_ms`); beside it `cpu`, `memory`, `regions`, `compute_billed` and `min_billable_s`.
    """
    return read("/v1/pricing", None, base_url, key_needed=False)


def _model(row: Mapping[str, Any]) -> Model:
    return Model(row["id"], row.get("endpoint"), row.get("architecture"), raw=row, usage=row.get("usage"))


def _template(row: Mapping[str, Any]) -> Model:
    return Model(
        row["name"],
        endpoint=None,
        architecture=None,
        raw=row,
        kind="template",
        template_kind=row.get("kind"),
        stable=row.get("stable"),
        beta=row.get("beta"),
    )
