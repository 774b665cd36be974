"""`seq init`, `seq validate`, `seq deploy`: from a template to something that serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from seq import deploying, templates
from seq._writing import writing
from seq.api import Api
from seq.cli._app import Invocation, Timeout, note, of, refuse_waits, say, say_json
from seq.cli._echo import body_of, echo_lines
from seq.cli._text import money
from seq.contract.adapters import AdapterRegisterRequest
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.requests import Request, request_of
from seq.targets import load
from seq.validate import Echo
from seq.validate import validate as read_back
from sequence_ai import AuthError, Conflict, InvalidRequest, NotFound, SequencesError, Unavailable

_VERSION = "v1"  # each release ships one version of its templates

Target = Annotated[str | None, typer.Argument(metavar="FILE", help="file.py[:Class] or pkg.module:Class.")]
Module = Annotated[str | None, typer.Option("-m", metavar="MODULE", help="A module (and :Class) instead of a file.")]


def add_to(app: typer.Typer) -> None:
    """Add this noun's commands to the root."""
    for command in (init, validate, deploy):
        app.command()(command)


def init(
    ctx: typer.Context,
    template: Annotated[str | None, typer.Argument(metavar="TEMPLATE[@REF]")] = None,
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="New or empty (default: the template's name).")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the templates.")] = False,
) -> int:
    """Start from a template: a policy, a benchmark or an adapter to edit."""
    inv = of(ctx)
    if list_ or template is None:
        if inv.json and list_:
            say_json([{"name": found.name, "kind": found.kind, "stable": _VERSION} for found in templates.templates()])
        else:
            say(*_template_lines())
        return 0 if list_ else 2
    inv.refuse_json("init")
    name, _, ref = template.partition("@")
    _known_template(name, ref or "stable")
    target = directory or Path(name)
    with writing(target):
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise Conflict(
                f"{target} exists and is not an empty folder", code="conflict", hint=f"`seq init {name} OTHER_DIR`"
            )
        made = templates.copy_template(name, target)
    say(f"wrote {target}/ ({name} {_VERSION})", f"next: `seq deploy {target / made.entry}`")
    return 0


def validate(ctx: typer.Context, target: Target = None, module: Module = None) -> None:
    """Read a declaration, check the request it makes, and echo it; nothing is built, run or sent."""
    echo = read_back(load_target(target, module))
    if of(ctx).json:
        say_json(body_of(echo.request))
    else:
        say(*echo_lines(echo))


def deploy(
    ctx: typer.Context,
    target: Target = None,
    module: Module = None,
    *,
    name: Annotated[str | None, typer.Option(help="The name (default: the decorator's, else the class's).")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take over a name held by another module:Class.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the request and how the name would be claimed.")
    ] = False,
    max_gpus: Annotated[int | None, typer.Option(min=1, max=256, help="The most cards a policy may hold.")] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return once it is accepted.")] = False,
    timeout: Timeout = None,
) -> None:
    """Deploy a policy, or register a benchmark or an adapter, and wait until it is ready."""
    inv = of(ctx)
    refuse_waits(dry_run=dry_run, no_wait=no_wait, timeout=timeout)
    cls = load_target(target, module)
    request = _with_cards(deploying.renamed(request_of(cls), name), max_gpus)
    if dry_run:
        _dry_run(inv, read_back(cls), request, replace=replace)
        return
    inv.refuse_json("deploy")
    with inv.api() as api:
        _deploy(inv, api, request, timeout, replace=replace, wait=not no_wait)


def load_target(target: str | None, module: str | None) -> type:
    """The decorated class of the one target that was given, in whichever form."""
    if (target is None) == (module is None):
        raise InvalidRequest("give one target: file.py[:Class], pkg.module:Class, or -m MODULE", code="invalid_request")
    return load(str(target or module), module=module is not None)


def _deploy(inv: Invocation, api: Api, request: Request, timeout: float | None, *, replace: bool, wait: bool) -> None:
    if isinstance(request, AdapterRegisterRequest):
        accepted = deploying.register(api, request, replace=replace)
        label = f"{accepted.name}@v{accepted.version}"
        loss = "lossy" if accepted.lossy else "lossless"
        say(
            f"registered {label} ({loss})"
            if accepted.created
            else f"{label} is already registered ({loss}): nothing new"
        )
        return
    kind = "policy" if isinstance(request, DeploymentRequest) else "benchmark"
    name = deploying.submit(api, request, replace=replace)
    if not wait:
        say(f"{name} accepted; `seq {kind} status {name} --wait` waits for it")
        return
    with inv.progress() as watch:
        deploying.wait_for(api, request, timeout, None, watch)
    say(f"{name} is ready", *_next_steps(api, request))


def _next_steps(api: Api, request: Request) -> list[str]:
    if not isinstance(request, DeploymentRequest):
        return [f"next: `seq eval run POLICY --benchmark {request.name} --dry-run`"]
    lines = [f'connect: sequence_ai.connect(model="{request.name}")']
    try:
        price = deploying.worker_price(api.get("/v1/pricing"), request)
    except SequencesError as unpriced:
        note(f"the price list could not be read: {unpriced.message}")
        return lines
    if price is not None:
        gpu, cpu, memory = (money(part) for part in price)
        lines.append(f"one worker costs {gpu} (GPU) + {cpu} (CPU) + {memory} (memory) an hour")
    return lines


def _dry_run(inv: Invocation, echo: Echo, request: Request, *, replace: bool) -> None:
    claim = _claim(inv, request)
    if inv.json:
        say_json({"request": body_of(request), "claim": claim})
    else:
        say(*echo_lines(echo), *_dry_lines(echo, request, claim))
    if claim["state"] == "invalid":
        raise InvalidRequest(
            claim.get("detail") or f"the platform refuses the name {request.name!r}", code="invalid_request"
        )
    if claim["state"] == "taken" and not replace:
        held = f" by {claim['held_by']}" if claim.get("held_by") else ""
        raise Conflict(
            f"{request.name} is held{held}", code="conflict", hint="--replace takes it over, --name gives another"
        )


def _dry_lines(echo: Echo, request: Request, claim: Mapping[str, Any]) -> Iterator[str]:
    """What the flags changed in the request, and how the name would be claimed."""
    if request.name != echo.name:
        yield f"name        {request.name}"
    if isinstance(request, DeploymentRequest) and request.autoscaler.max_gpus is not None:
        yield f"max gpus    {request.autoscaler.max_gpus}"
    yield f"claim       {claim['state']}" + (f": {claim['detail']}" if claim.get("detail") else "")


def _claim(inv: Invocation, request: Request) -> dict[str, Any]:
    """How the name would be claimed; a dry run needs no platform, so one that cannot be asked is only said."""
    if not isinstance(request, DeploymentRequest):
        return {"state": "not checked", "detail": "only a policy's name is claimed ahead"}
    try:
        with inv.connect(base_url=inv.base_url, key_needed=True, may_start=False) as api:
            return api.get(f"/v1/deployments/{request.name}/claim", handler_ref=request.policy.handler_ref)
    except (AuthError, Unavailable) as unasked:
        return {"state": "not checked", "detail": unasked.message}


def _with_cards(request: Request, max_gpus: int | None) -> Request:
    if max_gpus is None:
        return request
    if not isinstance(request, DeploymentRequest):
        kind = "a benchmark" if isinstance(request, BenchmarkRegisterRequest) else "an adapter"
        raise InvalidRequest(f"--max-gpus is for a policy, and this is {kind}: leave it out", code="invalid_request")
    if request.resources.gpu == ["cpu"]:
        raise InvalidRequest(
            f'--max-gpus limits cards, and {request.name} holds none (gpu="cpu"): leave it out', code="invalid_request"
        )
    return request.model_copy(update={"autoscaler": request.autoscaler.model_copy(update={"max_gpus": max_gpus})})


def _known_template(name: str, ref: str) -> None:
    names = [found.name for found in templates.templates()]
    if name not in names:
        raise NotFound(f"no template named {name!r}", code="not_found", hint=f"there are: {', '.join(names)}")
    if ref not in ("stable", _VERSION):
        raise NotFound(
            f"{name} has no version {ref!r}", code="not_found", hint=f"there is: stable, which is {_VERSION}"
        )


def _template_lines() -> list[str]:
    found = templates.templates()
    lines = []
    for kind in ("policy", "benchmark", "adapter"):
        rows = [template for template in found if template.kind == kind]
        lines += [f"{kind} templates:"] if rows else []
        lines += [f"  {template.name:<18} stable={_VERSION}" for template in rows]
    return lines
