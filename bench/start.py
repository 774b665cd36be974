"""A cold start: from `connect` to the first act, beside the worker's own load alone; and what asking costs meanwhile.

Alone is the same worker process started by hand until it says that it serves: interpreter, imports, load and warmup.
"""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from bench.figures import spread
from bench.rows import Promise, Row
from bench.supports import workers
from bench.supports.gateway import serving
from bench.supports.platform import Platform, running
from bench.supports.workers import Code
from seq.contract.deployments import PolicyDecl

COLD, ASKED = "connect to the first act, from zero", "connect while the worker loads"
PROMISES = (Promise(COLD, "ratio_to_alone", at_most=1.1), Promise(ASKED, "p99_ms", at_most=50))

POLICY = """
import time

import seq


@seq.policy(name="{name}", gpu="cpu", max_gpus=1)
@seq.concurrent(target_inputs=2)
class Slow(seq.Policy):
    \"\"\"Loads for {load_s} s.\"\"\"

    @seq.load
    def load(self, weights_dir):
        \"\"\"As long as a checkpoint of some size.\"\"\"
        time.sleep({load_s})

    @seq.warmup
    def warmup(self):
        \"\"\"As long as a compilation.\"\"\"
        time.sleep({load_s} / 10)

    @seq.infer
    def infer(self, inputs):
        \"\"\"The same again.\"\"\"
        return inputs
"""


@dataclass(frozen=True)
class Size:
    """Cold starts, and how long the policy loads, in s."""

    starts: int = 3
    load_s: float = 20.0


FULL, TINY = Size(), Size(starts=1, load_s=1.0)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  nothing here is drawn by chance
    """The start, and the answers during it."""
    whole: list[float] = []
    alone: list[float] = []
    asked: list[float] = []
    with running() as platform:
        for number in range(size.starts):
            name = f"slow-{number}"
            source = POLICY.format(name=name, load_s=size.load_s)
            alone.append(_alone(source))
            platform.deploy(source)
            _wait_until_gone(platform, name)
            whole.append(_cold(platform, name, asked))
    figures = {"ratio_to_alone": float(np.median(np.array(whole) / np.array(alone))), "starts": len(whole)}
    seconds = {"p50_s": float(np.median(whole)), "alone_p50_s": float(np.median(alone))}
    return [Row(COLD, {**figures, **seconds}), Row(ASKED, {**spread(asked, "ms"), "asked": len(asked)})]


def _alone(source: str) -> float:
    """How long a worker takes until it serves, started by hand."""
    with tempfile.TemporaryDirectory(prefix="seq-") as folder, serving() as gateway:
        (Path(folder) / "policy.py").write_text(source, encoding="utf-8")
        begun = time.monotonic()
        started = workers.start(gateway, 1, Path(folder), Code(Path(folder), PolicyDecl(handler_ref="policy:Slow")))
        took = time.monotonic() - begun
        for worker in started:
            worker.end()
    return took


def _wait_until_gone(platform: Platform, name: str) -> None:
    """The build's own worker has ended: the deployment has none."""
    while platform.get(f"/v1/deployments/{name}/fleet").json()["workers"]:
        time.sleep(0.2)


def _cold(platform: Platform, name: str, asked: list[float]) -> float:
    """How long the first act took; beside it another robot asks every 50 ms, and is not held."""
    over = threading.Event()
    asking = threading.Thread(target=lambda: asked.extend(_answers(platform, name, over)))
    with platform.connect(name) as policy:
        begun = time.monotonic()
        asking.start()
        policy.predict({"x": 1})
        took = time.monotonic() - begun
    over.set()
    asking.join()
    return took


def _answers(platform: Platform, name: str, over: threading.Event) -> Iterator[float]:
    """What each answer of `warming` took, in ms."""
    body = {"model": name, "session": uuid.uuid4().hex, "moves": True}
    headers = {"Authorization": f"Bearer {platform.key}"}
    with httpx.Client(base_url=platform.url, headers=headers, trust_env=False, timeout=60) as client:
        client.get("/healthz")
        while not over.wait(0.05):
            begun = time.perf_counter()
            answer = client.post("/v1/act/connect", json=body)
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                yield (time.perf_counter() - begun) * 1000
        client.post("/v1/act/release", json={"model": name, "session": body["session"]})
