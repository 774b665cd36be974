"""Which robots are connected, as far as this process has heard: kept in memory until slots are kept in the store.

After a restart the robots are known again with their next renewal, at the latest one lease later.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Held:
    """A robot's lease: on which worker, and until when (epoch seconds)."""

    worker_id: str
    until: float


class Sessions:
    """Robots by deployment, each until its lease ends or it releases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], Held] = {}

    def hold(self, deployment_id: str, session: str, until: float, worker_id: str) -> None:
        """A robot connected or renewed."""
        with self._lock:
            self._held[deployment_id, session] = Held(worker_id, until)

    def release(self, deployment_id: str, session: str) -> None:
        """A robot left; an unknown one is nothing."""
        with self._lock:
            self._held.pop((deployment_id, session), None)

    def connected(self, deployment_id: str, now: float) -> int:
        """How many robots hold a lease."""
        return sum(self.by_worker(deployment_id, now).values())

    def by_worker(self, deployment_id: str, now: float) -> Counter[str]:
        """How many robots hold a lease on each worker."""
        with self._lock:
            self._held = {key: held for key, held in self._held.items() if held.until > now}
            return Counter(held.worker_id for key, held in self._held.items() if key[0] == deployment_id)
