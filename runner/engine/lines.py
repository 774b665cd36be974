"""Lines to the policy's copies for an instance's environments: opened here, and opened anew when one is lost."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from urllib.parse import urlsplit

import httpx
import psutil

from runner.engine.relay import AskingStoppedError, Door, Relay, send
from seq.contract.acts import ConnectAnswer

CONNECT_LIMIT_S = 30.0
PAUSE_S, PAUSE_MAX_S, PAUSE_GROWS = 0.05, 1.0, 1.25
"""A fifth of the wait for a worker at most is lost between two looks at whether it is there."""
COMES_BACK_S = 15.0
"""For so long a copy on this machine that does not answer is waited for: it is being started again."""
_ENDED = (401, 403, 404, 410)


class NoWorkerError(Exception):
    """No worker answered for as long as may be waited."""


class Lines:
    """Thread-safe. `open` blocks until there is a line; the environment that gets it never sees a key or a secret."""

    def __init__(self, door: Door, stop: threading.Event) -> None:
        self._door = door
        self._stop = stop
        headers = {"Authorization": f"Bearer {door.token}"}
        self._client = httpx.Client(headers=headers, timeout=CONNECT_LIMIT_S, trust_env=False)

    def open(self, number: int) -> socket.socket:
        """A line for the environment of that number. Raises NoWorkerError, AskingStoppedError."""
        session = f"{number}.{uuid.uuid4().hex}"
        since, refused_since = time.monotonic(), None
        pause = PAUSE_S
        while True:
            answer, why = self._connect(session)
            if answer is not None:
                if answer.acts_socket is None or not _is_here(answer.worker_url):
                    return Relay(self._door, session, self._stop).start()
                try:
                    return _dialled(answer.acts_socket, answer.direct_secret)
                except OSError as refused:
                    why = f"its copy does not answer: {refused}"
                    refused_since = refused_since or time.monotonic()
                    if time.monotonic() - refused_since > COMES_BACK_S:
                        return Relay(self._door, session, self._stop).start()
            if time.monotonic() - since > self._door.limit_s:
                raise NoWorkerError(f"no worker answered for {self._door.limit_s:g} s: {why}")
            if self._stop.wait(pause):
                raise AskingStoppedError("the eval ended")
            pause = min(PAUSE_GROWS * pause, PAUSE_MAX_S)

    def close(self) -> None:
        """Close the connections to the gateway."""
        self._client.close()

    def _connect(self, session: str) -> tuple[ConnectAnswer | None, str]:
        """The worker and the copy for a session, or why there is none yet."""
        body = {"model": self._door.model, "session": session}
        try:
            answer = self._client.post(f"{self._door.gateway_url}/v1/act/connect", json=body)
        except httpx.TransportError as gone:
            return None, f"the gateway cannot be reached: {gone}"
        if answer.is_success:
            return ConnectAnswer.model_validate(answer.json()), ""
        if answer.status_code in _ENDED:
            raise AskingStoppedError(answer.text[:200])
        return None, answer.text[:200]


def _dialled(name: str, secret: str) -> socket.socket:
    """A line to the copy that listens under that name, to which we have said who we are. Raises OSError."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(f"\0{name}")
        send(line, secret.encode())
    except OSError:
        line.close()
        raise
    return line


def _is_here(worker_url: str) -> bool:
    """Whether a worker is on this machine: only then does its copy's socket exist here."""
    host = (urlsplit(worker_url).hostname or "").strip("[]")
    if host in ("127.0.0.1", "::1"):
        return True
    return any(address.address == host for found in psutil.net_if_addrs().values() for address in found)
