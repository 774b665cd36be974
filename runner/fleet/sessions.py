"""Which robots are connected, as far as this process has heard: kept in memory until slots are kept in the store.

After a restart the robots are known again with their next renewal, at the latest one lease later.
"""

from __future__ import annotations

import threading


class Sessions:
    """Robots by deployment, each until its lease ends or it releases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[tuple[str, str], float] = {}

    def hold(self, deployment_id: str, session: str, until: float) -> None:
        """A robot connected or renewed."""
        with self._lock:
            self._until[deployment_id, session] = until

    def release(self, deployment_id: str, session: str) -> None:
        """A robot left; an unknown one is nothing."""
        with self._lock:
            self._until.pop((deployment_id, session), None)

    def connected(self, deployment_id: str, now: float) -> int:
        """How many robots hold a lease."""
        with self._lock:
            self._until = {key: until for key, until in self._until.items() if until > now}
            return sum(key[0] == deployment_id for key in self._until)
