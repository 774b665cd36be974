"""What `@seq.policy` and its hooks take, checked and made values; each refusal is a PolicyDefinitionError."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import TypedDict

from seq import _check as check
from seq._marks import Marked
from seq.contract.robot import ActionContract, Embodiment, ObservationContract
from seq.errors import PolicyDefinitionError
from seq.image import Image
from seq.secret import Secret
from seq.timeouts import Timeouts
from seq.weights import Volume, Weights

Amount = float | tuple[float, float]

CONCURRENT_USE = "@seq.concurrent(replicas_per_gpu=..., gpus_per_replica=..., target_inputs=..., max_inputs=...)"
_CARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[1-9][0-9]{0,2})?")
_RETIRED = {
    "frames_per_chunk": "observation=seq.ObservationContract(history=N) sends the last N frames",
    "keep_warm": "use min_workers=",
    "container_idle_timeout": "use idle_timeout=",
    "allow_concurrent_inputs": f"use {CONCURRENT_USE}",
    "concurrency": f"use {CONCURRENT_USE}",
}
_RENAMED = {"min_containers": "min_workers", "buffer_containers": "buffer_workers", "scaledown_window": "idle_timeout"}


class PolicyOptions(TypedDict, total=False):
    """What `@seq.policy` takes."""

    gpu: str | list[str]
    cpu: Amount | None
    memory: Amount | None
    image: Image
    deps: list[str]
    weights: str | Weights | Volume | dict[str, str | Weights | Volume] | None
    volumes: dict[str, Volume]
    secrets: list[Secret]
    min_workers: int
    buffer_workers: int | None
    idle_timeout: int
    max_gpus: int | None
    on_full: Literal["queue", "reject"]
    queue_timeout_s: int
    streaming: bool
    action: ActionContract | dict[str, Any] | None
    observation: ObservationContract | dict[str, Any] | None
    embodiments: dict[str, Embodiment] | dict[str, dict[str, Any]] | None
    region: str | None
    timeouts: Timeouts | dict[str, int]
    name: str
    io: str | None
    models: list[str]
    family: str | None
    max_containers: int
    min_containers: int
    buffer_containers: int | None
    scaledown_window: int


@dataclass(frozen=True)
class Share:
    """Cores or GiB: what is requested, and the most that may be used; None is undeclared."""

    request: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Scaling:
    """How many workers, and when."""

    min_workers: int = 0
    buffer_workers: int | None = None
    idle_timeout: int = 600
    max_gpus: int | None = None
    on_full: Literal["queue", "reject"] = "queue"
    queue_timeout_s: int = 120
    max_containers: int | None = None


@dataclass(frozen=True)
class Concurrency:
    """What `@seq.concurrent` declares: copies of the model on a worker, robots it takes."""

    replicas_per_gpu: int | None = None
    gpus_per_replica: int | None = None
    target_inputs: int | None = None
    max_inputs: int | None = None
    replica_start: Literal["together", "one_by_one"] | None = None


@dataclass(frozen=True)
class Batching:
    """What `@seq.batched` declares."""

    max_batch_size: int
    eval_wait_ms: int | None = None
    serve_wait_ms: int | None = None


@dataclass(frozen=True)
class Planning:
    """What `@seq.plan` declares."""

    every_s: float
    max_concurrency: int | None = None


def settle(options: dict[str, Any]) -> dict[str, Any]:
    """The options under today's names; warns on old ones, raises on retired and unknown ones."""
    for name in options:
        if name in _RETIRED:
            raise PolicyDefinitionError(f"{name!r} is not a @seq.policy argument any more; {_RETIRED[name]}")
    settled = {_RENAMED.get(name, name): value for name, value in options.items()}
    for old, new in _RENAMED.items():
        if old in options:
            warnings.warn(f"@seq.policy({old}=) is now {new}=", FutureWarning, stacklevel=3)
        if old in options and new in options:
            raise PolicyDefinitionError(f"{old}= is the old name of {new}=; give only {new}=")
    if "max_containers" in options:
        warnings.warn(
            "@seq.policy(max_containers=) is gone; limit cards with max_gpus=", DeprecationWarning, stacklevel=3
        )
    check.known("@seq.policy", settled, PolicyOptions.__annotations__.keys() - _RENAMED.keys(), PolicyDefinitionError)
    if "gpu" not in settled:
        raise PolicyDefinitionError(
            '@seq.policy needs gpu=: a card such as "L4", a list of them in order of preference, or "cpu"'
        )
    return settled


def cards_of(value: Any) -> tuple[str, ...]:
    cards = (value,) if isinstance(value, str) else value
    if not isinstance(cards, (list, tuple)) or not cards:
        raise PolicyDefinitionError(
            f'gpu= must be a card such as "L4" or "H100:2", a list of them, or "cpu", got {value!r}'
        )
    for card in cards:
        if not isinstance(card, str) or not _CARD.fullmatch(card):
            raise PolicyDefinitionError(
                f'gpu= {card!r} is no card; write "TYPE" or "TYPE:N", such as "H100:2", or "cpu"'
            )
    if len({card_count(card) for card in cards}) > 1:
        raise PolicyDefinitionError(f"gpu={list(cards)}: every entry of a fallback list needs the same number of cards")
    return tuple(cards)


def card_count(card: str) -> int:
    """N of "TYPE:N"; 1 for "TYPE" and "cpu"."""
    return int(card.partition(":")[2] or 1)


def share(name: str, value: Any, unit: str, *, highest: float, limit: float) -> Share:
    if value is None:
        return Share()
    error, pair = PolicyDefinitionError, value if isinstance(value, (tuple, list)) else (value, None)
    if len(pair) != 2:
        raise error(f"{name}= must be a number of {unit} or a pair (request, limit), got {value!r}")
    request = check.number(f"{name}= request", pair[0], error, low=0.125, high=highest, unit=f" {unit}")
    if pair[1] is None:
        return Share(request)
    most = check.number(f"{name}= limit", pair[1], error, low=0.125, high=limit, unit=f" {unit}")
    if most < request:
        raise error(f"{name}={value!r}: the limit must be at least the request")
    return Share(request, most)


def image_of(options: dict[str, Any]) -> Image:
    image = options.get("image") or Image.debian_slim()
    if not isinstance(image, Image):
        raise PolicyDefinitionError(f"image= must be a seq.Image, e.g. seq.Image.debian_slim(), got {image!r}")
    if options.get("deps") is not None:
        image = image.uv_pip_install(
            *check.strings("deps", options["deps"], PolicyDefinitionError, example='["numpy"]')
        )
    return image


def scaling(options: dict[str, Any]) -> Scaling:
    error, given = (
        PolicyDefinitionError,
        {name: options[name] for name in Scaling.__annotations__ if options.get(name) is not None},
    )
    for name, low, high in (
        ("min_workers", 0, None),
        ("buffer_workers", 0, None),
        ("idle_timeout", 1, None),
        ("max_gpus", 1, 256),
        ("queue_timeout_s", 5, 3600),
    ):
        if name in given:
            check.whole(name, given[name], error, low=low, high=high)
    if "on_full" in given:
        check.choice("on_full", given["on_full"], error, ("queue", "reject"))
    return Scaling(**given)


def embodiments_of(value: Any) -> dict[str, Embodiment] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not value:
        raise PolicyDefinitionError(f"embodiments= must be a dict of seq.Embodiment(...) by name, got {value!r}")
    bodies: dict[str, Embodiment] = {}
    for name, body in value.items():
        checked = check.model(f"embodiments[{name!r}]", body, PolicyDefinitionError, Embodiment)
        if checked is None:
            raise PolicyDefinitionError(f"embodiments[{name!r}] is None; give a seq.Embodiment(action=...)")
        bodies[name] = checked
    return bodies


def fitting(declared: Concurrency | None, gpu: tuple[str, ...]) -> Concurrency | None:
    if declared is not None and declared.gpus_per_replica and card_count(gpu[0]) % declared.gpus_per_replica:
        raise PolicyDefinitionError(
            f"gpus_per_replica={declared.gpus_per_replica} must divide the {card_count(gpu[0])} cards of gpu={gpu[0]!r}"
        )
    return declared


def batching_of(cls: type, hooks: Mapping[str, Marked]) -> Batching | None:
    if "batched" not in hooks:
        return None
    if hooks["batched"].method != hooks["infer"].method:
        raise PolicyDefinitionError(
            f"{cls.__name__}: @seq.batched is on {hooks['batched'].method!r}; put it on the @seq.infer method"
        )
    return Batching(**hooks["batched"].options)


def streaming_of(cls: type, options: dict[str, Any], hooks: Mapping[str, Marked]) -> bool:
    streaming = check.flag("streaming", options.get("streaming", False), PolicyDefinitionError)
    if streaming and "on_episode" not in hooks:
        raise PolicyDefinitionError(
            f"{cls.__name__}: streaming=True needs an @seq.on_episode method that frees an episode's state"
        )
    if streaming and "batched" in hooks:
        raise PolicyDefinitionError(f"{cls.__name__}: streaming=True and @seq.batched exclude each other; keep one")
    return streaming


def region_of(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9-]+", value)):
        raise PolicyDefinitionError(f'region= must be one word such as "eu" or "us-west", got {value!r}')
    return value


def models_of(value: Any) -> tuple[str, ...]:
    models = check.strings("models", value, PolicyDefinitionError, example='["qwen3-8-27b"]')
    twice = sorted({name for name in models if models.count(name) > 1})
    if twice or len(models) > 16:
        raise PolicyDefinitionError(
            f"models= lists {twice} twice; name each once" if twice else "models= takes at most 16 names"
        )
    return models


def family_of(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,31}", value)):
        raise PolicyDefinitionError(f"family= must be 1-32 lowercase letters, digits, '.', '_' or '-', got {value!r}")
    return value
