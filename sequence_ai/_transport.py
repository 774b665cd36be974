"""One kept-open HTTP connection to one server, and the check that a worker is the one the gateway named."""

from __future__ import annotations

import errno
import functools
import hashlib
import hmac
import random
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Optional
from urllib.parse import urlsplit

import httpx

from sequence_ai import _wire
from sequence_ai._clock import Clock, SystemClock
from sequence_ai._codec import CONTENT_TYPES, JSON, MSGPACK
from sequence_ai._errors import CertPinError, InternalError, InvalidRequest, SequencesError, Unreachable, from_response
from sequence_ai._version import __version__

# A server of ours keeps idle connections for longer than this, so the client is the one that lets go. Their number in
# use is not bounded: an act that nobody waits for any more keeps its own until it ends.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=300.0)
_CONNECT_TIMEOUT_S = 10.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_REQUEST_ID = "X-Seq-Request-Id"
_URLS_KEPT = 32
_SHOWN = 300
# A peer that vanished without a word is noticed between two acts, and what lies between keeps the way open.
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]

TransportFactory = Callable[[Optional[str]], Optional[httpx.BaseTransport]]
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answer:
    """A success: the parsed body and the headers."""

    body: dict[str, Any]
    headers: Mapping[str, str]


class LinkClosedError(SequencesError):
    """The link was closed before the call began."""


class Link:
    """One server, one bearer, one encoding, one pool of kept-open connections. Used from any thread.

    Requests go straight to the transport: what httpx.Client adds to each (cookies, redirects, merged headers) is of no
    use here, and costs a robot time at every act. Without a transport it is httpx.Client's own, which knows proxies.
    """

    def __init__(
        self, base_url: str, bearer: str | None, transport: httpx.BaseTransport | None, encoding: str = JSON
    ) -> None:
        self.base_url = base_url
        self.encoding = encoding
        self._head = _head(bearer)
        self._urls: dict[str, httpx.URL] = {}
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False
        try:
            self._local = urlsplit(base_url).hostname in _LOOPBACK
            self._url("/")
            self._send, self._close = _way(transport, base_url, self._local)
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
        request_id: str | None = None,
    ) -> Answer:
        """One request. Raises Unreachable when no answer came, else the error that the answer names.

        An answer to another `request_id` is somebody else's, late or sent twice: its connection is closed, and this
        request counts as unanswered.
        """
        request = self._request(method, path, timeout_s, body, query, headers, request_id)
        with self._in_use(), self._errors_told(path, timeout_s):
            response = self._send(request)
            try:
                self._check_echo(response, request_id)
                response.read()
            finally:
                response.close()
        return _read(response, self.base_url + path)

    @contextmanager
    def stream(
        self, method: str, path: str, *, timeout_s: float, body: Any = None, query: Mapping[str, str] | None = None
    ) -> Iterator[Iterator[str]]:
        """The lines of one answer as they arrive, ends kept; nothing comes more than `timeout_s` after what was before.

        A refusal is raised before the first line, a connection that breaks (Unreachable) where it breaks.
        """
        request = self._request(method, path, timeout_s, body, query, None, None)
        with self._in_use():
            with self._errors_told(path, timeout_s):
                response = self._send(request)
            try:
                if response.status_code >= 300:
                    with self._errors_told(path, timeout_s):
                        response.read()
                    _read(response, self.base_url + path)
                yield self._lines(response, path, timeout_s)
            finally:
                response.close()

    def resend_if_dropped(self, method: str, path: str, **request: Any) -> Answer:
        """`call` for what may safely be sent twice: a kept connection that the server had closed costs nothing."""
        try:
            return self.call(method, path, **request)
        except Unreachable as error:
            if not error.dropped:
                raise
            return self.call(method, path, **request)

    def close(self) -> None:
        """Begin no more calls; the connections close once those under way have ended.

        Closed under a thread that reads, a descriptor may be another connection's by the time the thread wakes.
        """
        with self._lock:
            idle = not (self._closed or self._users)
            self._closed = True
        if idle:
            self._close()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise LinkClosedError(f"the connection to {self.base_url} is closed: connect again")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                last = self._is_left()
            if last:
                self._close()

    def _is_left(self) -> bool:
        return self._closed and not self._users

    def _request(
        self,
        method: str,
        path: str,
        timeout_s: float,
        body: Any,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        request_id: str | None,
    ) -> httpx.Request:
        head = [*self._head, (b"Content-Type", CONTENT_TYPES[self.encoding].encode())]
        if request_id is not None:
            head.append((_REQUEST_ID.encode(), request_id.encode()))
        if headers:
            head += [(name.encode(), value.encode()) for name, value in headers.items()]
        content = None if body is None else _wire.dumps(body, self.encoding)
        connect_s = min(timeout_s, _CONNECT_TIMEOUT_S)
        timeout = {"connect": connect_s, "read": timeout_s, "write": timeout_s, "pool": timeout_s}
        return httpx.Request(
            method, self._url(path), params=query, headers=head, content=content, extensions={"timeout": timeout}
        )

    def _url(self, path: str) -> httpx.URL:
        known = self._urls.get(path)
        if known is None:
            known = httpx.URL(self.base_url.rstrip("/") + path)
            if len(self._urls) < _URLS_KEPT:
                self._urls[path] = known
        return known

    def _check_echo(self, response: httpx.Response, request_id: str | None) -> None:
        """Raise for another request's answer. Its body is left unread, so its connection is never used again."""
        echoed = response.headers.get(_REQUEST_ID, request_id)
        if request_id is not None and echoed != request_id:
            raise Unreachable(
                f"{self.base_url} answered request {echoed} where {request_id} was asked: a late or repeated answer",
                dropped=True,
                code="unavailable",
            )

    def _lines(self, response: httpx.Response, path: str, timeout_s: float) -> Iterator[str]:
        # Only a newline ends a line here: `iter_lines` also splits at characters that stand raw inside JSON text.
        rest = b""
        with self._errors_told(path, timeout_s):
            for piece in response.iter_bytes():
                *whole, rest = (rest + piece).split(b"\n")
                yield from (line.decode("utf-8", "replace") + "\n" for line in whole)
        if rest:
            yield rest.decode("utf-8", "replace")

    @contextmanager
    def _errors_told(self, path: str, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as late:
            raise Unreachable(
                f"request timed out: {self.base_url}{path} gave no answer within {timeout_s:g} s", code="timeout"
            ) from late
        except httpx.RequestError as broken:
            raise self._unreachable(broken) from broken

    def _unreachable(self, broken: httpx.RequestError) -> Unreachable:
        refused = isinstance(broken, (httpx.ConnectError, httpx.UnsupportedProtocol))
        return Unreachable(
            f"{self.base_url} is not reachable: {str(broken) or type(broken).__name__}",
            dropped=not refused,
            code="unavailable",
            hint="`seq status` says what runs on this machine, `seq up` starts a platform" if self._local else None,
        )


def _head(bearer: str | None) -> Headers:
    """The headers of every request; an answer as short as an act's is not worth compressing."""
    agent = f"sequence-ai-python/{__version__}".encode()
    head = [(b"User-Agent", agent), (b"Accept", b"*/*")]
    return head if bearer is None else [*head, (b"Authorization", f"Bearer {bearer}".encode())]


def _way(
    transport: httpx.BaseTransport | None, base_url: str, local: bool
) -> tuple[Callable[[httpx.Request], httpx.Response], Callable[[], None]]:
    """How a request is sent there, and how all connections are closed."""
    if transport is not None:
        return transport.handle_request, transport.close
    # Reading the machine's authorities takes longer than a whole act, and plain http uses none of them.
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if local and base_url.startswith("http:") else True
    # A proxy is for reaching the outside; the machine itself is never behind it.
    client = httpx.Client(limits=_LIMITS, trust_env=not local, verify=verify)
    return functools.partial(client.send, stream=True), client.close


def transport_to(fingerprint: str | None) -> httpx.BaseTransport | None:
    """The real way to a server: ordinary for the gateway (no fingerprint), pinned for a worker."""
    if fingerprint is None:
        return None
    context = _PinnedContext.to(_normal(fingerprint))
    return httpx.HTTPTransport(verify=context, trust_env=False, limits=_LIMITS, socket_options=_KEEP_ALIVE)


@dataclass(frozen=True)
class Edge:
    """What the client takes from outside: the way to servers, the time, and chance."""

    transport: TransportFactory = transport_to
    clock: Clock = field(default_factory=SystemClock)
    chance: random.Random = field(default_factory=random.SystemRandom)

    def open(self, url: str, bearer: str | None, fingerprint: str | None = None, encoding: str = JSON) -> Link:
        """A link to the gateway, or with a fingerprint to a worker; no traffic yet."""
        return Link(url, bearer, self.transport(fingerprint), encoding)

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


class _Connected(ssl.SSLSocket):
    """A socket with a peer. From one whose peer is gone already, ssl makes an unconnected one or leaves it unclosed."""

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError as gone:
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, "the peer is gone") from gone


class _PinnedContext(ssl.SSLContext):
    """Accepts exactly one certificate, checked after each handshake and before a byte of a request is sent."""

    pin: str
    sslsocket_class = _Connected

    @classmethod
    def to(cls, pin: str) -> _PinnedContext:
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.pin = pin
        return context

    def wrap_socket(self, sock: socket.socket, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        connection = super().wrap_socket(sock, *args, **kwargs)
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: ssl.SSLSocket) -> None:
        leaf = connection.getpeercert(binary_form=True) or b""  # OSError: the peer was gone before the handshake
        presented = hashlib.sha256(leaf).hexdigest()
        if not hmac.compare_digest(presented, self.pin):
            raise CertPinError(
                f"the worker's certificate is {presented}, and the gateway named {self.pin}: nothing was sent to it",
                hint="something answers in the worker's place; if you redeployed it yourself, connect again",
            )


def _normal(fingerprint: str) -> str:
    pin = re.sub(r"[:\s]", "", fingerprint).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", pin):
        raise CertPinError(
            f"the gateway named {fingerprint!r} as the worker's certificate, which is no SHA-256 fingerprint (64 hex "
            "digits): not connecting without one"
        )
    return pin


def _read(response: httpx.Response, url: str) -> Answer:
    body = _parsed(response)
    if response.status_code >= 300:
        raise from_response(response.status_code, body, text=_text(response), headers=response.headers)
    if not isinstance(body, dict):
        raise InternalError(
            f"{url} answered {response.status_code} without a JSON object: {_text(response) or 'nothing'}",
            status=response.status_code,
            code="internal",
        )
    return Answer(body, response.headers)


def _parsed(response: httpx.Response) -> Any:
    kind = response.headers.get("content-type", CONTENT_TYPES[JSON])
    try:
        return _wire.loads(response.content, kind)
    except (ValueError, RecursionError):  # no JSON: a proxy's page, say; the status and the text are told instead
        return None
    except ImportError as missing:
        raise SequencesError(
            f"the answer cannot be read without {missing.name} (pip install {missing.name})"
        ) from missing


def _text(response: httpx.Response) -> str:
    """What may be shown of an answer that is not ours: a web page or bytes say nothing to a person in a terminal."""
    kind = response.headers.get("content-type", "")
    if "html" in kind or kind.startswith(CONTENT_TYPES[MSGPACK]):
        return ""
    # Not `response.text`: the charset that an answer claims may be none, or no charset of a text.
    return response.content[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
