"""Copies that do not fit into memory: how that is known, and how many would. Pure."""

from __future__ import annotations

from typing import Literal

from seq.contract.deployments import Concurrency

Reason = Literal["gpu_out_of_memory", "host_out_of_memory", "crashed", "stuck", "group_member_lost"]

_CARD_FULL = ("RESOURCE_EXHAUSTED", "CUDA out of memory")


def reason_of(error: BaseException) -> Reason | None:
    """Which memory an error of the policy's says is full, itself or the error behind it; None where neither does."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, MemoryError):
            return "host_out_of_memory"
        if type(link).__name__ == "OutOfMemoryError" or any(sign in _text(link) for sign in _CARD_FULL):
            return "gpu_out_of_memory"
        link = link.__cause__ or link.__context__
    return None


def fitting(up: int, copies: int, cards: int, declared: Concurrency, reason: Reason) -> str:
    """What to say of copies that ran out of memory, and what to do."""
    told = f"{up} of {copies} copies came up"
    fits = up // cards
    if declared.replicas_per_gpu is not None and declared.replicas_per_gpu > 1 and fits:
        return f"{told}; lower replicas_per_gpu to {fits}"
    if reason == "host_out_of_memory":
        return f"{told}; declare more memory=, or fewer copies"
    return f"{told}; take a card with more memory, or more cards for a copy (gpus_per_replica)"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  a user's own __str__; then its type alone counts
        return ""
