"""`seq volume`: what is stored."""

from __future__ import annotations

import typer

from seq.cli._app import Cursor, Limit, group, show_page
from seq.cli._text import size

app = group("Weights, datasets and the recordings of evals.")


@app.command("ls")
def ls(ctx: typer.Context, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List volumes; an eval's recordings appear as eval:ID."""
    show_page(
        ctx,
        "/v1/volumes",
        "data",
        ("name", "kind", "state", "version", "size"),
        lambda row: [
            row["name"],
            row.get("kind"),
            row.get("state"),
            row.get("version"),
            size(row.get("size_bytes") or 0),
        ],
        limit=limit,
        cursor=cursor,
    )
