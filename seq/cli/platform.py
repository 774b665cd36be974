"""`seq up`, `seq down`, `seq status`: the platform of this machine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from seq import _pretend, local
from seq import api as control
from seq.cli._app import Invocation, note, of, say, say_json, table
from sequence_ai import InvalidRequest, Unavailable


def add_to(app: typer.Typer) -> None:
    """Add this noun's commands to the root."""
    for command in (up, down, status):
        app.command()(command)


def up(
    ctx: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on (default: the last one, else 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port (default: the last one, else a free one).")
    ] = None,
    pretend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CARD:N",
            help="Pretend that this machine has cards, to try layouts: L4:2, or L4:2,H100:16. Until `seq down`.",
        ),
    ] = None,
    gpus_per_account: Annotated[
        int | None, typer.Option(min=1, help="Cards an account may hold at once (default: the last number, else 8).")
    ] = None,
) -> None:
    """Start the platform on this machine; when it runs already, say so and change nothing."""
    inv = _local_only(ctx, "up")
    cards = _pretend.parse(pretend) if pretend else None
    platform = local.start(host, port, note, pretend=cards, gpus_per_account=gpus_per_account)
    if inv.json:
        say_json(
            {
                "url": platform.url,
                "home": str(platform.home),
                "pid": platform.pid,
                "started": platform.started,
                "pretend": dict(platform.pretend),
            }
        )
        return
    if platform.started:
        say(
            f"the platform runs at {platform.url} (pid {platform.pid}, state in {platform.home})",
            "next: `seq init --list`, or `seq status --env` for its address and key",
        )
    else:
        say(f"the platform already runs at {platform.url} (pid {platform.pid}); nothing was changed")
    _say_cards(platform.pretend, pretend=True)


def down(ctx: typer.Context) -> None:
    """End the platform of this machine: all that it started, and nothing else. Its state stays."""
    inv = _local_only(ctx, "down")
    ended = local.stop(note)
    if inv.json:
        say_json({"home": str(local.home()), "ended": ended})
    elif ended:
        say(f"ended {' and '.join(ended)}")
    else:
        say(f"no platform was running in {local.home()}")


def status(
    ctx: typer.Context,
    env: Annotated[bool, typer.Option("--env", help="Print `export` lines of its address and key, for eval.")] = False,
) -> None:
    """Say what runs: the platform, its workers and its benchmark instances."""
    inv = of(ctx)
    if env:
        inv.refuse_json("status --env")
        place = control.resolve(base_url=inv.base_url)
        say(
            f"export SEQUENCES_BASE_URL={shlex.quote(place.base_url)}",
            f"export SEQUENCES_API_KEY={shlex.quote(place.api_key or '')}",
        )
        return
    try:
        api = inv.connect(base_url=inv.base_url, key_needed=True, may_start=False)
    except Unavailable as none:
        _nothing_runs(inv, none)
        return
    with api:
        found = api.get("/v1/status")
    if inv.json:
        say_json({"running": True, **found})
    else:
        _show(found)


def _nothing_runs(inv: Invocation, none: Unavailable) -> None:
    if inv.json:
        say_json({"running": False, "home": str(local.home())})
    else:
        say(f"{none.message}; {none.hint}")


def _show(found: dict[str, Any]) -> None:
    gateway, head = found.get("gateway") or {}, found.get("head") or {}
    say(
        f"platform    {gateway.get('url')}  pid {gateway.get('pid')}  version {gateway.get('version')}  "
        f"since {gateway.get('started_at')}"
    )
    if head.get("pids"):
        say(f"head        pids {', '.join(str(pid) for pid in head['pids'])}")
    _say_cards(found.get("cards") or {}, pretend=bool(found.get("pretend")))
    workers, instances = found.get("workers") or [], found.get("instances") or []
    if workers:
        _table("worker", ("deployment", "purpose", "state", "pid"), workers)
    if instances:
        _table("instance", ("eval", "state", "pid", "pids"), instances)
    if not workers and not instances:
        say("no worker and no benchmark instance runs")


def _say_cards(cards: Mapping[str, int], *, pretend: bool) -> None:
    if not cards:
        return
    say(f"cards       {', '.join(f'{there} x {name}' for name, there in sorted(cards.items()))}")
    if pretend:
        say("            pretend: this machine has none; what asks for one runs on its CPU, and no time is a card's")


def _table(kind: str, keys: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    table((kind, *keys), [[row.get("id"), *(row.get(key) for key in keys)] for row in rows])


def _local_only(ctx: typer.Context, command: str) -> Invocation:
    inv = of(ctx)
    if inv.base_url is not None:
        raise InvalidRequest(
            f"--base-url: `seq {command}` is about the platform of this machine; SEQ_HOME says which",
            code="invalid_request",
        )
    return inv
