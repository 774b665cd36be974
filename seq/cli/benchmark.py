"""`seq benchmark`: the registered benchmarks of this account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from seq.api import named
from seq.cli._app import Cursor, Limit, Timeout, group, of, say, say_json, show_page
from seq.deploying import wait_benchmark
from sequence_ai import Conflict, InvalidRequest

app = group("Registered benchmarks.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The benchmark's name.")]


@app.command("ls")
def ls(ctx: typer.Context, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List benchmarks with their latest eval."""
    show_page(
        ctx,
        "/v1/benchmarks",
        "benchmarks",
        ("name", "version", "status", "card", "envs", "registered", "latest eval"),
        _row,
        limit=limit,
        cursor=cursor,
    )


@app.command("status")
def status(
    ctx: typer.Context,
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until its image and check are done.")] = False,
    timeout: Timeout = None,
) -> None:
    """Say whether a benchmark is building, ready or failed, and why; a failed one ends with 5."""
    inv = of(ctx)
    if timeout is not None and not wait:
        raise InvalidRequest("--timeout goes with --wait", code="invalid_request")
    with inv.api() as api:
        if wait:
            with inv.progress() as watch:
                wait_benchmark(api, name, timeout, None, watch)
        state = api.get(f"/v1/benchmarks/{named(name)}")
    if inv.json:
        say_json(state)
    elif state["status"] != "failed":
        say(f"{name}: {state['status']}")
    if state["status"] == "failed":
        raise Conflict(f"{name}: failed - {state.get('error') or 'no reason was given'}", code="conflict")


@app.command("rm")
def rm(
    ctx: typer.Context,
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would touch.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also while an eval runs on it: the eval is canceled.")
    ] = False,
) -> None:
    """Remove a benchmark; refused while an eval runs on it or waits for it."""
    inv = of(ctx)
    with inv.api() as api:
        answer = api.delete(f"/v1/benchmarks/{named(name)}", dry_run=dry_run or None, force=force or None)
    if inv.json:
        say_json(answer)
    elif dry_run:
        say(*_would_touch(name, answer))
    elif answer.get("already_deleted"):
        say(f"{name} was already removed")
    else:
        say(f"removed {name}", *(f"  canceled eval {eval_id}" for eval_id in answer.get("evals_canceled") or []))


def _would_touch(name: str, answer: Mapping[str, Any]) -> list[str]:
    lines = [f"would remove {name} v{answer.get('version')} ({answer.get('status')})"]
    if answer.get("build_in_flight"):
        lines.append("  its build is under way and would be canceled")
    lines += [f"  eval {eval_id} runs on it" for eval_id in answer.get("evals_running") or []]
    lines += [f"  schedule of {row['deployment']} ({row['every']})" for row in answer.get("schedules") or []]
    return lines


def _row(row: Mapping[str, Any]) -> list[Any]:
    return [
        row["name"],
        f"v{row['version']}",
        row["status"],
        row.get("gpu"),
        row.get("envs"),
        row.get("created_at"),
        _last_eval(row.get("last_eval") or {}) or row.get("error"),
    ]


def _last_eval(last: Mapping[str, Any]) -> str:
    if not last:
        return ""
    shown = f"{last.get('policy')} {last.get('status')}"
    if last.get("value") is not None:
        shown += f" {last.get('metric')} {last['value']:.3f}"
    if last.get("low") is not None:
        shown += f" [{last['low']:.3f}, {last['high']:.3f}]"
    return shown
