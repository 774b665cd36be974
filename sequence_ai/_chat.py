"""`chat`: a sentence in, a sentence or a tool call out, whole or piece by piece."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Callable, Literal, overload

from sequence_ai._asking import TIMEOUT_S, checked_timeout, gateway
from sequence_ai._catalogue import model_id
from sequence_ai._credentials import resolve
from sequence_ai._errors import InternalError, InvalidRequest, SequencesError, Unavailable
from sequence_ai._types import Model

_MOST_MESSAGES = 256
_PATH = "/v1/chat"
_EVENT = "data: "
_OURS = frozenset(("model", "messages", "max_tokens", "cache", "stream", "api_key", "base_url", "timeout_s"))


@dataclass(frozen=True)
class ChatResult:
    """One reply. `message` is it as the model sent it; `usage` counts tokens; `cost_usd` is what was billed for it.

    `finish_reason` is "stop", "length", "tool_calls" or another word of the provider's.
    """

    id: str
    model: str
    message: Mapping[str, Any]
    finish_reason: str
    usage: Mapping[str, Any] = field(default_factory=dict)
    perf: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = field(default_factory=list)
    cost_usd: float = 0.0
    logprobs: Mapping[str, Any] | None = None

    @property
    def content(self) -> Any:
        """The reply's text; None when the model called tools instead."""
        return self.message.get("content")

    @property
    def tool_calls(self) -> list[dict[str, Any]] | None:
        """The tools the model wants called, when `finish_reason` is "tool_calls"."""
        return self.message.get("tool_calls")

    @property
    def cached_tokens(self) -> int:
        """How many of the prompt's tokens came from the provider's cache."""
        return self.usage.get("cached_tokens") or 0

    @property
    def reasoning(self) -> str | None:
        """What the model thought, where it tells."""
        return self.message.get("reasoning")

    @property
    def reasoning_details(self) -> list[dict[str, Any]] | None:
        """The thoughts as the provider's own blocks, which it wants back in the next turn."""
        return self.message.get("reasoning_details")

    @property
    def reasoning_tokens(self) -> int:
        """How many tokens were thought; they are billed, and count against `max_tokens`."""
        return self.usage.get("reasoning_tokens") or 0


class ChatStream:
    """A reply as it is written: iterate its pieces of text, then read `.result`.

    Use it as a context manager, or `close` it, when it may be left before its end. While iterating, a break raises
    Unavailable, and what the provider rejects InvalidRequest; nothing is sent again.
    """

    def __init__(self, lines: Iterable[str], close: Callable[[], None]) -> None:
        self._close = close
        self._then: list[Callable[[ChatResult], None]] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._result: ChatResult | None = None
        self._pieces = self._read(lines)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The thoughts so far."""
        return "".join(self._reasoning)

    @property
    def result(self) -> ChatResult:
        """The whole reply. Raises SequencesError before the stream has come to its end."""
        if self._result is None:
            raise SequencesError("this stream has not come to its end: iterate it to the last piece first")
        return self._result

    def at_end(self, work: Callable[[ChatResult], None]) -> None:
        """Have `work` called with the whole reply when the stream comes to its end."""
        self._then.append(work)

    def close(self) -> None:
        """Stop reading; closing again does nothing."""
        self._pieces.close()
        self._close()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def __enter__(self) -> ChatStream:  # noqa: PYI034  typing.Self is not on 3.9, and nothing derives from this
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ChatStream({len(self.text)} characters{'' if self._result is None else ', ended'})"

    def _read(self, lines: Iterable[str]) -> Generator[str, None, None]:
        try:
            for event in _events(lines):
                if event.get("object") == "error":
                    raise _failure(event)
                if event.get("object") == "chat.response":
                    self._end(event)
                    return
                yield from self._piece(event.get("delta") or {})
        finally:
            self._close()
        raise Unavailable("the answer broke off before its end", code="unavailable", retryable=True)

    def _piece(self, delta: Mapping[str, Any]) -> Iterator[str]:
        if delta.get("reasoning"):
            self._reasoning.append(delta["reasoning"])
        if delta.get("content"):
            self._text.append(delta["content"])
            yield delta["content"]

    def _end(self, event: Mapping[str, Any]) -> None:
        self._result = result_of(event)
        for work in self._then:
            work(self._result)


@overload
def chat(
    model: str | Model, messages: Sequence[Mapping[str, Any]], *, stream: Literal[False] = ..., **parameters: Any
) -> ChatResult: ...


@overload
def chat(
    model: str | Model, messages: Sequence[Mapping[str, Any]], *, stream: Literal[True], **parameters: Any
) -> ChatStream: ...


def chat(  # type: ignore[misc]  # written out once: the overloads tell only what `stream` decides
    model: str | Model,
    messages: Sequence[Mapping[str, Any]],
    *,
    max_tokens: int = 1024,
    temperature: float | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    tool_choice: str | Mapping[str, Any] | None = None,
    response_format: Mapping[str, Any] | None = None,
    cache: bool = True,
    stream: bool = False,
    reasoning: Mapping[str, Any] | None = None,
    include_reasoning: bool | None = None,
    reasoning_effort: str | None = None,
    max_completion_tokens: int | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    top_a: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    repetition_penalty: float | None = None,
    logit_bias: Mapping[str, float] | None = None,
    logprobs: bool | None = None,
    top_logprobs: int | None = None,
    parallel_tool_calls: bool | None = None,
    verbosity: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    timeout_s: float | None = None,
) -> ChatResult | ChatStream:
    """Ask a chat model; with `stream=True`, read its reply as it is written.

    `messages` are of OpenAI's shape, 1 to 256 of them, pictures inline (`image`). Parameters that are None are not
    sent; which of them a model takes, its `supported_parameters` in `models()` say. `cache=False` keeps the prompt out
    of the provider's cache. `timeout_s` (30 s when None) is how long the platform may be silent. Not retried: a reply
    is billed when it was written, whether or not it arrived.

    Raises:
        InvalidRequest: the messages or the model cannot be right, or the provider rejected the request.
        Unavailable: the provider failed (502), or is limited or gave no answer (503); nothing is billed then.
    """
    given = locals()  # before any other name is bound here: exactly the arguments
    limit_s = checked_timeout(timeout_s, TIMEOUT_S)
    body: dict[str, Any] = {"messages": _checked(messages), "max_tokens": max_tokens}
    body.update({name: value for name, value in given.items() if name not in _OURS and value is not None})
    if not cache:
        body["cache"] = False
    if stream:
        return _streamed(model, body | {"stream": True}, api_key, base_url, limit_s)
    credentials = resolve(api_key, base_url)
    with gateway(credentials) as link:
        body["model"] = model_id(model, "chat", link, credentials, timeout_s=limit_s)
        return result_of(link.call("POST", _PATH, body=body, timeout_s=limit_s).body)


def _streamed(
    model: str | Model, body: dict[str, Any], api_key: str | None, base_url: str | None, limit_s: float
) -> ChatStream:
    credentials = resolve(api_key, base_url)
    with ExitStack() as stack:
        link = stack.enter_context(gateway(credentials))
        body["model"] = model_id(model, "chat", link, credentials, timeout_s=limit_s)
        lines = stack.enter_context(link.stream("POST", _PATH, body=body, timeout_s=limit_s))
        return ChatStream(lines, stack.pop_all().close)


def result_of(body: Mapping[str, Any]) -> ChatResult:
    """A reply as it crosses the wire. Raises InternalError when it has no message."""
    if not isinstance(body.get("message"), Mapping):
        raise InternalError("malformed /v1/chat response: it has no message", code="internal")
    return ChatResult(
        id=body.get("id") or "",
        model=body.get("model") or "",
        message=body["message"],
        finish_reason=body.get("finish_reason") or "",
        usage=body.get("usage") or {},
        perf=body.get("perf") or {},
        warnings=body.get("warnings") or [],
        cost_usd=body.get("cost_usd") or 0.0,
        logprobs=body.get("logprobs"),
    )


def _checked(messages: Any) -> list[Mapping[str, Any]]:
    if not isinstance(messages, (list, tuple)) or not all(isinstance(message, Mapping) for message in messages):
        raise InvalidRequest(
            'messages is a list of {"role": ..., "content": ...}, such as [{"role": "user", "content": "hello"}]',
            code="invalid_request",
        )
    if not 1 <= len(messages) <= _MOST_MESSAGES:
        raise InvalidRequest(f"{len(messages)} messages were given: send 1 to {_MOST_MESSAGES}", code="invalid_request")
    return list(messages)


def _events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The events up to the last one; lines that hold none (comments, blanks) are passed over."""
    for line in lines:
        if not line.startswith(_EVENT):
            continue
        text = line[len(_EVENT) :].strip()
        if text == "[DONE]":
            return
        try:
            event = json.loads(text)
        except ValueError as wrong:
            raise InternalError(f"malformed /v1/chat event: {wrong}", code="internal") from wrong
        if isinstance(event, dict):
            yield event


def _failure(event: Mapping[str, Any]) -> SequencesError:
    told = event.get("error") or {}
    status, message = told.get("status"), told.get("message") or "the provider failed while it was answering"
    if status == 400:
        return InvalidRequest(message, status=400, code="invalid_request", body=event)
    code = "upstream_error" if status == 502 else "unavailable"
    return Unavailable(message, status=status, code=code, retryable=True, body=event)
