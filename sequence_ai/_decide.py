"""`decide`: typed questions about a state, answered with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sequence_ai._asking import TIMEOUT_S, checked_timeout, gateway
from sequence_ai._catalogue import model_id
from sequence_ai._credentials import resolve
from sequence_ai._errors import InternalError, InvalidRequest
from sequence_ai._types import Model

_TYPES = ("noul", "choice", "score")
_NOUL_KEYS = ("true", "false")


@dataclass(frozen=True)
class DecideResult:
    """The answers by the questions' keys; what each holds, `decide` says. `usage` is what was billed, in tokens."""

    id: str
    model: str
    answers: Mapping[str, Any]
    usage: Mapping[str, Any] = field(default_factory=dict)
    perf: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = field(default_factory=list)
    provider: str | None = None
    cost_usd: float = 0.0


def decide(
    model: str | Model,
    state: Any,
    questions: Mapping[str, Mapping[str, Any]],
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    timeout_s: float | None = None,
) -> DecideResult:
    """Ask a decide model about a state.

    `state` is any JSON value. `questions` maps a key of yours to `{"type", "instructions", "criteria"}`:

    - `noul`, whether something is true. `criteria` may be `{"true": when, "false": when}`.
      Answer: `{"type", "noul": probability}`.
    - `choice`, one of several. `criteria` is `{option: description}`, one at least.
      Answer: `choice`, `probabilities`, `confidence`.
    - `score`, a place on a scale. `criteria` is the ordered list of labels, one at least.
      Answer: `score`, `legend`, `probabilities`, `confidence`.

    Not retried. `timeout_s` is 30 s when it is None.

    Raises:
        InvalidRequest: a question cannot be right, the model is of another endpoint, or the provider rejected it.
        Unavailable: the provider failed, or gave no answer in time.
    """
    limit_s = checked_timeout(timeout_s, TIMEOUT_S)
    asked = _checked(questions)
    credentials = resolve(api_key, base_url)
    with gateway(credentials) as link:
        name = model_id(model, "decide", link, credentials, timeout_s=limit_s)
        body = {"model": name, "state": state, "questions": asked}
        return _result(link.call("POST", "/v1/decide", body=body, timeout_s=limit_s).body)


def _result(body: Mapping[str, Any]) -> DecideResult:
    if not isinstance(body.get("answers"), Mapping):
        raise InternalError("malformed /v1/decide response: it has no answers", code="internal")
    return DecideResult(
        id=body.get("id") or "",
        model=body.get("model") or "",
        answers=body["answers"],
        usage=body.get("usage") or {},
        perf=body.get("perf") or {},
        warnings=body.get("warnings") or [],
        provider=body.get("provider"),
        cost_usd=body.get("cost_usd") or 0.0,
    )


def _checked(questions: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(questions, Mapping) or not questions:
        raise InvalidRequest(
            'there are no questions: give {"key": {"type": "noul", "instructions": "..."}}, one at least',
            code="invalid_request",
        )
    return {key: _question(key, question) for key, question in questions.items()}


def _question(key: Any, question: Any) -> dict[str, Any]:
    if not isinstance(key, str) or not isinstance(question, Mapping):
        raise _wrong(key, 'is {"type", "instructions", "criteria"} under a key that is text')
    kind, criteria = question.get("type"), question.get("criteria")
    if kind not in _TYPES:
        raise _wrong(key, f"has the type {kind!r}: give one of {list(_TYPES)}")
    if not isinstance(question.get("instructions"), str) or not question["instructions"].strip():
        raise _wrong(key, "needs instructions: a sentence that says what is asked")
    if kind == "choice" and not (isinstance(criteria, Mapping) and criteria):
        raise _wrong(key, "is a choice: criteria is {option: description}, one option at least")
    if kind == "score" and not (isinstance(criteria, (list, tuple)) and criteria):
        raise _wrong(key, "is a score: criteria is the ordered list of labels, one at least")
    two_sided = isinstance(criteria, Mapping) and set(criteria) <= set(_NOUL_KEYS)
    if kind == "noul" and not (criteria is None or two_sided):
        raise _wrong(key, 'is a noul: criteria is {"true": when, "false": when}, or left out')
    return {name: value for name, value in question.items() if value is not None}


def _wrong(key: Any, what: str) -> InvalidRequest:
    return InvalidRequest(f"question {key!r} {what}", code="invalid_request")
