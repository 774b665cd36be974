"""`seq account`, `seq gpus`, `seq models`: what this account has, and what there is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

import typer

from seq.cli._app import of, say, say_json, table
from seq.cli._text import count, yes
from sequence_ai import InvalidRequest


def add_to(app: typer.Typer) -> None:
    """Add this noun's commands to the root."""
    for command in (account, gpus, models):
        app.command()(command)


class Kind(str, Enum):
    """What a row of `seq models` is."""

    MODEL = "model"
    TEMPLATE = "template"


class Endpoint(str, Enum):
    """Where a model answers."""

    CHAT = "chat"
    DECIDE = "decide"


def account(ctx: typer.Context) -> None:
    """Show the balance, the GPUs held and free, the usage and the limits."""
    inv = of(ctx)
    with inv.api() as api:
        found = api.get("/v1/account")
    if inv.json:
        say_json(found)
        return
    _show_balance(found.get("balance") or {})
    _show_gpus(found.get("gpus") or {})
    _show_pairs("usage", found.get("usage") or {})
    _show_pairs("limits", found.get("limits") or {})


def gpus(ctx: typer.Context) -> None:
    """List the cards that gpu= can name, and what a card, a core and a GiB cost. Needs no key."""
    inv = of(ctx)
    with inv.api(key_needed=False) as api:
        found = api.get("/v1/pricing")
    if inv.json:
        say_json(found)
        return
    headers = ("card", "GiB", "$/hour", "$/second", "policy", "benchmark", "RT core", "encoder", "render ms")
    table(headers, [_card_row(row) for row in found.get("gpus") or []])
    say(
        f"a CPU core costs ${found['cpu']['usd_per_core_hour']} an hour, "
        f"a GiB of memory ${found['memory']['usd_per_gib_hour']} an hour"
    )


def models(
    ctx: typer.Context,
    kind: Annotated[Kind | None, typer.Option(help="Only models, or only templates.")] = None,
    endpoint: Annotated[Endpoint | None, typer.Option(help="Only models that answer there.")] = None,
) -> None:
    """List the chat and decide models, and the templates that `seq init` writes. Needs no key."""
    inv = of(ctx)
    if kind is Kind.TEMPLATE and endpoint is not None:
        raise InvalidRequest(
            "--endpoint is asked of templates, which have none: leave one of the two out", code="invalid_request"
        )
    with inv.api(key_needed=False) as api:
        served = [] if kind is Kind.TEMPLATE else api.get("/v1/models", endpoint=_word(endpoint)).get("data") or []
        shipped = [] if kind is Kind.MODEL or endpoint is not None else api.get("/v1/templates").get("data") or []
    served = [row for row in served if not row.get("alias_of")]
    if inv.json:
        say_json({"models": served, "templates": shipped})
        return
    if served:
        table(
            ("model", "endpoint", "architecture"),
            [[row.get(k) for k in ("id", "endpoint", "architecture")] for row in served],
        )
    elif kind is not Kind.TEMPLATE:
        say("this platform serves no chat and no decide model")
    if shipped:
        keys = ("name", "kind", "stable", "beta")
        table(("template", *keys[1:]), [[row.get(k) for k in keys] for row in shipped])


def _show_balance(balance: Mapping[str, Any]) -> None:
    amount = f"{count(balance.get('balance'))} {balance.get('currency') or ''}".strip()
    limit = balance.get("credit_limit_usd")
    say(f"balance     {amount}" + (f" (credit limit ${limit})" if limit is not None else ""))


def _show_gpus(cards: Mapping[str, Any]) -> None:
    used = cards.get("in_use") or {}
    say(
        f"GPUs        limit {count(cards.get('limit'))} · serving {count(used.get('serving'))} · "
        f"evals {count(used.get('eval'))} · available {count(cards.get('available'))}"
    )
    for waiting in cards.get("waiting_evals") or []:
        say(
            f"  eval {waiting['eval_id']} waits for {count(waiting.get('cards'))} card(s), "
            f"gives up at {count(waiting.get('gives_up_at'))}"
        )


def _show_pairs(label: str, pairs: Mapping[str, Any]) -> None:
    if pairs:
        say(f"{label:<11} {' · '.join(f'{name} {count(value)}' for name, value in pairs.items())}")


def _card_row(row: Mapping[str, Any]) -> list[Any]:
    plain = [row.get(key) for key in ("gpu", "vram_gb", "usd_per_hour", "usd_per_second")]
    return [*plain, *(yes(row.get(key)) for key in ("policy", "benchmark", "rt_core", "nvenc")), row.get("render_ms")]


def _word(choice: Enum | None) -> str | None:
    return None if choice is None else str(choice.value)
