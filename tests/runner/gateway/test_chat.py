"""Chat and decide on a platform that serves no model: the request is looked at, then the truth is told."""

from __future__ import annotations

import pytest

from runner.store.queries import accounts
from runner.testing import account_of, first_key

CHAT = {"model": "accounts/s/models/brain", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 9}
DECIDE = {
    "model": "judge",
    "state": None,
    "questions": {
        "a": {"type": "noul", "instructions": "is it?"},
        "b": {"type": "choice", "instructions": "which?", "criteria": {"x": "an x"}},
        "c": {"type": "score", "instructions": "how much?", "criteria": ["low", "high"]},
    },
}


@pytest.mark.parametrize("stream", [False, True])
def test_no_model_chats(client, stream):
    """A right request is `not_found`, names the model asked for and that there are none, and says what to do."""
    answer = client.post("/v1/chat", json=CHAT | {"stream": stream, "temperature": 0.5})
    told = answer.json()
    assert (answer.status_code, told["code"], told["retryable"]) == (404, "not_found", False)
    assert "accounts/s/models/brain" in told["detail"]
    assert "models: none" in told["hint"]
    assert answer.headers["content-type"] == "application/json"


def test_no_model_decides(client):
    """The same for a decide request with every type of question."""
    answer = client.post("/v1/decide", json=DECIDE)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "decide model" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{}] * 257}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"model": ""}, "model"),
    ],
)
def test_a_chat_that_cannot_be_right_is_refused_first(client, change, named):
    """What would be refused by a platform with models is refused here, by name."""
    answer = client.post("/v1/chat", json=CHAT | change)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert named in answer.json()["detail"]


@pytest.mark.parametrize(
    "questions",
    [
        {},
        {"a": {"type": "bool", "instructions": "x"}},
        {"a": {"type": "noul", "instructions": ""}},
        {"a": {"type": "choice", "instructions": "x", "criteria": {}}},
        {"a": {"type": "score", "instructions": "x"}},
    ],
)
def test_a_question_that_cannot_be_right_is_refused_first(client, questions):
    """No questions, an unknown type, and criteria that do not fit the type."""
    answer = client.post("/v1/decide", json=DECIDE | {"questions": questions})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert "questions" in answer.json()["detail"]


def test_an_act_key_may_call_no_model(ctx, connect, things):
    """Its deployment declares no models, so any model is `forbidden`."""
    key = accounts.KEY_PREFIX + "of-the-arm"
    with ctx.store.write() as session:
        new = accounts.NewKey("k", key, "robot", "act", "d")
        accounts.add_key(session, account_of(ctx, first_key()), new, 1.0)
    for path, body in (("/v1/chat", CHAT), ("/v1/decide", DECIDE)):
        answer = connect(key).post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert "models=" in answer.json()["detail"]
