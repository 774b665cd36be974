"""The seed of every act, from the episode's seed and the act's number."""

from __future__ import annotations

import hashlib


def act_seed(episode_seed: int, act: int) -> int:
    """A 31-bit seed for act number `act` (from 0) of an episode that starts from `episode_seed`.

    The same pair gives the same seed on every machine and run; neighbouring acts get unrelated ones. 31 bits, so that
    every random generator takes it.
    """
    digest = hashlib.sha256(f"{episode_seed}/{act}".encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF
