"""Adapters: register, list, show, read the file of, remove."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from runner.errors import no_such
from runner.evals import adapters
from runner.gateway.deps import Ctx, FullCaller, PageQuery, page
from runner.store.db import Session
from runner.store.queries import adapters as rows
from runner.store.queries import evals as eval_rows
from runner.store.tables import Adapter, AdapterVersion, Eval
from runner.times import iso
from seq.contract.adapters import AdapterRegisterRequest

router = APIRouter()


@router.post("/v1/adapters")
def register(request: AdapterRegisterRequest, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """The same content is the same version."""
    return adapters.register(ctx, caller.account_id, request).wire()


@router.get("/v1/adapters")
def listed(ctx: Ctx, caller: FullCaller, asked: PageQuery) -> dict[str, Any]:
    """The caller's adapters by name, with the last eval of each."""
    with ctx.store.read() as session:
        found, total = rows.listed(session, caller.account_id, asked.offset, asked.limit)
        items = [_row(session, adapter) for adapter in found]
    return page("adapters", items, total, asked.offset, asked.limit)


@router.get("/v1/adapters/{name}")
def shown(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """Every version, newest first, and the evals that ran them."""
    with ctx.store.read() as session:
        adapter = rows.find(session, caller.account_id, name)
        if adapter is None:
            raise no_such("adapter", name, rows.names(session, caller.account_id))
        versions = rows.versions(session, adapter.id)
        evals = eval_rows.of_adapter(session, [version.id for version in versions])
    numbers = {version.id: version.number for version in versions}
    return {
        "name": adapter.name,
        "versions": [_version(version) for version in versions],
        "evals": [_eval(row, numbers) for row in evals],
    }


@router.get("/v1/adapters/{name}/source")
def source(name: str, ctx: Ctx, caller: FullCaller, version: int | None = None) -> dict[str, Any]:
    """The registered file, byte for byte; the latest version unless one is named."""
    ref = name if version is None else f"{name}@v{version}"
    with ctx.store.read() as session:
        pinned = adapters.resolve(session, caller.account_id, ref)
    row = pinned.version
    return {
        "name": pinned.adapter.name,
        "version": row.number,
        "class_name": row.class_name,
        "handler_ref": row.handler_ref,
        "source": row.source,
        "sha256": row.sha256,
    }


@router.delete("/v1/adapters/{name}")
def remove(name: str, ctx: Ctx, caller: FullCaller) -> dict[str, Any]:
    """All versions; refused while an eval that has not ended uses one."""
    return {"name": name, "deleted_versions": adapters.remove(ctx, caller.account_id, name)}


def _row(session: Session, adapter: Adapter) -> dict[str, Any]:
    versions = rows.versions(session, adapter.id)
    evals = eval_rows.of_adapter(session, [version.id for version in versions])
    numbers = {version.id: version.number for version in versions}
    newest = versions[0]
    row = {
        "name": adapter.name,
        "latest": adapter.latest,
        "versions": len(versions),
        "class_name": newest.class_name,
        "policy_io": newest.policy_io,
        "lossy": bool(adapters.lossy(newest)),
        "created_at": iso(adapter.created_at),
        "updated_at": iso(newest.created_at),
    }
    return {**row, "last_eval": _eval(evals[0], numbers)} if evals else row


def _version(row: AdapterVersion) -> dict[str, Any]:
    return {
        "version": row.number,
        "sha256": row.sha256,
        "class_name": row.class_name,
        "handler_ref": row.handler_ref,
        "policy_io": row.policy_io,
        "lossy": bool(adapters.lossy(row)),
        "transforms": row.transforms,
        "created_at": iso(row.created_at),
    }


def _eval(row: Eval, numbers: dict[str, int]) -> dict[str, Any]:
    version = numbers[row.adapter_version_id or ""]
    return {
        "eval_id": row.id,
        "version": version,
        "benchmark": row.benchmark,
        "model": row.model,
        "status": row.status,
        "created_at": iso(row.created_at),
    }
