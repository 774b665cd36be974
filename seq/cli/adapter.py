"""`seq adapter`: the registered adapters of this account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from seq.api import named
from seq.cli._app import Cursor, Limit, group, of, say, say_json, show_page
from seq.cli._echo import body_of, echo_lines
from seq.cli.core import load_target
from seq.evaluating import is_file
from seq.sources import fetch, write
from seq.validate import validate
from sequence_ai import InvalidRequest, NotFound

app = group("Registered adapters: what stands between a benchmark and a policy.")

Reference = Annotated[str, typer.Argument(metavar="NAME[@vN]", help="The adapter, the newest version unless said.")]


@app.command("ls")
def ls(ctx: typer.Context, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List adapters: newest version, how many there are, loss, last eval."""
    show_page(
        ctx,
        "/v1/adapters",
        "adapters",
        ("name", "newest", "versions", "loss", "last eval"),
        _row,
        limit=limit,
        cursor=cursor,
    )


@app.command("show")
def show(ctx: typer.Context, reference: Reference) -> None:
    """Say whether a version is lossy, and what ran with it."""
    name, version = parted(reference)
    inv = of(ctx)
    with inv.api() as api:
        found = api.get(f"/v1/adapters/{named(name)}")
    chosen = _version(name, found.get("versions") or [], version)
    if inv.json:
        say_json({"name": name, **chosen, "evals": found.get("evals") or []})
        return
    say(
        f"{name}@v{chosen['version']}  {loss(chosen.get('lossy'))}  {chosen.get('handler_ref')}  "
        f"policy_io {chosen.get('policy_io')}  sha256 {str(chosen.get('sha256'))[:12]}"
    )
    say(*_steps(chosen.get("transforms") or []))
    say(*(f"eval {_eval(row)}" for row in found.get("evals") or []))


@app.command("pull")
def pull(
    ctx: typer.Context,
    reference: Reference,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="PATH", help="Where to (default: its module's name).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a different file there.")] = False,
) -> None:
    """Write a version's file back, exactly as it was registered."""
    name, version = parted(reference)
    inv = of(ctx)
    with inv.api() as api:
        found = fetch(api, name, version)
    target = output or Path(f"{str(found['handler_ref']).partition(':')[0].rpartition('.')[2]}.py")
    write(target, found["source"], force=force)
    if inv.json:
        say_json({**found, "path": str(target)})
    else:
        say(f"wrote {target} ({name}@v{found['version']})")


@app.command("rm")
def rm(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Remove an adapter with all its versions; refused while an eval uses it."""
    inv = of(ctx)
    inv.refuse_json("adapter rm")
    with inv.api() as api:
        removed = api.delete(f"/v1/adapters/{named(name)}")
    say(f"removed {name} ({len(versions)} version(s))" if (versions := _listed(removed)) else f"removed {name}")


@app.command("check")
def check(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Argument(metavar="FILE", help="file.py[:Class] or pkg.module:Class.")] = None,
    module: Annotated[str | None, typer.Option("-m", metavar="MODULE", help="A module instead of a file.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Run a sample of this benchmark's observation through it.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Compare with this policy's contract.")] = None,
) -> None:
    """Classify every step of an adapter file, sending nothing."""
    if benchmark is not None or policy is not None:
        raise InvalidRequest(
            "--benchmark and --policy are not there yet: `seq adapter check FILE` classifies every step, and "
            "`seq eval run --tasks ONE --trials 1` shows whether both sides fit",
            code="invalid_request",
        )
    if target is not None and not is_file(target) and ":" not in target:
        raise InvalidRequest(
            f"{target!r} is not a file: `seq adapter show {target}` is about a registered one, "
            f"`seq adapter pull {target}` writes its file",
            code="invalid_request",
        )
    echo = validate(load_target(target, module))
    if echo.kind != "adapter":
        raise InvalidRequest(
            f"{echo.name} is a {echo.kind}, not an adapter: `seq validate` is for it", code="invalid_request"
        )
    if of(ctx).json:
        say_json(body_of(echo.request))
    else:
        say(*echo_lines(echo), "ok: every label is true; nothing was sent")


def parted(reference: str) -> tuple[str, int | None]:
    """`name@v3` as a name and a version; None where no version is said."""
    name, at, version = reference.partition("@")
    if not at:
        return name, None
    if not version.removeprefix("v").isdigit():
        raise InvalidRequest(f"{reference!r}: write a version as {name}@v1", code="invalid_request")
    return name, int(version.removeprefix("v"))


def loss(lossy: Any) -> str:
    """The label of a version."""
    return "lossy" if lossy else "lossless"


def _steps(transforms: list[Mapping[str, Any]]) -> Iterator[str]:
    for step in transforms:
        reason = f"  {step['reason']}" if step.get("reason") else ""
        yield f"  {step['pipeline']:<6} {step['transform']}  {step['kind']}{reason}"


def _version(name: str, versions: list[dict[str, Any]], wanted: int | None) -> dict[str, Any]:
    for row in versions:
        if wanted in (None, row["version"]):
            return row
    known = ", ".join(f"v{row['version']}" for row in versions) or "none"
    raise NotFound(f"{name} has no version v{wanted}; there are: {known}", code="not_found")


def _row(row: Mapping[str, Any]) -> list[Any]:
    versions = row.get("versions")
    many = len(versions) if isinstance(versions, list) else versions
    return [row["name"], f"v{row.get('latest')}", many, loss(row.get("lossy")), _eval(row.get("last_eval") or {})]


def _eval(row: Mapping[str, Any]) -> str:
    if not row:
        return ""
    return f"{row.get('eval_id')} v{row.get('version')} on {row.get('benchmark')} with {row.get('model')}"


def _listed(removed: Mapping[str, Any]) -> list[Any]:
    versions = removed.get("deleted_versions")
    return versions if isinstance(versions, list) else [versions] * bool(versions)
