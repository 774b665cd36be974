"""Why a worker started, left or died, in words, and what helps. A word that is not known here prints nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WORDS = {
    "cold-start": "a robot asked for one",
    "resume": "the deployment was started again",
    "min_containers": "kept running (--min)",
    "min_workers": "kept running (--min)",
    "buffer": "a spare one (--buffer)",
    "replacement": "in place of one that went",
    "probe-alive": "found alive",
    "idle-cooldown": "nobody used it",
    "lease-expired": "its last robot fell silent",
    "version-retired": "another version serves",
    "max-lifetime": "ran for as long as one may",
    "rotate": "making room for a fresh one",
    "rotated": "a fresh one took over",
    "boot-timeout": "did not load in time",
    "gone-while-starting": "went away while it started",
    "gone": "went away",
    "interrupted": "its machine was taken away",
    "unhealthy": "no longer answered",
    "leak-reconcile": "nobody wanted it any more",
    "error": "failed",
    "gpu_out_of_memory": "out of GPU memory",
    "host_out_of_memory": "out of memory",
    "crashed": "crashed",
    "stuck": "stuck",
    "failed": "failed",
    "timeout": "did not load in time",
    "lost": "its process is gone",
    "group_member_lost": "lost a machine of its group",
}
_LEAVING = {"version": "leaving: another version serves", "rotate": "leaving: a fresh one takes over"}
_MEMORY = {
    "gpu_out_of_memory": "a card with more memory (gpu=)",
    "host_out_of_memory": "more memory (memory=)",
}
_HINTS = {
    "crashed": "its process ended by itself; the end of its log (under logs/ of the platform's SEQ_HOME) may say why",
    "stuck": "it stopped answering and was ended: look for a call in load or infer that never "
    "returns, or raise timeouts.request",
    "group_member_lost": "the whole group ended; the next robot that connects starts a new one",
}


def cause_of(reason: object) -> str | None:
    """The word that counts: `crashed` of `unhealthy (crashed)`; None for one that is not known."""
    found = re.fullmatch(r"(?:unhealthy )?\(?([\w-]+)\)?", reason) if isinstance(reason, str) else None
    return found[1] if found and found[1] in _WORDS else None


def why(worker: Mapping[str, Any]) -> str | None:
    """Why a worker is there, leaves or ended."""
    return _LEAVING.get(str(worker.get("leaving"))) or _WORDS.get(cause_of(worker.get("reason")) or "")


def words(cause: str) -> str:
    """A known cause in words."""
    return _WORDS[cause]


def hint(cause: str, details: Mapping[str, Any]) -> str | None:
    """What to do about a death; `details` may tell how many copies came up (`reached`) of how many (`declared`)."""
    return _memory_hint(_MEMORY[cause], details) if cause in _MEMORY else _HINTS.get(cause)


def _memory_hint(bigger: str, details: Mapping[str, Any]) -> str:
    reached, declared = details.get("reached"), details.get("declared")
    per_copy = details.get("per_replica_vram_mb")
    takes = f"; a copy takes {per_copy / 1024:.1f} GiB" if per_copy else ""
    if reached is None or declared is None:
        return f"lower replicas_per_gpu, or ask for {bigger}{takes}"
    advice = "lower replicas_per_gpu" if reached else f"one copy alone does not fit: ask for {bigger}"
    return f"{reached} of {declared} copies came up: {advice}{takes}"
