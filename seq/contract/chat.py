"""Models that the platform serves itself: what a chat and a decide call send."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from seq.contract._model import Lenient

Criteria = dict[str, Any]


class ChatRequest(Lenient):
    """`POST /v1/chat`. The model's own parameters are passed on to it, not modelled."""

    model: str = Field(min_length=1, max_length=256)
    messages: list[dict[str, Any]] = Field(min_length=1, max_length=256)
    max_tokens: int = Field(default=1024, ge=1)
    stream: bool = False


class NoulQuestion(Lenient):
    """Whether something is true."""

    type: Literal["noul"]
    instructions: str = Field(min_length=1)
    criteria: Criteria | None = None


class ChoiceQuestion(Lenient):
    """One of several options, each with its description."""

    type: Literal["choice"]
    instructions: str = Field(min_length=1)
    criteria: Criteria = Field(min_length=1)


class ScoreQuestion(Lenient):
    """A place on an ordered scale of labels."""

    type: Literal["score"]
    instructions: str = Field(min_length=1)
    criteria: list[Any] = Field(min_length=1)


Question = Annotated[NoulQuestion | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")]


class DecideRequest(Lenient):
    """`POST /v1/decide`."""

    model: str = Field(min_length=1, max_length=256)
    state: Any
    questions: dict[str, Question] = Field(min_length=1)
