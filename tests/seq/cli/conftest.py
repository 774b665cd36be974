"""The `seq` command run in process against a platform that is a table of answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from seq.api import Api, Place
from seq.cli.main import main
from sequence_ai.testing import FakeClock


@dataclass
class FakeGateway:
    """Answers by (method, path); a list of bodies is given out one a request, its last one for ever.

    A body may be JSON, raw bytes, a whole response (made anew each time by a function), or an exception that is raised.
    """

    answers: dict[tuple[str, str], tuple[int, list[Any]]] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)

    def on(self, method: str, path: str, *bodies: Any, status: int = 200) -> None:
        self.answers[method, path] = (status, list(bodies) or [{}])

    def refuse(self, method: str, path: str, code: str, status: int, **more: Any) -> None:
        body = {"code": code, "detail": f"the {code} sentence", "retryable": False, **more}
        self.on(method, path, body, status=status)

    def sent(self, method: str, path: str) -> list[Any]:
        """The JSON bodies that were sent there."""
        found = [request for request in self.requests if (request.method, request.url.path) == (method, path)]
        return [json.loads(request.content) if request.content else None for request in found]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        known = self.answers.get((request.method, request.url.path))
        if known is None:
            body = {"code": "not_found", "detail": f"no {request.method} {request.url.path}", "retryable": False}
            return httpx.Response(404, json=body)
        status, bodies = known
        body = bodies.pop(0) if len(bodies) > 1 else bodies[0]
        if isinstance(body, BaseException):
            raise body
        if callable(body):
            return body()
        return httpx.Response(status, content=body) if isinstance(body, bytes) else httpx.Response(status, json=body)

    def api(self) -> Api:
        return Api(Place("http://127.0.0.1:1", "seq_live_k"), transport=httpx.MockTransport(self), clock=self.clock)


@dataclass(frozen=True)
class Ended:
    """How one run of the command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture
def seq(gateway: FakeGateway, capsys, monkeypatch, tmp_path) -> Callable[..., Ended]:
    """Run `seq ARGUMENTS` against the fake gateway, in an empty folder."""
    monkeypatch.setenv("SEQ_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SEQUENCES_API_KEY", raising=False)
    monkeypatch.delenv("SEQUENCES_BASE_URL", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run(*arguments: str) -> Ended:
        code = main(arguments, connect=lambda **_: gateway.api())
        shown = capsys.readouterr()
        return Ended(code, shown.out, shown.err)

    return run
