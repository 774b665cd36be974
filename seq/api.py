"""The control plane: one HTTP client to the gateway, and which gateway with which key.

The argument wins over the environment (SEQUENCES_API_KEY, SEQUENCES_BASE_URL), which wins over the local platform's
own files under SEQ_HOME. The local key goes only to the local address.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from typing_extensions import Self

from seq import local
from sequence_ai import DEFAULT_BASE_URL, AuthError, InvalidRequest, SequencesError, Unavailable, from_response
from sequence_ai._clock import Clock, SystemClock

Json = dict[str, Any]
Say = Callable[[str], None]
T = TypeVar("T")

TIMEOUT_S = 60.0
DOWNLOAD_TIMEOUT_S = 120.0
LOST_CONTACT_S = 300.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,127}")


@dataclass(frozen=True)
class Place:
    """A gateway's address without a trailing slash, and the key for it (None only where none is needed)."""

    base_url: str
    api_key: str | None = field(repr=False)

    @property
    def near(self) -> bool:
        """Whether it runs on this machine: then asking often costs nothing."""
        return httpx.URL(self.base_url).host in ("127.0.0.1", "localhost", "::1")


def resolve(
    api_key: str | None = None,
    base_url: str | None = None,
    *,
    key_needed: bool = True,
    environ: Mapping[str, str] | None = None,
    start: Callable[[Path], local.Platform] | None = None,
) -> Place:
    """Which platform to talk to. `start` starts the local one when it is meant and does not run; None: refuse instead.

    Raises AuthError when a key is needed and there is none, Unavailable when no platform is configured or running.
    """
    env = os.environ if environ is None else environ
    given = _clean(api_key or env.get("SEQUENCES_API_KEY"))
    address = (base_url or env.get("SEQUENCES_BASE_URL") or "").strip()
    if address:
        return _checked(address, given, key_needed, "set SEQUENCES_API_KEY to a key of that platform")
    root = local.home(env)
    found = local.recorded(root)
    if given is not None and found is None:
        return Place(DEFAULT_BASE_URL, given)
    if found is None or found.pid is None:
        if start is None:
            raise Unavailable(f"no platform runs in {root}", code="unavailable", hint="`seq up` starts one")
        found = start(root)
    return _checked(found.url, given or local.key(root), key_needed, "`seq down`, then `seq up` makes one")


def start_saying_so(root: Path) -> local.Platform:
    """Start the local platform, saying so in one line on stderr."""
    platform = local.start(on_line=_to_stderr, root=root)
    _to_stderr(f"no platform was running: started one at {platform.url} (`seq down` ends it)")
    return platform


def connect(
    api_key: str | None = None, base_url: str | None = None, *, key_needed: bool = True, may_start: bool = True
) -> Api:
    """An open client to the resolved platform; see `resolve`. With `may_start`, the local one is started if needed."""
    place = resolve(api_key, base_url, key_needed=key_needed, start=start_saying_so if may_start else None)
    return Api(place)


class Api:
    """One kept-open client. Every method raises the error class of `sequence_ai` that the answer's code names."""

    def __init__(
        self, place: Place, *, transport: httpx.BaseTransport | None = None, clock: Clock | None = None
    ) -> None:
        self.place = place
        self.clock: Clock = clock or SystemClock()
        headers = {"Authorization": f"Bearer {place.api_key}"} if place.api_key else {}
        self._client = httpx.Client(
            base_url=place.base_url,
            headers=headers,
            timeout=TIMEOUT_S,
            transport=transport,
            trust_env=not place.near,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **query: Any) -> Json:
        """The JSON object at `path`; query values that are None are left out."""
        return self._json("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any] | None = None, **query: Any) -> Json:
        """Post a JSON body (or none) and return the JSON answer."""
        return self._json("POST", path, body=body, query=query)

    def put(self, path: str, body: Mapping[str, Any]) -> Json:
        """Put a JSON body and return the JSON answer."""
        return self._json("PUT", path, body=body)

    def delete(self, path: str, **query: Any) -> Json:
        """Delete what is at `path`."""
        return self._json("DELETE", path, query=query)

    def download(self, path: str) -> bytes:
        """The raw bytes at `path`."""
        return self._send("GET", path, timeout=DOWNLOAD_TIMEOUT_S).content

    def patiently(self, call: Callable[[], T], say: Say, *, again: str) -> T:
        """`call`, repeated for 5 minutes while the platform cannot be reached.

        `say` gets a line before each wait; `again` tells how to wait again, for the error after the last one.
        """
        began, wait = self.clock.monotonic(), 1.0 if self.place.near else 5.0
        while True:
            answer = _reached(call)
            if not isinstance(answer, Unavailable):
                return answer
            gone_s = self.clock.monotonic() - began
            if gone_s + wait > LOST_CONTACT_S:
                raise Unavailable(
                    f"no contact with the platform for {gone_s:.0f} s ({answer.message}); the work goes on there",
                    code="unavailable",
                    retryable=True,
                    hint=again,
                ) from answer
            say(f"lost contact with the platform ({answer.message}); asking again in {wait:.0f} s")
            self.clock.sleep(wait)
            wait = min(wait * 2, 60.0)

    def _json(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> Json:
        answer = self._send(method, path, body=body, query=query)
        try:
            value = _parsed(answer) if answer.content else {}
        except (ValueError, RecursionError) as wrong:
            raise SequencesError(
                f"{method} {path} of {self.place.base_url} answered {answer.status_code} without JSON: "
                "is that address a platform's?",
                code="internal",
            ) from wrong
        return value if isinstance(value, dict) else {"data": value}

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        timeout: float = TIMEOUT_S,
    ) -> httpx.Response:
        params = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
        try:
            answer = self._client.request(method, path, json=body, params=params, timeout=timeout)
        except httpx.TimeoutException as late:
            raise Unavailable(
                f"{self.place.base_url} did not answer within {timeout:.0f} s", code="timeout", retryable=True
            ) from late
        except httpx.DecodingError as garbled:
            raise SequencesError(
                f"{method} {path} of {self.place.base_url} was answered with what cannot be read ({garbled})",
                code="internal",
            ) from garbled
        except httpx.TransportError as lost:
            raise Unavailable(
                f"no answer from {self.place.base_url} ({lost})",
                code="unavailable",
                retryable=True,
                hint="`seq status` says whether the platform of this machine runs" if self.place.near else None,
            ) from lost
        if answer.is_success:
            return answer
        raise from_response(answer.status_code, _body(answer), text=answer.text, headers=answer.headers)


def named(name: str) -> str:
    """`name` as one part of a path; raises InvalidRequest when no object could have that name."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is not a name: letters, digits and . _ : ~ - only, beginning with a letter or digit",
            code="invalid_request",
        )
    return name


class Pace:
    """How long to wait between two looks: a fixed interval, or short ones that grow on a near platform."""

    def __init__(self, api: Api, far_s: float, fixed_s: float | None = None) -> None:
        self._clock = api.clock
        self._next_s = fixed_s or (0.5 if api.place.near else far_s)
        self._last_s = fixed_s or max(min(far_s, 5.0), self._next_s)

    def wait(self, deadline: float) -> bool:
        """Wait until the next look; False, without waiting, once `deadline` (monotonic seconds) has passed."""
        left = deadline - self._clock.monotonic()
        if left <= 0:
            return False
        self._clock.sleep(min(self._next_s, left))
        self._next_s = min(self._next_s * 1.25, self._last_s)
        return True


def _reached(call: Callable[[], T]) -> T | Unavailable:
    try:
        return call()
    except Unavailable as lost:
        return lost


def _checked(address: str, key: str | None, key_needed: bool, remedy: str) -> Place:
    if address == "mock" or address.startswith("mock:"):
        raise InvalidRequest(
            f"the address {address!r} asks for an offline platform, which there is not: "
            "`seq up` starts a real one on this machine",
            code="invalid_request",
        )
    if not address.startswith(("http://", "https://")):
        raise InvalidRequest(f"the address {address!r} must begin with http:// or https://", code="invalid_request")
    if key is None and key_needed:
        raise AuthError(f"there is no API key for {address}: {remedy}", code="unauthenticated")
    return Place(address.rstrip("/"), key)


def _clean(key: str | None) -> str | None:
    text = (key or "").strip()
    if not text.isascii() or not text.isprintable():
        raise AuthError("the API key holds characters that no key has: copy it again", code="unauthenticated")
    return text or None


def _query_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(answer: httpx.Response) -> Any:
    """The body's value; raises ValueError on what is no JSON, and on half a surrogate pair, which no file can hold."""
    value = answer.json()
    if b"\\u" in answer.content:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _body(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return None


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  the one line that says a platform was started
