"""How the gateway itself reaches a worker: pinned TLS, the worker's secret, a limit on every call."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
from pydantic import ValidationError

from runner.store.tables import Worker
from runner.vault import Vault
from seq.contract.errors import ErrorBody
from seq.contract.internal import WorkerPing

PING_LIMIT_S = 5.0


@dataclass(frozen=True)
class Address:
    """Where a worker is, what it is asked with, and the one certificate (PEM) it may show."""

    url: str
    secret: str
    cert_pem: str


def address_of(row: Worker, vault: Vault) -> Address:
    """The address of a ready worker's row; raises ValueError on a row that never was ready."""
    if row.url is None or row.secret is None or row.tls_cert is None:
        raise ValueError(f"{row.id} has no address: it is {row.state}")
    return Address(row.url, vault.decrypt(row.secret), row.tls_cert)


class DoorError(Exception):
    """The worker refused or failed: its own words, and the policy's traceback where it sent one.

    `unreachable` tells a worker that could not be talked to from one that answered.
    """

    def __init__(self, message: str, *, traceback: str | None = None, unreachable: bool = False) -> None:
        super().__init__(message)
        self.traceback = traceback
        self.unreachable = unreachable


class Door(Protocol):
    """What the fleet asks of a worker; both raise DoorError."""

    def act(self, address: Address, body: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """One `POST /act`; the answer's body."""

    def ping(self, address: Address) -> WorkerPing:
        """What the worker counts."""


class PinnedDoor:
    """The real door."""

    def act(self, address: Address, body: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """One `POST /act`; the answer's body."""
        answer = self._ask(address, "POST", "/act", limit_s, body)
        if not isinstance(answer, dict):
            raise DoorError("the worker's answer is not an object")
        return answer

    def ping(self, address: Address) -> WorkerPing:
        """What the worker counts."""
        try:
            return WorkerPing.model_validate(self._ask(address, "GET", "/ping", PING_LIMIT_S))
        except ValidationError as error:
            raise DoorError(f"the worker's ping is malformed: {error}") from None

    def _ask(self, address: Address, method: str, path: str, limit_s: float, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {address.secret}"}
        try:
            # trust_env off: a proxy of the platform's user must not come between the gateway and its worker
            with httpx.Client(verify=_pinned(address.cert_pem), trust_env=False, timeout=limit_s) as client:
                answer = client.request(method, address.url.rstrip("/") + path, headers=headers, json=body)
        except httpx.TimeoutException:
            raise DoorError(f"the worker did not answer within {limit_s:g} s") from None
        except httpx.TransportError as error:
            raise DoorError(f"the worker could not be reached: {error}", unreachable=True) from None
        if not answer.is_success:
            raise _refusal(answer)
        try:
            return answer.json()
        except ValueError:
            raise DoorError("the worker's answer is not JSON") from None


def _pinned(cert_pem: str) -> ssl.SSLContext:
    """A context that trusts this one certificate and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=cert_pem)
    return context


def _refusal(answer: httpx.Response) -> DoorError:
    try:
        body = ErrorBody.model_validate_json(answer.content)
    except ValidationError:
        return DoorError(f"the worker answered HTTP {answer.status_code}")
    exception = body.details.get("exception")
    if isinstance(exception, dict) and exception.get("type"):
        return DoorError(f"{exception['type']}: {exception.get('message', '')}", traceback=exception.get("traceback"))
    return DoorError(body.detail)
