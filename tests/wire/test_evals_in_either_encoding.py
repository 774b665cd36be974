"""An eval's acts through an instance's relay to a real worker's application: the encoding changes nothing."""

import asyncio
import sys
import threading

import httpx
import numpy as np
import pytest

from runner.engine.bridge import Bridge
from runner.engine.relay import Door, Relay
from runner.engine.seeds import act_seed
from runner.worker.acts import Acts
from runner.worker.app import create_app
from runner.worker.testing import service_in_process
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart
from sequence_ai._transport import Edge, edge_in_place

POLICY = """
import hashlib, json
import numpy as np
import seq

@seq.policy(name="echo", gpu="cpu")
class Echo:
    @seq.infer
    def infer(self, obs, *, seed=None):
        flat = repr([(k, v.dtype.str, v.tobytes()) if isinstance(v, np.ndarray) else (k, v) for k, v in obs.items()])
        drawn = np.random.default_rng([seed % 2**32, len(flat)]).normal(size=(3, 2))
        return {"steps": drawn, "seen": hashlib.sha256(flat.encode()).hexdigest(), "scale": np.float32(1 / 3)}
"""
OBSERVATION = {
    "state": np.linspace(0, 1, 7, dtype=np.float32),
    "depth": np.array([[0.25, 1.5]], dtype=np.float16),
    "count": 3,
    "ratio": 1 / 3,
    "note": "grün \ud800",
    "nested": [[1, 2.0], {"a": None, "b": True}],
}


@pytest.fixture
def service(tmp_path, monkeypatch):
    """The policy's service in process."""
    (tmp_path / "echo_policy.py").write_text(POLICY)
    monkeypatch.setattr(sys, "path", list(sys.path))
    policy = PolicyDecl(handler_ref="echo_policy:Echo")
    start = WorkerStart(
        worker_id="w",
        gateway_url="http://127.0.0.1:1",
        token="t",
        secret="s",
        tls_cert="",
        tls_key="",
        code_dir=str(tmp_path),
        policy=policy,
        timeouts=Timeouts(),
    )
    made, copy = service_in_process(start)
    yield made
    copy.close()
    del sys.modules["echo_policy"]


def asked(service, encodings):
    """Every answer of a short episode, and the content types that crossed."""
    kinds = set()

    def serve(request):
        if request.url.host == "gateway":
            told = {"worker_url": "https://worker", "cert_fingerprint": "ab" * 32, "direct_secret": "s"}
            return httpx.Response(200, json={**told, "encodings": encodings})
        answer = asyncio.run(_in_process(create_app(service), request))
        kinds.update((request.headers["content-type"], answer.headers["content-type"]))
        return answer

    with edge_in_place(Edge(transport=lambda _: httpx.MockTransport(serve))):
        acts = Acts.over(Relay(Door("echo", "http://gateway", "key", 1.0), "0.x", threading.Event()).start())
        asks = [Bridge().ask(OBSERVATION | {"count": count}, "task") for count in range(3)]
        bodies = [acts.ask({**ask, "seed": act_seed(7, act)})["outputs"] for act, ask in enumerate(asks)]
        acts.close()
    return bodies, kinds


async def _in_process(app, request):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        told = await client.request(request.method, request.url, headers=request.headers, content=request.read())
    return httpx.Response(told.status_code, headers=told.headers, content=told.content)


def test_an_evals_acts_do_not_depend_on_the_encoding(service):
    """Arrays, numbers and text reach the policy alike and its answers come back bit for bit, rows and all."""
    (packed, packed_kinds), (text, text_kinds) = asked(service, ["json", "msgpack"]), asked(service, ["json"])
    assert (packed_kinds, text_kinds) == ({"application/msgpack"}, {"application/json"})
    for one, other in zip(packed, text, strict=True):
        assert repr(one) == repr(other)
        assert Bridge().rows(one).tobytes() == Bridge().rows(other).tobytes()
