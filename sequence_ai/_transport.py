"""One kept-open HTTP connection to one server, and the check that a worker is the one the gateway named."""

from __future__ import annotations

import hashlib
import hmac
import random
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Optional
from urllib.parse import urlsplit

import httpx

from sequence_ai import _wire
from sequence_ai._clock import Clock, SystemClock
from sequence_ai._errors import CertPinError, InternalError, InvalidRequest, SequencesError, Unreachable, from_response
from sequence_ai._version import __version__

# A server of ours keeps idle connections for longer than this, so the client is the one that lets go.
_LIMITS = httpx.Limits(max_connections=4, max_keepalive_connections=4, keepalive_expiry=300.0)
_CONNECT_TIMEOUT_S = 10.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

TransportFactory = Callable[[Optional[str]], Optional[httpx.BaseTransport]]


@dataclass(frozen=True)
class Answer:
    """A success: the parsed body and the headers."""

    body: dict[str, Any]
    headers: Mapping[str, str]


class Link:
    """One server, one bearer, one pool of kept-open connections. Used from any thread."""

    def __init__(self, base_url: str, bearer: str | None, transport: httpx.BaseTransport | None) -> None:
        self.base_url = base_url
        headers = {"Content-Type": "application/json", "User-Agent": f"sequence-ai-python/{__version__}"}
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        self._local = urlsplit(base_url).hostname in _LOOPBACK
        try:
            self._http = httpx.Client(
                base_url=base_url,
                headers=headers,
                transport=transport,
                limits=_LIMITS,
                # A proxy is for reaching the outside; the machine itself is never behind it.
                trust_env=transport is None and not self._local,
                # Reading the machine's authorities takes longer than a whole act, and plain http uses none of them.
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                if self._local and base_url.startswith("http:")
                else True,
            )
        except (httpx.InvalidURL, ValueError) as wrong:
            raise InvalidRequest(f"{base_url!r} is not an address: {wrong}") from wrong

    def call(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request. Raises Unreachable when no answer came, else the error that the answer names."""
        if self._http.is_closed:
            raise SequencesError(f"the connection to {self.base_url} is closed: connect again")
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S))
        content = None if body is None else _wire.dumps(body)
        try:
            response = self._http.request(method, path, content=content, params=query, headers=headers, timeout=timeout)
        except httpx.TimeoutException as late:
            raise Unreachable(
                f"request timed out: {self.base_url}{path} gave no answer within {timeout_s:g} s", code="timeout"
            ) from late
        except httpx.RequestError as broken:
            raise self._unreachable(broken) from broken
        return _read(response)

    def _unreachable(self, broken: httpx.RequestError) -> Unreachable:
        refused = isinstance(broken, (httpx.ConnectError, httpx.UnsupportedProtocol))
        return Unreachable(
            f"{self.base_url} is not reachable: {str(broken) or type(broken).__name__}",
            dropped=not refused,
            code="unavailable",
            hint="`seq status` says what runs on this machine, `seq up` starts a platform" if self._local else None,
        )

    def resend_if_dropped(self, method: str, path: str, **request: Any) -> Answer:
        """`call` for what may safely be sent twice: a kept connection that the server had closed costs nothing."""
        try:
            return self.call(method, path, **request)
        except Unreachable as error:
            if not error.dropped:
                raise
            return self.call(method, path, **request)

    def close(self) -> None:
        """Close every connection."""
        self._http.close()


def transport_to(fingerprint: str | None) -> httpx.BaseTransport | None:
    """The real way to a server: ordinary for the gateway (no fingerprint), pinned for a worker."""
    if fingerprint is None:
        return None
    return httpx.HTTPTransport(verify=_PinnedContext.to(_normal(fingerprint)), trust_env=False, limits=_LIMITS)


@dataclass(frozen=True)
class Edge:
    """What the client takes from outside: the way to servers, the time, and chance."""

    transport: TransportFactory = transport_to
    clock: Clock = field(default_factory=SystemClock)
    chance: random.Random = field(default_factory=random.SystemRandom)

    def open(self, url: str, bearer: str | None, fingerprint: str | None = None) -> Link:
        """A link to the gateway, or with a fingerprint to a worker; no traffic yet."""
        return Link(url, bearer, self.transport(fingerprint))

    def new_id(self, bits: int) -> str:
        """A random id in lowercase hex."""
        return f"{self.chance.getrandbits(bits):0{bits // 4}x}"


_edges = [Edge()]


def current_edge() -> Edge:
    """The real edge, unless a test put another in its place."""
    return _edges[-1]


@contextmanager
def edge_in_place(edge: Edge) -> Iterator[None]:
    """`edge` in place of the real one, in every thread, until the block ends."""
    _edges.append(edge)
    try:
        yield
    finally:
        _edges.remove(edge)


class _PinnedContext(ssl.SSLContext):
    """Accepts exactly one certificate, checked after each handshake and before a byte of a request is sent."""

    pin: str

    @classmethod
    def to(cls, pin: str) -> _PinnedContext:
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.pin = pin
        return context

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        connection = super().wrap_socket(*args, **kwargs)
        leaf = connection.getpeercert(binary_form=True) or b""
        presented = hashlib.sha256(leaf).hexdigest()
        if not hmac.compare_digest(presented, self.pin):
            connection.close()
            raise CertPinError(
                f"the worker's certificate is {presented}, and the gateway named {self.pin}: nothing was sent to it",
                hint="something answers in the worker's place; if you redeployed it yourself, connect again",
            )
        return connection


def _normal(fingerprint: str) -> str:
    pin = re.sub(r"[:\s]", "", fingerprint).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", pin):
        raise CertPinError(
            f"the gateway named {fingerprint!r} as the worker's certificate, which is no SHA-256 fingerprint (64 hex "
            "digits): not connecting without one"
        )
    return pin


def _read(response: httpx.Response) -> Answer:
    body = _parsed(response)
    if response.status_code >= 300:
        raise from_response(response.status_code, body, text=_text(response), headers=response.headers)
    if not isinstance(body, dict):
        raise InternalError(
            f"{response.request.url} answered {response.status_code} without a JSON object: "
            f"{_text(response) or 'nothing'}",
            status=response.status_code,
            code="internal",
        )
    return Answer(body, response.headers)


def _parsed(response: httpx.Response) -> Any:
    try:
        return _wire.loads(response.content)
    except ValueError:  # not JSON: a proxy's page, say; the status and the text are told instead
        return None
    except ImportError as missing:
        raise SequencesError("the answer holds an array: reading it needs numpy (pip install numpy)") from missing


def _text(response: httpx.Response) -> str:
    """What may be shown of an answer that is not ours: a web page says nothing to a person in a terminal."""
    kind = response.headers.get("content-type", "")
    return "" if "html" in kind else response.text[:300]
