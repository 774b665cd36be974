"""Workers, the gateway in front of them and the clients that drive them, all gone when the block ends."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.rows import Row
from bench.supports import environments, observations, workers
from bench.supports.children import DRIVERS, Child
from bench.supports.gateway import KEY, Gateway, serving
from bench.supports.workers import ROOT, Worker
from seq.contract.acts import ConnectAnswer

OURS, PUBLISHED = "ours", "published client"


class Clients(NamedTuple):
    """Drivers by the name of their client, and why the published one is not among them (None: it is)."""

    drivers: dict[str, Child]
    missing: str | None

    def absent(self, *what: str) -> list[Row]:
        """A row for each of what could not be measured of the published client."""
        return [Row(f"{PUBLISHED}, {each}", not_measured=self.missing) for each in what if self.missing]


@dataclass(frozen=True)
class Rig:
    """`client` starts drivers; what they leave behind lies in `folder`."""

    gateway: Gateway
    workers: list[Worker]
    folder: Path
    observations: Path
    stack: ExitStack

    def ours(self, *models: str, **options: Any) -> Child:
        """Our client, with the Python that runs this; connected to `models`."""
        return self._robot("ours", sys.executable, str(ROOT), models, options)

    def published(self, *models: str, **options: Any) -> Child:
        """The published client in its own environment. Raises NotMadeError."""
        python = environments.python_of("published", environments.published())
        return self._robot("published", python, None, models, options)

    def both(self, *models: str, **options: Any) -> Clients:
        """Our client and, where it can be had, the published one, each past its first act."""
        drivers, missing = {OURS: self.ours(*models, **options)}, None
        try:
            drivers[PUBLISHED] = self.published(*models, **options)
        except environments.NotMadeError as why:
            missing = str(why)
        for driver in drivers.values():
            for model in models:
                driver.ask("acts", model=model, size="15 kB", calls=1)
        return Clients(drivers, missing)

    def bare(self, worker: Worker, bodies: dict[str, Path]) -> Child:
        """httpx alone, posting these bodies to this worker."""
        child = self._child(sys.executable, "bare", "bare")
        files = {size: str(path) for size, path in bodies.items()}
        child.ask("open", url=worker.url, secret=worker.secret, certificate=worker.certificate, bodies=files)
        return child

    def openpi(self, sizes: tuple[str, ...]) -> Child:
        """openpi-client at a server of its own kind. Raises NotMadeError."""
        python = environments.python_of("openpi", environments.OPENPI)
        command = [python, str(DRIVERS / "openpi.py"), "serve"]
        with (self.folder / "openpi-server.log").open("w") as log:
            server = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder
            )
        self.stack.callback(_end, server)
        assert server.stdout is not None
        port = int(server.stdout.readline())
        child = self._child(python, "openpi", "openpi")
        child.ask("open", port=port, sizes={size: observations.frame_bytes(size) for size in sizes})
        return child

    def bodies(self, ours: Child, sizes: tuple[str, ...]) -> dict[str, Path]:
        """The very bytes that our client posts for one observation of each size, as a server received them."""
        self.gateway.answers["capture"] = ConnectAnswer(
            worker_url=self.gateway.url, cert_fingerprint="0" * 64, direct_secret="none"
        )
        self._open(ours, "capture", {})
        return {size: self._captured(ours, size) for size in sizes}

    def _captured(self, ours: Child, size: str) -> Path:
        before = len(self.gateway.captured)
        try:
            ours.ask("predict", model="capture", size=size, calls=1)
        except RuntimeError:
            if len(self.gateway.captured) != before + 1:  # the answer was an error on purpose; the body is what counts
                raise
        path = self.folder / f"body of {size}"
        path.write_bytes(self.gateway.captured[before])
        return path

    def _robot(
        self, name: str, python: str, path: str | None, models: tuple[str, ...], options: dict[str, Any]
    ) -> Child:
        child = self._child(python, "robot", name, path)
        for model in models:
            self._open(child, model, options)
        return child

    def _child(self, python: str, driver: str, name: str, path: str | None = None) -> Child:
        log = self.folder / f"{name}-{len(list(self.folder.glob('*.log')))}.log"
        child = Child(python, driver, log, path)
        self.stack.callback(child.end)
        return child

    def _open(self, child: Child, model: str, options: dict[str, Any]) -> None:
        child.ask(
            "open",
            model=model,
            observations=str(self.observations),
            base_url=self.gateway.url,
            api_key=KEY,
            **options,
        )


@contextmanager
def rig(count: int = 1) -> Iterator[Rig]:
    """`count` workers behind a gateway."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seq-bench-")))
        gateway = stack.enter_context(serving())
        begun = workers.start(gateway, count, folder)
        for worker in begun:
            stack.callback(worker.end)
        yield Rig(gateway, begun, folder, observations.write(folder), stack)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
