"""Answers that are no success: one shape, one request id, nothing leaked."""

from __future__ import annotations

import json
import re

import pytest
from fastapi import APIRouter
from structlog.testing import capture_logs

from runner.errors import Refused, no_such
from runner.gateway.app import create_app
from runner.gateway.deps import ActCaller
from runner.testing import first_key, in_process
from seq.contract.errors import CODES
from seq.contract.keys import KeyRequest


@pytest.fixture
def failing(ctx):
    """A gateway with routes that refuse, fail and read."""
    router = APIRouter()

    @router.get("/refuse/{code}")
    def refuse(code: str) -> None:
        raise Refused(code, "no", hint="do", retry_after_s=2.5, reason="why")

    @router.get("/fail")
    def fail(_caller: ActCaller) -> None:
        raise RuntimeError("the secret is 42")

    @router.post("/read")
    def read(body: KeyRequest) -> None: ...

    app = create_app(ctx, ())
    app.include_router(router)
    return in_process(app, first_key())


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_refusal_has_the_wires_shape(failing, code):
    """Every code answers with its status, whether to retry, when, the hint, the details and the request id."""
    answer = failing.get(f"/refuse/{code}")
    request_id = answer.headers["X-Seq-Request-Id"]
    assert re.fullmatch(r"r-[0-9a-f]{8}", request_id)
    assert answer.status_code == CODES[code].status
    assert answer.headers["Retry-After"] == "2.5"
    assert answer.json() == {
        "detail": "no",
        "code": code,
        "retryable": CODES[code].retryable,
        "retry_after_s": 2.5,
        "request_id": request_id,
        "hint": "do",
        "details": {"reason": "why"},
    }


def test_an_unforeseen_failure_leaks_nothing(failing):
    """An exception answers `internal` with a request id, under which the log, not the answer, has its traceback."""
    with capture_logs() as logs:
        answer = failing.get("/fail")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "42" not in answer.text
    failed = next(line for line in logs if line["event"] == "failed")
    assert failed["exc_info"]
    assert failed["request_id"] == answer.json()["request_id"] == answer.headers["X-Seq-Request-Id"]


def test_an_unknown_path_and_a_wrong_method_are_said(client):
    """A path that is not there is `not_found`; a method it does not take is 405 with `invalid_request`."""
    missing = client.get("/v1/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert "/v1/nothing" in missing.json()["detail"]
    wrong = client.put("/v1/account")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "invalid_request")
    assert wrong.headers["Allow"] == "GET"


def test_no_path_redirects(client):
    """A trailing slash is another path, since the published clients follow no redirect."""
    assert client.get("/v1/account/").status_code == 404


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"nam": 1}', "nam: no such field"),
        (b'{"name": 7}', "name: input should be a valid string, got 7"),
        (b'{"account": "-"}', "account: string should match"),
        (b"[]", "the body: input should be"),
        (b"{", "the body is not JSON"),
        (b"", "the body: is required"),
        (b'{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}', "(and 1 more)"),
    ],
)
def test_a_malformed_body_is_answered_by_field_and_reason(failing, body, told):
    """A body that does not fit is `invalid_request`: which field, why, what was given."""
    answer = failing.post("/read", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert told in answer.json()["detail"]


def test_a_long_value_is_not_echoed(failing):
    """A refused value that may be a whole file is not repeated."""
    assert len(failing.post("/read", json={"account": "-" * 5000}).json()["detail"]) < 200


def test_a_body_over_the_limit_is_too_large(failing):
    """A body of 16 MiB is read; one byte more is 413."""
    fits = json.dumps({"name": "x" * (16 * 1024**2 - 12)}).encode()
    assert len(fits) == 16 * 1024**2
    headers = {"Content-Type": "application/json"}
    assert failing.post("/read", content=fits, headers=headers).status_code == 200
    over = failing.post("/read", content=fits + b" ", headers=headers)
    assert (over.status_code, over.json()["code"]) == (413, "payload_too_large")


def test_the_log_tells_requests_without_secrets(client):
    """A line has method, path, status, time, request id and key id; never keys, query strings or bodies."""
    with capture_logs() as logs:
        secret = client.post("/v1/keys", json={"name": "laptop"}).json()["secret"]
        client.get("/v1/keys", params={"cursor": "tell-no-one"})
        client.delete(f"/v1/keys/{secret}")
    lines = [line for line in logs if line["event"] == "request"]
    assert [(line["method"], line["status"]) for line in lines] == [("POST", 201), ("GET", 400), ("DELETE", 404)]
    assert set(lines[0]) == {"event", "log_level", "method", "path", "status", "ms", "request_id", "key_id"}
    assert all(line["key_id"] for line in lines)
    assert not any(word in str(logs) for word in (secret, first_key(), "tell-no-one", "laptop", "Bearer"))


@pytest.mark.parametrize(("count", "end"), [(20, "n19"), (21, "n19, ...")])
def test_a_long_list_of_names_says_that_it_goes_on(count, end):
    """Twenty names at most are told, and more are hinted at."""
    assert no_such("deployment", "x", [f"n{k:02d}" for k in range(count)]).hint.endswith(end)
