"""A gateway over an eval of very many episodes, in a process whose memory is its own. Told once which, then asked."""

import resource
import sys
import time
from pathlib import Path
from typing import Any

import lines

from bench.supports import million


class Reports:
    """What was built in one folder, and the gateway over it."""

    def build(self, folder: str, episodes: int) -> None:
        """Make the eval."""
        million.build(Path(folder), episodes).store.close()

    def open(self, folder: str) -> None:
        """Load all that answers."""
        ctx = million.opened(Path(folder))
        self.client, self.path = million.client(ctx), million.path_of(ctx)
        self.client.get(f"{self.path}/episodes", params={"limit": 1}).raise_for_status()

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """One answer: seconds, its size, and the most memory that this process had up to now; and the answer's text."""
        begun = time.perf_counter()
        answer = self.client.get(self.path + path, params=params, timeout=None)
        took = time.perf_counter() - begun
        answer.raise_for_status()
        return {"s": took, "mb": len(answer.content) / 1e6, "peak_gib": _peak_gib(), "body": answer.json()}


def _peak_gib() -> float:
    """Of this process alone: what getrusage says may be its parent's, from before it was told what to run."""
    status = Path("/proc/self/status")
    if status.exists():
        told = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(told["VmHWM"].split()[0]) / 2**20
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


if __name__ == "__main__":
    reports = Reports()
    lines.serve({name: getattr(reports, name) for name in ("build", "open", "get")})
