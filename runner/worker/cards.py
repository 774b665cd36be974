"""Which of a worker's cards a copy sees. Pure."""

from __future__ import annotations

from seq.contract.deployments import Concurrency


def seen_by(copy: int, visible: str | None, cards: int, declared: Concurrency) -> str | None:
    """CUDA_VISIBLE_DEVICES of a copy, given the worker's own; None leaves that as it is.

    A copy sees every card unless its share is declared. Without cards (`gpu="cpu"`, pretend ones) nothing is to be cut.
    """
    if declared.gpus_per_replica is None and declared.replicas_per_gpu is None:
        return None
    if visible is None and cards == 1:
        return None
    held = [str(card) for card in range(cards)] if visible is None else [card for card in visible.split(",") if card]
    each = declared.gpus_per_replica or 1
    first = copy // (declared.replicas_per_gpu or 1) * each
    return ",".join(held[first : first + each]) if first + each <= len(held) else None
