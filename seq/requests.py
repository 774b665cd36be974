"""Declarations as the bodies a platform reads. Files are read here; nothing is sent."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from seq.adapter import AdapterDeclaration
from seq.adapter import declaration_of as adapter_of
from seq.benchmark import BenchmarkDeclaration
from seq.benchmark import declaration_of as benchmark_of
from seq.bundle import code_bundle, context_bundle, source_file
from seq.conditions import collapse
from seq.contract.adapters import MAX_SOURCE_BYTES, AdapterRegisterRequest
from seq.contract.benchmarks import AssetMount, BenchmarkRegisterRequest
from seq.contract.deployments import (
    Autoscaler,
    Concurrency,
    DeploymentRequest,
    PolicyDecl,
    Resources,
    WeightsSpec,
)
from seq.contract.deployments import Timeouts as WireTimeouts
from seq.errors import (
    AdapterDefinitionError,
    BenchmarkDefinitionError,
    PolicyDefinitionError,
    SeqAuthoringError,
    sentence,
)
from seq.policy import PolicyDeclaration
from seq.policy import declaration_of as policy_of

Body = TypeVar("Body", bound=BaseModel)
Request = DeploymentRequest | BenchmarkRegisterRequest | AdapterRegisterRequest
Declaration = PolicyDeclaration | BenchmarkDeclaration | AdapterDeclaration

MODEL_PREFIX = "accounts/sequences/models/"


def registration(cls: type) -> PolicyDeclaration:
    """What `@seq.policy` declared; raises PolicyDefinitionError when `cls` is no policy."""
    return policy_of(cls)


def declaration(cls: type) -> Declaration:
    """What is declared on `cls`, of whichever kind; raises SeqAuthoringError when nothing is."""
    for find in (policy_of, benchmark_of, adapter_of):
        try:
            return find(cls)
        except SeqAuthoringError:
            continue
    name = getattr(cls, "__name__", cls)
    raise SeqAuthoringError(
        f"{name!r} is no policy, benchmark or adapter; decorate it with @seq.policy, @seq.benchmark or @seq.adapter"
    )


def declared_name(cls: type) -> str:
    """The name `cls` is deployed or registered under."""
    return declaration(cls).name


def request_of(cls: type) -> Request:
    """The body that deploys or registers `cls`, of whichever kind."""
    declared = declaration(cls)
    if isinstance(declared, PolicyDeclaration):
        return deployment_request(cls)
    return benchmark_registration(cls) if isinstance(declared, BenchmarkDeclaration) else adapter_registration(cls)


def deployment_request(cls: type) -> DeploymentRequest:
    """The body of `POST /v1/deployments` for a policy; raises PolicyDefinitionError on what is not served yet."""
    declared = policy_of(cls)
    _refuse_unserved(declared)
    code, context = code_bundle(declared.handler, declared.image), context_bundle(declared.image)
    parts = [(name, WeightsSpec(uri=uri)) for name, uri in declared.weights.items()]
    return _checked(
        DeploymentRequest,
        PolicyDefinitionError,
        name=declared.name,
        image=declared.image.spec(),
        weights=parts[0][1] if parts else None,
        weights_name=(parts[0][0] or None) if parts else None,
        extra_weights=dict(parts[1:]) or None,
        resources=_resources(declared),
        policy=_policy(declared),
        code=None if code is None else code.wire(),
        image_context=None if context is None else context.wire(),
        autoscaler=_autoscaler(declared),
        concurrency=_concurrency(declared),
        timeouts=_checked(
            WireTimeouts, PolicyDefinitionError, request=declared.timeouts.request, startup=declared.timeouts.startup
        ),
    )


def benchmark_registration(cls: type) -> BenchmarkRegisterRequest:
    """The body of `POST /v1/benchmarks`; raises BenchmarkDefinitionError when `cls` is no benchmark."""
    declared = benchmark_of(cls)
    if declared.default_adapter is not None:
        raise BenchmarkDefinitionError(
            f"{declared.name}: default_adapter= is not registered; deploy it and name it in the eval (adapter=)"
        )
    matrix = collapse(declared.conditions, max_steps=declared.max_steps, timeout_s=declared.timeout_s)
    code, context = code_bundle(declared.handler, declared.image), context_bundle(declared.image)
    return _checked(
        BenchmarkRegisterRequest,
        BenchmarkDefinitionError,
        name=declared.name,
        image=declared.image.spec(),
        conditions=matrix.axes,
        condition_list=matrix.listed,
        max_steps=matrix.max_steps,
        timeout_s=matrix.timeout_s,
        suite_of=matrix.suite_of,
        handler_ref=declared.handler.ref,
        code=None if code is None else code.wire(),
        image_context=None if context is None else context.wire(),
        assets=[AssetMount(uri=volume.uri, mount=mount) for mount, volume in declared.assets.items()],
        render=None if declared.render is None else declared.render.wire(),
        cpu=declared.cores,
        memory_gb=declared.memory_gb,
        gpu=declared.gpu,
        envs=declared.envs,
        action_contract=declared.action_contract,
        secrets=[secret.wire() for secret in declared.secrets],
        score="score" in declared.hooks,
        batched=declared.batched,
        params=dict(declared.params) or None,
        engine=declared.engine,
    )


def adapter_registration(cls: type) -> AdapterRegisterRequest:
    """The body of `POST /v1/adapters`, with the file's text; raises AdapterDefinitionError when `cls` is no adapter."""
    declared = adapter_of(cls)
    file = source_file(declared.handler)
    if file.stat().st_size > MAX_SOURCE_BYTES:
        raise AdapterDefinitionError(
            f"{file.name} is over 256 KB; an adapter is one file, and data belongs into the benchmark"
        )
    return _checked(
        AdapterRegisterRequest,
        AdapterDefinitionError,
        name=declared.name,
        class_name=declared.class_name,
        handler_ref=declared.handler.ref,
        source=file.read_bytes().decode("utf-8"),
        transforms=list(declared.transforms),
        policy_io=declared.policy_io,
        params=dict(declared.params) or None,
    )


def _refuse_unserved(declared: PolicyDeclaration) -> None:
    refused = {
        "volumes=": bool(declared.volumes),
        "max_containers= (limit cards with max_gpus=)": declared.scaling.max_containers is not None,
        "@seq.plan": declared.planning is not None,
    }
    for what, given in refused.items():
        if given:
            raise PolicyDefinitionError(
                f"{declared.name} declares {what}, which is not supported yet; deploy it without"
            )


def _resources(declared: PolicyDeclaration) -> Resources:
    return _checked(
        Resources,
        PolicyDefinitionError,
        gpu=list(declared.gpu),
        cpu=declared.cpu.request,
        cpu_limit=declared.cpu.limit,
        memory_gb=declared.memory.request,
        memory_limit_gb=declared.memory.limit,
        region=declared.region,
    )


def _policy(declared: PolicyDeclaration) -> PolicyDecl:
    models = [name if "/" in name else f"{MODEL_PREFIX}{name}" for name in declared.models]
    return _checked(
        PolicyDecl,
        PolicyDefinitionError,
        handler_ref=declared.handler.ref,
        action=declared.action,
        action_declared=declared.action is not None,
        observation=declared.observation,
        embodiments=None if declared.embodiments is None else dict(declared.embodiments),
        streaming=declared.streaming,
        secrets=[secret.wire() for secret in declared.secrets],
        params=dict(declared.params) or None,
        models=models or None,
        io=declared.io,
        family=declared.family,
    )


def _autoscaler(declared: PolicyDeclaration) -> Autoscaler:
    scaling = declared.scaling
    return Autoscaler(
        min_containers=scaling.min_workers,
        buffer_containers=scaling.buffer_workers,
        scaledown_window=scaling.idle_timeout,
        max_gpus=scaling.max_gpus,
        on_full=scaling.on_full,
        queue_timeout_s=scaling.queue_timeout_s,
    )


def _concurrency(declared: PolicyDeclaration) -> Concurrency:
    given = declared.concurrency
    return Concurrency() if given is None else _checked(Concurrency, PolicyDefinitionError, **vars(given))


def _checked(body: type[Body], error: type[SeqAuthoringError], **values: Any) -> Body:
    try:
        return body.model_validate(values)
    except ValidationError as wrong:
        raise error(f"the declaration is not what the platform takes: {sentence(wrong)}") from wrong
