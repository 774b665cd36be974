"""How the door asks the system for memory."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # <malloc.h>
KEPT_BYTES = 256 << 20
LARGEST_BYTES = 32 << 20  # the most that the C library takes for it


def keep_freed() -> None:
    """Keep what one act frees for the next: an act with frames would wait for fresh pages at every step (glibc)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, LARGEST_BYTES)
