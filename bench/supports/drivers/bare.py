"""The floor under any client on httpx: a kept-open client that posts ready bytes and reads the answer, no more."""

import ssl
import time
from pathlib import Path

import httpx
import lines

now = time.perf_counter


class Bare:
    """One kept-open client, and the bodies it posts."""

    def open(self, url: str, secret: str, certificate: str, bodies: dict[str, str]) -> str:
        """`certificate` is PEM text, `bodies` a file for each size."""
        self.bodies = {size: Path(path).read_bytes() for size, path in bodies.items()}
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        trust = ssl.create_default_context(cadata=certificate)
        self.http = httpx.Client(base_url=url, headers=headers, verify=trust, trust_env=False)
        return httpx.__version__

    def predict(self, size: str, calls: int) -> dict[str, list[float]]:
        """Milliseconds of each post."""
        took: list[float] = []
        for _ in range(calls):
            body = self.bodies[size]
            begun = now()
            answer = self.http.post("/act", content=body)
            took.append((now() - begun) * 1000)
            answer.raise_for_status()
        return {"ms": took}


if __name__ == "__main__":
    bare = Bare()
    lines.serve({"open": bare.open, "predict": bare.predict})
