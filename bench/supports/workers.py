"""Policy workers as their host starts them: `python -m runner.worker`, TLS, a key and a secret of each one's own."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.supports.gateway import Gateway
from bench.supports.policy import policy
from runner.fleet import certificates
from seq import deployment_request
from seq.contract.acts import ConnectAnswer, Lease
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 120
LEASE_S = 300


@dataclass(frozen=True)
class Worker:
    """One running worker. Robots reach it as the model `name` in JSON, and as `name-fast` in MessagePack too."""

    name: str
    url: str
    secret: str
    certificate: str
    process: subprocess.Popen[bytes]

    def end(self) -> None:
        """End it at once: nothing in it is worth keeping."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


@dataclass(frozen=True)
class Code:
    """What a worker serves: the folder of its file, and what the file declares."""

    folder: Path
    policy: PolicyDecl


STILL = Code(
    Path(policy.__file__).parent,
    deployment_request(policy.Still).policy.model_copy(update={"handler_ref": "policy:Still"}),
)


def start(gateway: Gateway, count: int, folder: Path, code: Code = STILL) -> list[Worker]:
    """`count` workers named bench-0, bench-1, ..., all of them ready."""
    begun = {name: _begin(gateway, name, folder, code) for name in (f"bench-{number}" for number in range(count))}
    try:
        urls = _until_ready(gateway, set(begun), folder)
        return [_known(gateway, name, urls[name], *made) for name, made in begun.items()]
    except BaseException:
        for process, _ in begun.values():
            process.kill()
            process.wait()
        raise


def _begin(
    gateway: Gateway, name: str, folder: Path, code: Code
) -> tuple[subprocess.Popen[bytes], certificates.Certificate]:
    certificate = certificates.make(name, "127.0.0.1", time.time())
    told = WorkerStart(
        worker_id=name,
        gateway_url=gateway.url,
        token="token",
        secret=f"secret-of-{name}",
        tls_cert=certificate.cert_pem,
        tls_key=certificate.key_pem,
        code_dir=str(code.folder),
        policy=code.policy,
        timeouts=Timeouts(),
    )
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "runner.worker"],
            stdin=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        )
    assert process.stdin is not None
    process.stdin.write(told.model_dump_json(exclude_none=True).encode() + b"\n")
    process.stdin.flush()
    return process, certificate


def _until_ready(gateway: Gateway, names: set[str], folder: Path) -> dict[str, str]:
    urls: dict[str, str] = {}
    while set(urls) != names:
        try:
            name, report = gateway.reports.get(timeout=START_LIMIT_S)
        except queue.Empty:
            logs = "".join((folder / f"{name}.log").read_text() for name in sorted(names - set(urls)))
            raise RuntimeError(f"{sorted(names - set(urls))} said nothing for {START_LIMIT_S} s\n{logs}") from None
        if report["phase"] == "failed":
            raise RuntimeError(f"{name} failed: {report['error']}\n{report.get('traceback', '')}")
        if report["phase"] == "ready":
            urls[name] = report["url"]
    return urls


def _known(
    gateway: Gateway, name: str, url: str, process: subprocess.Popen[bytes], certificate: certificates.Certificate
) -> Worker:
    worker = Worker(name, url, f"secret-of-{name}", certificate.cert_pem, process)
    answer = ConnectAnswer(
        worker_url=url,
        cert_fingerprint=certificate.fingerprint,
        direct_secret=worker.secret,
        lease=Lease(ttl_s=LEASE_S, epoch=name),
        action=policy.CONTRACT,
        observation=policy.OBSERVATION,
    )
    gateway.answers |= {name: answer, f"{name}-fast": answer}
    gateway.encodings[f"{name}-fast"] = ["json", "msgpack"]
    return worker
