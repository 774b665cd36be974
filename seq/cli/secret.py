"""`seq secret`: the names of stored credentials; never their values."""

from __future__ import annotations

import typer

from seq.cli._app import Cursor, Limit, group, show_page

app = group("Credentials by name; values are never shown.")


@app.command("ls")
def ls(ctx: typer.Context, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List secrets: name, variable names, when made and last used."""
    show_page(
        ctx,
        "/v1/secrets",
        "secrets",
        ("name", "variables", "created", "last used"),
        lambda row: [row["name"], ", ".join(row.get("env_keys") or []), row.get("created_at"), row.get("last_used_at")],
        limit=limit,
        cursor=cursor,
    )
