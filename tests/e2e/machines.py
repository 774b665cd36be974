"""The machines of a group as processes, each started the way its host starts it: no platform, no Ray."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from runner.fleet import certificates
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart
from tests.e2e.workers import LIMIT_S, SECRET, Gateway

POLICY = """
import os, pathlib, sys
import seq

NOTES = pathlib.Path({notes!r})
RANK = os.environ.get("RANK", "author")

def note(name, text):
    with (NOTES / f"{{name}}.{{RANK}}").open("a") as file:
        file.write(f"{{text}}\\n")

@seq.policy(name="large", gpu="H100:16"{options})
class Large:
    @seq.load
    def load(self, weights_dir):
        note("pid", os.getpid())
        note("seen", *["SEQ_GROUP_PORT" in os.environ])
        note("env", " ".join(os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")))
        note("port", os.environ["MASTER_PORT"])
        {load}

    @seq.infer
    def infer(self, obs, *, episode_id=None):
        note("ran", obs["number"])
        return {{"rank": RANK, "number": obs["number"]}}

    @seq.on_episode
    def forget(self, episode_id):
        note("ended", episode_id)

    @seq.shutdown
    def bye(self):
        note("bye", os.getpid())
"""

TORCH = {
    "__init__.py": "from torch import cuda\n",
    "cuda.py": "def is_available():\n    return False\n",
    "distributed.py": """
import os, pathlib, sys

def init_process_group(backend):
    early = "imported" if "{module}" in sys.modules else "unimported"
    text = f"{{backend}} {{os.environ['WORLD_SIZE']}} {{early}}\\n"
    (pathlib.Path({notes!r}) / f"joined.{{os.environ['RANK']}}").write_text(text)
""",
}


def write(folder: Path, notes: Path, *, load: str = "pass", options: str = "", module: str = "large") -> Path:
    """The policy's file, and beside it a package that stands for torch; what they do they note in `notes`."""
    notes.mkdir(exist_ok=True)
    (folder / "torch").mkdir()
    for name, text in TORCH.items():
        told = text.format(notes=str(notes), module=module) if name == "distributed.py" else text
        (folder / "torch" / name).write_text(told, encoding="utf-8")
    file = folder / f"{module}.py"
    file.write_text(POLICY.format(notes=str(notes), load=load, options=options), encoding="utf-8")
    return file


def noted(notes: Path, name: str, rank: int) -> list[str]:
    """The lines that the policy noted on a machine."""
    file = notes / f"{name}.{rank}"
    return file.read_text().splitlines() if file.exists() else []


class Machines:
    """Two machines on this one; each is its process, the first with the worker's door."""

    def __init__(self, folder: Path, gateway: Gateway, *, load: str = "pass", secrets: tuple[str, ...] = ()) -> None:
        self.folder, self.notes = folder, folder / "notes"
        write(folder, self.notes, load=load)
        self.certificate = certificates.make("worker-1", "127.0.0.1", time.time())
        self.log = (folder / "log").open("wb")
        ports = _free_ports()
        told = {
            "worker_id": "worker-1",
            "gateway_url": gateway.url,
            "token": "worker-token",
            "tls_cert": self.certificate.cert_pem,
            "code_dir": str(folder),
            "policy": PolicyDecl(handler_ref="large:Large"),
            "timeouts": Timeouts(),
            "cards": 16,
            "group": 2,
        }
        keys, given = (self.certificate.key_pem, ""), secrets or (SECRET, SECRET)
        self.processes = [
            self._spawn(rank, ports, WorkerStart(**told, tls_key=key, secret=secret))
            for rank, (key, secret) in enumerate(zip(keys, given, strict=True))
        ]

    def _spawn(self, rank: int, ports: list[int], start: WorkerStart) -> subprocess.Popen[bytes]:
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(self.folder)]),
            "TMPDIR": str(self.folder),
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(ports[0]),
            "SEQ_GROUP_PORT": str(ports[1]),
        }
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "runner.worker.member" if rank else "runner.worker"],
            stdin=subprocess.PIPE,
            cwd=self.folder,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
            env=env,
        )
        assert child.stdin is not None
        child.stdin.write(start.model_dump_json(exclude_none=True).encode() + b"\n")
        child.stdin.flush()
        return child

    def client(self, url: str) -> httpx.Client:
        """A client that trusts this worker's certificate alone."""
        context = ssl.create_default_context(cadata=self.certificate.cert_pem)
        headers = {"Authorization": f"Bearer {SECRET}"}
        return httpx.Client(verify=context, base_url=url, headers=headers, trust_env=False, timeout=LIMIT_S)

    def noted(self, name: str) -> list[list[str]]:
        """The lines noted on each machine."""
        return [noted(self.notes, name, rank) for rank in (0, 1)]

    def pids(self) -> list[int]:
        """Every process of it: the machines' and their copies'."""
        return [*(child.pid for child in self.processes), *(int(line) for lines in self.noted("pid") for line in lines)]

    def ended(self) -> bool:
        """Whether both machines have ended."""
        return all(child.poll() is not None for child in self.processes)

    def end(self) -> None:
        """End whatever is left of it."""
        for child in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            assert child.stdin is not None
            child.stdin.close()
        self.log.close()


def _free_ports() -> list[int]:
    with socket.socket() as first, socket.socket() as second:
        taken: list[Any] = [first, second]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]
