"""`seq policy`: the deployments of this account."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from seq.api import named
from seq.cli._app import Cursor, Limit, Timeout, group, of, say, say_json, show_page, table
from seq.cli._fleet import show_fleet
from seq.cli._scaling import KNOBS, OnFull, idle, knobs, refuse_unbuilt, scaling_rows
from seq.cli._text import count, short
from seq.deploying import row_of, wait_policy
from sequence_ai import Conflict, InvalidRequest, NotFound

app = group("Deployed policies.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The deployment's name.")]


@app.command("ls")
def ls(ctx: typer.Context, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List deployments: status, version, card, weights."""
    show_page(
        ctx,
        "/v1/deployments",
        "data",
        ("name", "status", "version", "card", "weights", "newest"),
        _row,
        limit=limit,
        cursor=cursor,
    )


@app.command("status")
def status(
    ctx: typer.Context,
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until its newest version is ready.")] = False,
    timeout: Timeout = None,
) -> None:
    """Say how a deployment is, and what its workers do; a failed one ends with 5."""
    inv = of(ctx)
    if timeout is not None and not wait:
        raise InvalidRequest("--timeout goes with --wait", code="invalid_request")
    with inv.api() as api:
        if wait:
            with inv.progress() as watch:
                wait_policy(api, name, timeout, None, watch)
        state = api.get(f"/v1/deployments/{named(name)}")
        fleet = _fleet(api.get, name)
        row = row_of(api, name) if state["status"] == "failed" else None
    if inv.json:
        say_json({**state, "fleet": fleet})
    else:
        show_fleet(name, state, fleet)
    _end_as(name, state, row)


@app.command("logs")
def logs(
    ctx: typer.Context,
    name: Name,
    build: Annotated[bool, typer.Option("--build", help="The newest version's phases and its whole log.")] = False,
    rid: Annotated[str | None, typer.Option("--rid", metavar="ID", hidden=True)] = None,
) -> None:
    """Show the build of a deployment's newest version."""
    inv = of(ctx)
    inv.refuse_json("policy logs")
    if rid is not None or not build:
        raise InvalidRequest(
            "the lines of workers and connects are not kept yet: `seq policy logs NAME --build` shows the build",
            code="invalid_request",
        )
    with inv.api() as api:
        found = api.get(f"/v1/deployments/{named(name)}/build")
    say(f"{found['deployment']} v{found['version']}: {found['state']}")
    for entry in found.get("phases") or []:
        say(f"  {datetime.fromtimestamp(entry['at']).astimezone():%H:%M:%S}  {entry['phase']}")
    if found.get("log"):
        say(str(found["log"]).rstrip())
    if found.get("error"):
        say(f"error: {found['error']}")


def _knob(flag: str, metavar: str | None = None) -> Any:
    return typer.Option(flag, metavar=metavar, help=KNOBS[flag].meaning)


@app.command("scale")
def scale(
    ctx: typer.Context,
    name: Name,
    min_workers: Annotated[int | None, _knob("--min", "N")] = None,
    buffer_workers: Annotated[int | None, _knob("--buffer", "N")] = None,
    max_gpus: Annotated[str | None, _knob("--max-gpus", "N")] = None,
    idle_timeout: Annotated[int | None, _knob("--idle-timeout", "S")] = None,
    scaledown: Annotated[int | None, typer.Option("--scaledown", metavar="S", hidden=True)] = None,
    on_full: Annotated[OnFull | None, _knob("--on-full")] = None,
    queue_timeout_s: Annotated[int | None, _knob("--queue-timeout", "S")] = None,
    rotate_after_s: Annotated[str | None, typer.Option("--rotate-after", metavar="S", hidden=True)] = None,
    during: Annotated[str | None, typer.Option("--during", hidden=True)] = None,
    tz: Annotated[str | None, typer.Option("--tz", hidden=True)] = None,
    clear: Annotated[bool, typer.Option("--clear", hidden=True)] = False,
) -> None:
    """Change how a deployment grows and shrinks, at once and without a redeploy; without flags, show it."""
    refuse_unbuilt({"--rotate-after": rotate_after_s, "--during": during, "--tz": tz, "--clear": clear})
    given = {
        "--min": min_workers,
        "--buffer": buffer_workers,
        "--idle-timeout": idle(idle_timeout, scaledown),
        "--on-full": on_full,
        "--queue-timeout": queue_timeout_s,
    }
    changed, path, inv = knobs(given, max_gpus), f"/v1/deployments/{named(name)}/scaling", of(ctx)
    with inv.api() as api:
        block = api.put(path, changed) if changed else api.get(path)
    if inv.json:
        say_json(block)
    else:
        table(("flag", "value", "meaning"), scaling_rows(block))


@app.command("stop")
def stop(ctx: typer.Context, name: Name) -> None:
    """End a deployment's workers and refuse robots, until `seq policy start`; a robot that drives ends in `hold`."""
    inv = of(ctx)
    with inv.api() as api:
        stopped = api.post(f"/v1/deployments/{named(name)}/stop")
    if inv.json:
        say_json(stopped)
    else:
        say(f"stopped {name}; {count(stopped.get('workers_stopped', 0))} worker(s) end")


@app.command("start")
def start(ctx: typer.Context, name: Name) -> None:
    """Let robots connect to a stopped deployment again."""
    inv = of(ctx)
    with inv.api() as api:
        started = api.post(f"/v1/deployments/{named(name)}/start")
    if inv.json:
        say_json(started)
    else:
        say(f"started {name}: v{started.get('version')} serves")


@app.command("rm")
def rm(
    ctx: typer.Context,
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also while robots are connected.")] = False,
) -> None:
    """Delete a deployment: its workers end and its name is free."""
    inv = of(ctx)
    with inv.api() as api:
        removed = api.delete(f"/v1/deployments/{named(name)}", force=True if force else None)
    if inv.json:
        say_json(removed)
    else:
        say(f"removed {name}; {count(removed.get('workers_stopped', 0))} worker(s) ended")


def _row(row: Mapping[str, Any]) -> list[Any]:
    latest = row.get("latest") or {}
    newest = f"v{latest['version']} {latest['status']}" if latest else short(row.get("error") or "")
    weights = " ".join(str(part) for part in (row.get("weights"), row.get("weights_revision")) if part)
    status_word = "stopped" if row.get("stopped") else row["status"]
    return [row["name"], status_word, f"v{row['version']}", row.get("gpu"), weights, newest]


def _fleet(get: Any, name: str) -> dict[str, Any]:
    try:
        return dict(get(f"/v1/deployments/{named(name)}/fleet"))
    except NotFound:  # a platform may have none
        return {}


def _end_as(name: str, state: Mapping[str, Any], row: Mapping[str, Any] | None) -> None:
    if state["status"] != "failed":
        return
    if row is not None and row.get("status") == "ready":
        say(f"warning: v{row['version']} still serves")
        return
    raise Conflict(
        f"{name} failed: {state.get('error') or state.get('reason') or 'no reason was given'}",
        code="conflict",
        hint=f"`seq policy logs {name} --build` shows its whole build",
    )
