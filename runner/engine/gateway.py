"""An instance's calls to the gateway: plain HTTP with the instance's token, resent until acknowledged."""

from __future__ import annotations

import threading
from typing import Any

import httpx

from seq.contract.internal import (
    EpisodeOutcome,
    InstanceEvent,
    InstanceSpec,
    LeaseAnswer,
    LeaseRequest,
    RequeueRequest,
    ResultsRequest,
)

_TIMEOUT_S = 30.0
_PAUSE_S = 0.2
_PAUSE_MAX_S = 2.0
_NOT_OURS = (401, 403, 404, 410)


class DismissedError(Exception):
    """The gateway does not know this instance (any more), or the instance is ending: nothing is left to tell it."""


class GatewayRefusedError(Exception):
    """The gateway refused what this instance asked or told; the message is its sentence."""


class Gateway:
    """Thread-safe. A gateway that is down is waited for: what an instance has done is not lost with it.

    Every call raises DismissedError when the gateway answers that this instance is not its own, or once `stop` is set
    while the gateway cannot be reached; GatewayRefusedError on any other refusal.
    """

    def __init__(self, url: str, instance_id: str, token: str, stop: threading.Event) -> None:
        self._base = f"{url}/internal/instances/{instance_id}"
        self._stop = stop
        self._client = httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=_TIMEOUT_S, trust_env=False)

    def spec(self) -> InstanceSpec:
        """What to run."""
        return InstanceSpec.model_validate(self._call("GET", "spec"))

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        """Episodes to run next; also the heartbeat."""
        return LeaseAnswer.model_validate(self._call("POST", "lease", request.wire()))

    def results(self, outcomes: list[EpisodeOutcome]) -> None:
        """Hand in finished episodes; they are in the store when this returns."""
        self._call("POST", "results", ResultsRequest(outcomes=outcomes).wire())

    def requeue(self, episodes: list[tuple[int, int]], reason: str) -> None:
        """Give back episodes, as (index, attempt), that must run again."""
        self._call("POST", "requeue", RequeueRequest(episodes=episodes, reason=reason).wire())

    def event(self, event: InstanceEvent) -> None:
        """Tell what happened."""
        self._call("POST", "event", event.wire())

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        pause = _PAUSE_S
        while True:
            try:
                answer = self._client.request(method, f"{self._base}/{path}", json=body)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.is_success:
                return answer.json()
            if answer is not None and answer.is_client_error:
                kind = DismissedError if answer.status_code in _NOT_OURS else GatewayRefusedError
                raise kind(f"{method} {path}: {answer.status_code} {_detail(answer)}")
            if self._stop.wait(pause):
                raise DismissedError("the instance is ending and the gateway cannot be reached")
            pause = min(2 * pause, _PAUSE_MAX_S)


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:500]
