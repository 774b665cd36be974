"""One plain sentence for each of the five ways in which there is no GPU for a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from sequence_ai._plain import is_finite


def shortage_sentence(details: Mapping[str, Any]) -> str | None:
    """The sentence for `details["reason"]`, None when that is not about GPUs. A missing count reads "unknown"."""
    reason = details.get("reason")
    write = _SENTENCES.get(reason) if isinstance(reason, str) else None
    return write(details) if write else None


def _limit(details: Mapping[str, Any]) -> str:
    limit, requested = (details.get(name, None) for name in ("limit", "requested"))
    if is_finite(limit) and is_finite(requested) and requested > limit:
        return f"this needs {requested} GPUs at once, your account's limit is {limit}, so it never fits: ask for fewer"
    held = details.get("in_use")
    held = held if isinstance(held, Mapping) else {}
    return (
        f"your account's GPUs are in use: of {_count(limit)}, serving holds {_count(held.get('serving'))} and evals "
        f"hold {_count(held.get('eval'))}; this needs {_count(requested)} ({_count(details.get('short'))} short)"
    )


def _busy(_: Mapping[str, Any]) -> str:
    return "every GPU on the platform is busy; try again later"


def _stock(details: Mapping[str, Any]) -> str:
    gpu = details.get("gpu")
    named = gpu if isinstance(gpu, str) else "such"
    return f"no {named} card is to be had now; list fallbacks in gpu=[...], or try again later"


def _full(details: Mapping[str, Any]) -> str:
    return (
        f"every slot is taken and the deployment holds its max_gpus={_count(details.get('max_gpus'))}; "
        "raise max_gpus, or wait for a robot to leave"
    )


def _timeout(details: Mapping[str, Any]) -> str:
    waited = details.get("waited_s")
    spent = f"{waited:.0f} s" if is_finite(waited) else "the whole of queue_timeout_s"
    return (
        f"no slot became free: this robot waited in line for {spent}, the most the deployment allows (queue_timeout_s)"
    )


def _count(value: Any) -> str:
    return str(value) if is_finite(value) else "unknown"


_SENTENCES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "gpu_limit_reached": _limit,
    "gpu_busy": _busy,
    "gpu_low_stock": _stock,
    "deployment_full": _full,
    "queue_timeout": _timeout,
}
