"""Which episodes a policy may keep state for. Pure."""

from __future__ import annotations

IDLE_LIMIT_S = 300.0


class Episodes:
    """Episodes seen in acts, with when they were seen last."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def seen(self, episode_id: str | None, now: float) -> list[str]:
        """Note an act of an episode; the episodes idle for too long, which are thereby forgotten."""
        stale = [known for known, last in self._last.items() if now - last > IDLE_LIMIT_S and known != episode_id]
        for known in stale:
            del self._last[known]
        if episode_id is not None:
            self._last[episode_id] = now
        return stale

    def end(self, episode_id: str) -> bool:
        """Forget an episode; whether it was known."""
        return self._last.pop(episode_id, None) is not None
