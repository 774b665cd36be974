"""What `seq validate` says of a class: its request, checked, and that as labelled lines. Nothing is printed or sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from seq.bundle import Bundle, code_bundle
from seq.contract import CONTRACT_VERSION
from seq.contract.adapters import AdapterRegisterRequest
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.contract.image import ImageSpec, ImageStep
from seq.contract.params import InferParam
from seq.contract.robot import ActionContract, ObservationContract
from seq.requests import Request, declaration, request_of
from seq.weights import MOUNT

Kind = Literal["policy", "benchmark", "adapter"]

_STEP_LABELS = {"apt_install": "apt-get install", "uv_pip_install": "uv pip install", "run_commands": "run"}


@dataclass(frozen=True)
class Line:
    """One line: `depth` 0 starts a block, 1 is a step of an image or an adapter, 2 goes on with the line above."""

    label: str
    text: str
    depth: int = 0


@dataclass(frozen=True)
class Echo:
    """A class that the platform's contract accepts: the body that would be sent, and what it says, top to bottom."""

    kind: Kind
    name: str
    request: Request
    lines: tuple[Line, ...]


def validate(cls: type) -> Echo:
    """The echo of a decorated class; raises SeqAuthoringError on anything a platform would refuse."""
    request = request_of(cls)
    if isinstance(request, AdapterRegisterRequest):
        return Echo("adapter", request.name, request, tuple(_adapter_lines(request)))
    declared = declaration(cls)
    bundle = None if request.code is None else code_bundle(declared.handler, declared.image)  # type: ignore[union-attr]
    if isinstance(request, DeploymentRequest):
        return Echo("policy", request.name, request, tuple(_policy_lines(request, bundle)))
    return Echo("benchmark", request.name, request, tuple(_benchmark_lines(request, bundle)))


def _accepted() -> Line:
    return Line("platform", f"accepted  (validated against contract {CONTRACT_VERSION})")


def _policy_lines(request: DeploymentRequest, bundle: Bundle | None) -> Iterator[Line]:
    yield Line("policy", request.name)
    yield _accepted()
    yield from image_lines(request.image)
    yield from _weights_lines(request)
    yield from _code_lines(bundle)
    yield from _io_lines(request)
    policy = request.policy
    if policy.io is not None:
        yield Line("io", policy.io)
    yield from _param_lines(policy.params)
    if policy.models:
        yield Line("models", ", ".join(name.rpartition("/")[2] for name in policy.models))


def _weights_lines(request: DeploymentRequest) -> Iterator[Line]:
    if request.weights is None:
        yield Line("weights", "none")
        return
    name = f"{request.weights_name}: " if request.weights_name else ""
    yield Line("weights", f"{name}{request.weights.uri}")
    for part, weights in (request.extra_weights or {}).items():
        yield Line("", f"{part}: {weights.uri}", 2)
    yield Line("", f"mounted at {MOUNT}, copied onto a volume and not into the image", 2)


def _io_lines(request: DeploymentRequest) -> Iterator[Line]:
    policy = request.policy
    if policy.embodiments:
        for name, body in policy.embodiments.items():
            yield Line("embodiment", f"{name}: {action_text(body.action)}")
            if body.observation is not None:
                yield Line("", observation_text(body.observation), 2)
        return
    if policy.action is not None:
        yield Line("action", f"{action_text(policy.action)}  (every chunk is checked against this)")
    if policy.observation is not None:
        yield Line("observation", f"{observation_text(policy.observation)}  (every act is checked against this)")
    if policy.action is None and policy.observation is None:
        yield Line("I/O", "not declared: passed through unchecked")


def _benchmark_lines(request: BenchmarkRegisterRequest, bundle: Bundle | None) -> Iterator[Line]:
    yield Line("benchmark", request.name)
    yield _accepted()
    yield from image_lines(request.image)
    yield Line("sims", sims_text(request))
    yield Line("episodes", episodes_text(request))
    if request.action_contract is not None:
        yield Line("action", action_text(request.action_contract))
    if request.render is not None:
        yield Line("recording", f"camera {request.render.camera} at {request.render.fps:g} frames a second")
    yield from _param_lines(request.params)
    yield from _code_lines(bundle)


def _adapter_lines(request: AdapterRegisterRequest) -> Iterator[Line]:
    yield Line("adapter", f"{request.name}  {request.handler_ref}  policy_io {request.policy_io}")
    for step in request.transforms:
        reason = f": {step.reason}" if step.reason else ""
        yield Line(step.pipeline, f"{step.transform}  {step.kind}{reason}", 1)
    yield from _param_lines(request.params)


def image_lines(image: ImageSpec) -> Iterator[Line]:
    """The base and every step in build order."""
    base = image.base or f"Dockerfile, {len((image.dockerfile or '').encode()) / 1024:.1f} KiB"
    yield Line("image", base if image.python is None else f"{base}, Python {image.python}")
    for step in image.steps:
        yield from _step_lines(step)


def _step_lines(step: ImageStep) -> Iterator[Line]:
    if step.add_local is not None:
        yield Line("add", f"{step.add_local.src.rpartition('/')[2]} to {step.add_local.dst}", 1)
    elif step.env is not None:
        yield from (Line("env", f"{name}={value}", 1) for name, value in step.env.items())
    elif step.run_commands is not None:
        sees = f"  (sees {', '.join(secret.name for secret in step.secrets)})" if step.secrets else ""
        yield from (Line("run", f"{command}{sees}", 1) for command in step.run_commands)
    else:
        yield Line(_STEP_LABELS[step.kinds()[0]], ", ".join(step.apt_install or step.uv_pip_install or []), 1)


def _code_lines(bundle: Bundle | None) -> Iterator[Line]:
    if bundle is None:
        yield Line("code", "none uploaded: the image installs it")
        return
    yield Line("code", f"{len(bundle.files)} file(s), {len(bundle.data) / 1024:.1f} KiB uploaded:")
    yield from (Line("", name, 2) for name in bundle.files)


def _param_lines(params: Mapping[str, InferParam] | None) -> Iterator[Line]:
    if params:
        yield Line("params", ", ".join(f"{name}: {param.type} = {param.default!r}" for name, param in params.items()))


def action_text(action: ActionContract) -> str:
    """robot · space · dims · Hz."""
    return (
        f"{action.robot} · {action.action_space.value} · {action.action_dim} dims · {action.control_frequency_hz:g} Hz"
    )


def observation_text(observation: ObservationContract) -> str:
    """Cameras with their sizes and history, vectors with their lengths, the instruction."""
    times = f" x {observation.history} frames" if observation.history > 1 else ""
    cameras = ", ".join(f"{view} {camera.width}x{camera.height}{times}" for view, camera in observation.cameras.items())
    vectors = [f"{name}[{length}]" for name, length in {**observation.proprio, **observation.state}.items()]
    parts = [cameras, *vectors, "instruction" if observation.instruction else ""]
    return " · ".join(part for part in parts if part) or "nothing"


def sims_text(request: BenchmarkRegisterRequest) -> str:
    """Where the simulation runs, and how many environments."""
    envs = f"{request.envs or 1} environment(s) unless an eval says otherwise"
    if request.gpu == "cpu":
        return f"CPU, {request.cpu} cores, {request.memory_gb:g} GiB; {envs}"
    return f"{request.gpu}; {envs}"


def episodes_text(request: BenchmarkRegisterRequest) -> str:
    """Tasks x variants x seeds (or how many are listed), suites, and the step cap."""
    axes, cap = request.conditions, f"at most {request.max_steps} steps"
    suites = f" in {len(set(request.suite_of.values()))} suite(s)" if request.suite_of else ""
    if request.condition_list is not None:
        return f"{len(request.condition_list)} listed condition(s) of {len(axes.tasks)} task(s){suites}, {cap}"
    variants = "".join(f" x {len(axis.values)} {axis.axis}(s)" for axis in axes.variants)
    return f"{len(axes.tasks)} task(s){variants} x {len(axes.seeds)} seed(s){suites}, {cap}"
