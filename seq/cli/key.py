"""`seq key`: keys of this account, and the first key of another."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from seq._bodies import checked
from seq.cli._app import Cursor, Limit, group, note, of, say, say_json, show_page
from seq.contract.keys import KeyRequest
from sequence_ai import InvalidRequest

app = group("Keys: full ones, and act keys bound to one deployment.")


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Option(help="What to call it.")] = "",
    deployment: Annotated[str | None, typer.Option(help="An act key: may only drive this deployment.")] = None,
    account: Annotated[
        str | None, typer.Option(help="Make another account with this name (first account only).")
    ] = None,
) -> None:
    """Make a key and show it, this once, on stdout."""
    if deployment is not None and account is not None:
        raise InvalidRequest(
            "--deployment and --account: a new account has no deployment yet; give one", code="invalid_request"
        )
    request = checked(KeyRequest, {"name": name, "deployment": deployment, "account": account})
    inv = of(ctx)
    with inv.api() as api:
        made = api.post("/v1/keys", request.wire())
    if inv.json:
        say_json(made)
        return
    what = f"act key for {made['deployment']}" if made.get("deployment") else f"full key of account {made['account']}"
    note(f"{what} (id {made['id']}); it is shown only now:")
    say(made["secret"])


@app.command("ls")
def ls(ctx: typer.Context, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List keys by their shown form."""
    keys = ("id", "name", "key", "kind", "deployment", "created_at")
    show_page(
        ctx,
        "/v1/keys",
        "data",
        ("id", "name", "key", "kind", "deployment", "created"),
        lambda row: [row.get(key) for key in keys],
        limit=limit,
        cursor=cursor,
    )


@app.command("rm")
def rm(
    ctx: typer.Context, key: Annotated[str, typer.Argument(help="Its id, the id's start, its name or its shown form.")]
) -> None:
    """Remove a key; whoever uses it is refused from then on."""
    inv = of(ctx)
    with inv.api() as api:
        removed = api.delete(f"/v1/keys/{quote(key, safe='')}")
    if inv.json:
        say_json(removed)
    else:
        say(f"removed {key}")
