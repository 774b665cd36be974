"""A toy policy in a folder of its own, and the service over it as an application in process."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from runner.worker.app import create_app
from runner.worker.testing import service_in_process
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart
from seq.contract.params import InferParam

SECRET = "the-secret"

POLICY = """
import threading
import seq

GATE = threading.Event()

@seq.policy(name="toy", gpu="cpu")
class Toy:
    @seq.load
    def load(self, weights_dir):
        self.calls, self.ended, self.weights = [], [], weights_dir

    @seq.infer
    def infer(self, obs, *, seed=None, episode_id=None, gain: float = 1.0):
        self.calls.append((seed, episode_id, gain))
        return answer(self, obs)

    @seq.on_episode
    def forget(self, episode_id):
        self.ended.append(episode_id)

    @seq.shutdown
    def bye(self):
        self.calls.append("shutdown")

def answer(policy, obs):
    {body}
"""


class Client:
    """Requests to an application in process: one event loop for all of them, as in a server, and no socket."""

    def __init__(self, app: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        headers = {"Authorization": f"Bearer {SECRET}"}
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://worker", headers=headers)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The answer to one request."""
        return asyncio.run_coroutine_threadsafe(self._http.request(method, path, **options), self._loop).result()

    def get(self, path: str) -> httpx.Response:
        """The answer to a GET."""
        return self.request("GET", path)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """The answer to a POST."""
        return self.request("POST", path, **options)

    def close(self) -> None:
        """End the loop, once its tasks are done."""
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        await self._http.aclose()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)


class Worker:
    """A policy's service and a client of it."""

    def __init__(self, folder: Path, body: str, limit_s: float | None, **declared: Any) -> None:
        self.code_dir = str(folder)
        (folder / f"toy_{folder.name}.py").write_text(POLICY.replace("{body}", body), encoding="utf-8")
        policy = PolicyDecl(
            handler_ref=f"toy_{folder.name}:Toy", params={"gain": InferParam(type="float", default=1.0)}, **declared
        )
        self.start = WorkerStart(
            worker_id="worker-1",
            gateway_url="http://127.0.0.1:1",
            token="t",
            secret=SECRET,
            tls_cert="",
            tls_key="",
            code_dir=self.code_dir,
            policy=policy,
            timeouts=Timeouts(),
        )
        self.service, self.copy = service_in_process(self.start, limit_s)
        self.client = Client(create_app(self.service))
        self.module = sys.modules[f"toy_{folder.name}"]

    @property
    def policy(self) -> Any:
        """The policy's own object."""
        return self.copy.policy._instance

    def act(self, request_id: str | None = None, **body: Any) -> Any:
        """One `POST /act`."""
        headers = {} if request_id is None else {"X-Seq-Request-Id": request_id}
        return self.client.post("/act", json=body or {"inputs": {"x": 0}}, headers=headers)


MakeWorker = Callable[..., Worker]


@pytest.fixture
def make_worker(tmp_path: Path) -> Iterator[MakeWorker]:
    """`make_worker("return ...", action=..., limit_s=...)`: a worker whose policy answers with that body."""
    made: list[Worker] = []
    path = list(sys.path)

    def make(body: str = "return obs", limit_s: float | None = None, **declared: Any) -> Worker:
        folder = tmp_path / f"{tmp_path.name.replace('-', '_')}_{len(made)}"
        folder.mkdir()
        worker = Worker(folder, body, limit_s, **declared)
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.module.GATE.set()
        worker.client.close()
        worker.copy.close()
        sys.modules.pop(worker.module.__name__, None)
    sys.path[:] = path
