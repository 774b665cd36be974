"""The registry of adapters: content by hash, so the same file is the same version."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from runner.context import Context
from runner.errors import Refused, no_such
from runner.evals.plan import AdapterSide
from runner.store.db import Session
from runner.store.queries import adapters as rows
from runner.store.queries import evals as eval_rows
from runner.store.tables import Adapter, AdapterVersion
from seq.contract.adapters import MAX_SOURCE_BYTES, AdapterAccepted, AdapterRegisterRequest, content_hash
from seq.contract.params import InferParam

_REF = re.compile(r"(?P<name>[^@]+)(@v(?P<version>\d+))?")


@dataclass(frozen=True)
class Pinned:
    """An adapter and one of its versions."""

    adapter: Adapter
    version: AdapterVersion

    @property
    def side(self) -> AdapterSide:
        """The version as a plan needs it."""
        version = self.version
        return AdapterSide(
            self.adapter.name,
            version.number,
            version.sha256,
            version.policy_io,
            tuple(lossy(version)),
            {name: InferParam.model_validate(told) for name, told in version.params.items()},
        )


def lossy(version: AdapterVersion) -> list[tuple[str, str]]:
    """The lossy steps of a version, each with its reason."""
    steps = [step for step in version.transforms if step["kind"] == "lossy"]
    return [(step["transform"], step.get("reason") or "no reason given") for step in steps]


def register(ctx: Context, account_id: str, request: AdapterRegisterRequest) -> AdapterAccepted:
    """Keep an adapter's content: the version it already is, or the next one of its name."""
    _check_source(request)
    sha256 = content_hash(request.class_name, request.source)
    with ctx.store.write() as session:
        adapter = _held_name(ctx, session, account_id, request)
        same = [version for version in rows.versions(session, adapter.id) if version.sha256 == sha256]
        version = same[0] if same else _next_version(ctx, session, adapter, request, sha256)
    return AdapterAccepted(
        name=adapter.name, version=version.number, created=not same, lossy=bool(lossy(version)), sha256=sha256
    )


def resolve(session: Session, account_id: str, ref: str) -> Pinned:
    """The version that `name`, `name@vN` or `module:Class` names; raises Refused with the names there are."""
    if ":" in ref:
        adapter, number = rows.of_handler(session, account_id, ref), None
    else:
        match = _REF.fullmatch(ref)
        if match is None:
            raise Refused("invalid_request", f"{ref!r} is no adapter; write a name, or name@vN for one version of it")
        adapter, number = rows.find(session, account_id, match["name"]), match["version"]
    if adapter is None:
        raise no_such("adapter", ref, rows.names(session, account_id))
    return Pinned(adapter, _numbered(session, adapter, int(number) if number else adapter.latest))


def pinned(session: Session, version_id: str | None) -> Pinned | None:
    """The adapter version that an earlier eval ran; None for None. Raises Refused where it is gone."""
    if version_id is None:
        return None
    version = rows.version(session, version_id)
    adapter = rows.get(session, version.adapter_id) if version is not None else None
    if version is None or adapter is None:
        raise Refused("gone", "the adapter version of that eval is no longer there")
    return Pinned(adapter, version)


def remove(ctx: Context, account_id: str, name: str) -> int:
    """Remove an adapter with all its versions; how many there were. Refused while an open eval uses it."""
    with ctx.store.write() as session:
        adapter = rows.find(session, account_id, name)
        if adapter is None:
            raise no_such("adapter", name, rows.names(session, account_id))
        versions = [version.id for version in rows.versions(session, adapter.id)]
        users = [row.id for row in eval_rows.of_adapter(session, versions) if row.status in eval_rows.OPEN]
        if users:
            hint = "wait for it, or cancel it (seq eval cancel ID)"
            raise Refused(
                "conflict", f"adapter {name} is used by {len(users)} eval(s) that run", hint=hint, evals=users
            )
        rows.remove(adapter)
    return len(versions)


def _held_name(ctx: Context, session: Session, account_id: str, request: AdapterRegisterRequest) -> Adapter:
    adapter = rows.find(session, account_id, request.name)
    if adapter is None:
        named = {"account_id": account_id, "name": request.name, "handler_ref": request.handler_ref}
        return rows.add(session, adapter_id=ctx.new_id(), now=ctx.clock.now(), **named)
    if adapter.handler_ref != request.handler_ref:
        if not request.replace:
            detail = f"the name {request.name} is held by {adapter.handler_ref}, and this is {request.handler_ref}"
            raise Refused("conflict", detail, hint="deploy with --replace to take it over, or choose another name")
        adapter.handler_ref = request.handler_ref
    return adapter


def _next_version(
    ctx: Context, session: Session, adapter: Adapter, request: AdapterRegisterRequest, sha256: str
) -> AdapterVersion:
    content = {
        "sha256": sha256,
        "class_name": request.class_name,
        "handler_ref": request.handler_ref,
        "source": request.source,
        "transforms": [transform.wire() for transform in request.transforms],
        "policy_io": request.policy_io,
        "params": {name: param.wire() for name, param in (request.params or {}).items()},
    }
    return rows.add_version(session, adapter, version_id=ctx.new_id(), content=content, now=ctx.clock.now())


def _numbered(session: Session, adapter: Adapter, number: int) -> AdapterVersion:
    versions = {version.number: version for version in rows.versions(session, adapter.id)}
    if number not in versions:
        raise no_such("version", f"{adapter.name}@v{number}", [f"{adapter.name}@v{there}" for there in versions])
    return versions[number]


def _check_source(request: AdapterRegisterRequest) -> None:
    size = len(request.source.encode())
    if size > MAX_SOURCE_BYTES:
        raise Refused("payload_too_large", f"the adapter's file has {size} bytes; {MAX_SOURCE_BYTES} are the most")
    try:
        tree = ast.parse(request.source)
    except (SyntaxError, ValueError) as wrong:
        raise Refused("invalid_request", f"the adapter's file is not Python: {wrong}") from wrong
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    if request.class_name not in classes:
        detail = f"the adapter's file defines no class {request.class_name}"
        raise Refused("invalid_request", detail, hint=f"it defines: {', '.join(classes) or 'none'}")
