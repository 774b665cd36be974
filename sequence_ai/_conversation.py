"""`Conversation`: chat with a memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from sequence_ai._chat import ChatResult, ChatStream, chat
from sequence_ai._errors import InvalidRequest
from sequence_ai._types import Model

Content = Optional[Union[str, Sequence[Mapping[str, Any]]]]

_FIXED = ("model", "messages", "stream")


class Conversation:
    """A chat whose turns are kept and sent along, reasoning and tool calls included.

    Arguments are `chat`'s, of every turn; those given to a single turn replace them there. A turn enters the history
    when its reply is whole: one that failed, or a stream left before its end, leaves nothing behind.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        system: Content = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        response_format: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        temperature: float | None = None,
        cache: bool = True,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.model = model
        self._settings: dict[str, Any] = {
            "tools": tools,
            "tool_choice": tool_choice,
            "response_format": response_format,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "cache": cache,
            "api_key": api_key,
            "base_url": base_url,
            "timeout_s": timeout_s,
        }
        self._messages: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
        self._replies: list[ChatResult] = []
        self._changes = 0

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history so far, the system message first; a copy."""
        return [dict(message) for message in self._messages]

    @property
    def turns(self) -> int:
        """How many replies there were."""
        return len(self._replies)

    @property
    def cost_usd(self) -> float:
        """What all replies cost together."""
        return sum(reply.cost_usd for reply in self._replies)

    @property
    def cached_tokens(self) -> int:
        """How many prompt tokens came from the provider's cache, over all turns."""
        return sum(reply.cached_tokens for reply in self._replies)

    def send(self, content: Content = None, **overrides: Any) -> ChatResult:
        """Say `content` (text or blocks) and wait for the reply; without it, go on from the tools' results.

        Raises what `chat` raises, and InvalidRequest when there is nothing to answer.
        """
        said = self._said(content, overrides)
        result: ChatResult = chat(self.model, [*self._messages, *said], **self._for_this_turn(overrides))
        self._record(said, result)
        return result

    def stream(self, content: Content = None, **overrides: Any) -> ChatStream:
        """`send`, its reply read as it is written.

        Its turn enters the history at the stream's end, unless the conversation went on without it meanwhile.
        """
        said = self._said(content, overrides)
        begun = self._changes

        def record(result: ChatResult) -> None:
            if begun == self._changes:
                self._record(said, result)

        stream: ChatStream = chat(self.model, [*self._messages, *said], stream=True, **self._for_this_turn(overrides))
        stream.at_end(record)
        return stream

    def tool_result(self, tool_call_id: str, content: Any) -> None:
        """Add what a tool that the model called returned; anything but text is written as JSON. Nothing is sent."""
        if not isinstance(content, str):
            try:
                content = json.dumps(content, allow_nan=False)
            except (TypeError, ValueError) as wrong:
                raise InvalidRequest(f"this tool's result is not JSON: {wrong}", code="invalid_request") from wrong
        self._changes += 1
        self._messages.append({"role": "tool", "tool_call_id": tool_call_id, "content": content})

    def __repr__(self) -> str:
        return f"Conversation({str(getattr(self.model, 'id', self.model))!r}, {self.turns} turns)"

    def _said(self, content: Content, overrides: Mapping[str, Any]) -> list[dict[str, Any]]:
        fixed = sorted(set(overrides) & set(_FIXED))
        if fixed:
            raise InvalidRequest(
                f"{fixed} cannot be given to a turn: the conversation fills them in, and .stream() streams",
                code="invalid_request",
            )
        if content is None and not (self._messages and self._messages[-1]["role"] == "tool"):
            raise InvalidRequest(
                "there is nothing to answer: give content, or add a tool's result first", code="invalid_request"
            )
        self._changes += 1
        return [] if content is None else [{"role": "user", "content": content}]

    def _for_this_turn(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._settings, **overrides}

    def _record(self, said: list[dict[str, Any]], result: ChatResult) -> None:
        reply = {"role": "assistant", **{key: value for key, value in result.message.items() if value is not None}}
        self._messages += [*said, reply]
        self._replies.append(result)
