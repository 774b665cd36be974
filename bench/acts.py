"""A worker that is never too busy within its slots, and runs each request once: four robots on four model copies.

Each robot posts as fast as it is answered; every fiftieth request is sent twice at the same moment, under one id. The
policy notes the number of every act that it runs, so what it ran is counted afterwards, whatever was answered.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.rows import Promise, Row
from bench.supports.platform import Platform, running

ROBOTS, TWICE_EVERY = 4, 50
WHAT = "acts within the slots of a worker"
PROMISES = tuple(Promise(WHAT, figure, at_most=0) for figure in ("refused_429", "ran_twice", "ran_never", "failed"))

POLICY = """
import os

import seq


@seq.policy(name="noting", gpu="cpu", max_gpus=1, min_workers=1)
@seq.concurrent(replicas_per_gpu={copies})
class Noting(seq.Policy):
    \"\"\"Notes what it runs.\"\"\"

    @seq.load
    def load(self, weights_dir):
        \"\"\"One file a copy.\"\"\"
        self.notes = open(os.path.join({folder!r}, str(os.getpid())), "a", buffering=1)

    @seq.infer
    def infer(self, inputs):
        \"\"\"The same again.\"\"\"
        self.notes.write(f"{{inputs['number']}}\\n")
        return inputs
"""


@dataclass(frozen=True)
class Size:
    """Acts in all."""

    acts: int = 100_000


FULL, TINY = Size(), Size(acts=200)


def run(size: Size = FULL, seed: int = 0) -> list[Row]:  # noqa: ARG001  nothing here is drawn by chance
    """One row."""
    with running() as platform, tempfile.TemporaryDirectory(prefix="seq-") as notes:
        platform.deploy(POLICY.format(copies=ROBOTS, folder=notes))
        begun = time.monotonic()
        shares = [range(robot, size.acts, ROBOTS) for robot in range(ROBOTS)]
        with ThreadPoolExecutor(ROBOTS) as robots:
            statuses = sum(robots.map(lambda numbers: _drive(platform, numbers), shares), Counter())
        took = time.monotonic() - begun
        ran = Counter(number for file in Path(notes).iterdir() for number in file.read_text().split())
        copies = len(list(Path(notes).iterdir()))
    figures = {
        "acts": size.acts,
        "per_s": size.acts / took,
        "refused_429": statuses[429],
        "failed": sum(count for status, count in statuses.items() if status not in (200, 429)),
        "ran_twice": sum(count > 1 for count in ran.values()),
        "ran_never": sum(str(number) not in ran for number in range(size.acts)),
        "copies": copies,
    }
    return [Row(WHAT, figures)]


def _drive(platform: Platform, numbers: range) -> Counter[int]:
    """One robot's acts; how often each status was answered."""
    statuses: Counter[int] = Counter()
    there = _connected(platform)
    headers = {"Authorization": f"Bearer {there['direct_secret']}"}
    # The certificate is the worker's own, and this machine's loopback lies between.
    options: dict[str, Any] = {"base_url": there["worker_url"], "headers": headers, "verify": False, "timeout": 60}
    with (
        httpx.Client(trust_env=False, **options) as first,
        httpx.Client(trust_env=False, **options) as second,
        ThreadPoolExecutor(1) as beside,
    ):
        for turn, number in enumerate(numbers):
            twin = beside.submit(_post, second, number) if turn % TWICE_EVERY == 0 else None
            statuses[_post(first, number)] += 1
            if twin is not None:
                statuses[twin.result()] += 1
    return statuses


def _post(client: httpx.Client, number: int) -> int:
    answer = client.post("/act", json={"inputs": {"number": number}}, headers={"X-Seq-Request-Id": f"r-{number:08x}"})
    if answer.is_success and answer.json()["outputs"] != {"number": number}:
        raise AssertionError(f"act {number} was answered {answer.text}")
    return answer.status_code


def _connected(platform: Platform) -> dict[str, Any]:
    """A slot; every robot has one, once the worker serves."""
    body = {"model": "noting", "session": uuid.uuid4().hex, "moves": True}
    while True:
        headers = {"Authorization": f"Bearer {platform.key}"}
        answer = httpx.post(f"{platform.url}/v1/act/connect", json=body, headers=headers, trust_env=False)
        if answer.is_success:
            there: dict[str, Any] = answer.json()
            return there
        time.sleep(0.5)
