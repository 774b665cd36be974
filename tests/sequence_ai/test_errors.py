"""Answers that are not a success, as exceptions."""

import pytest

from sequence_ai import (
    AuthError,
    Conflict,
    Gone,
    InternalError,
    InvalidRequest,
    NotFound,
    OutOfCredit,
    PermissionDenied,
    PolicyError,
    Unavailable,
    from_response,
)

CODES = [
    ("invalid_request", 400, InvalidRequest, False),
    ("payload_too_large", 413, InvalidRequest, False),
    ("unauthenticated", 401, AuthError, False),
    ("forbidden", 403, PermissionDenied, False),
    ("insufficient_credit", 402, OutOfCredit, False),
    ("budget_exhausted", 402, OutOfCredit, False),
    ("not_found", 404, NotFound, False),
    ("gone", 410, Gone, False),
    ("conflict", 409, Conflict, False),
    ("busy", 429, Unavailable, True),
    ("warming", 503, Unavailable, True),
    ("unavailable", 503, Unavailable, True),
    ("upstream_error", 502, Unavailable, True),
    ("timeout", 504, Unavailable, True),
    ("policy_error", 500, PolicyError, False),
    ("internal", 500, InternalError, False),
    ("dependency_missing", 424, InternalError, False),
]


@pytest.mark.parametrize(("code", "status", "kind", "retryable"), CODES)
def test_the_code_picks_the_class(code, status, kind, retryable):
    """Each code becomes its class, whatever status came with it."""
    error = from_response(418, {"detail": "so", "code": code})
    assert type(error) is kind
    assert (error.code, error.retryable, error.status) == (code, retryable, 418)


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "invalid_request"), (402, "insufficient_credit"), (405, "invalid_request"), (422, "invalid_request"),
     (429, "busy"), (451, "invalid_request"), (500, "internal"), (503, "unavailable"), (307, "internal")],
)  # fmt: skip
def test_without_a_known_code_the_status_decides(status, code):
    """An unknown code is ignored, and the status then picks the class."""
    error = from_response(status, {"detail": "so", "code": "what_is_this"})
    assert (error.code, str(error)) == (code, "so")


def test_every_field_of_the_body_is_an_attribute():
    """An error carries what the platform said, and its text is the detail with the hint after it."""
    body = {
        "detail": "no such deployment",
        "code": "not_found",
        "retryable": False,
        "retry_after_s": 3,
        "request_id": "r-12",
        "hint": "seq policy ls",
        "details": {"name": "toy"},
    }
    error = from_response(404, body)
    assert str(error) == "no such deployment (seq policy ls)"
    assert (error.message, error.hint, error.request_id) == ("no such deployment", "seq policy ls", "r-12")
    assert (error.retry_after_s, error.details, error.body) == (3, {"name": "toy"}, body)


def test_headers_fill_in_what_the_body_leaves_out():
    """Retry-After (as a number) and the request id are read from the headers only where the body has none."""
    headers = {"retry-after": "7.5", "x-seq-request-id": "r-1"}
    error = from_response(503, {"detail": "later"}, headers=headers)
    assert (error.retry_after_s, error.request_id) == (7.5, "r-1")
    assert from_response(503, {"detail": "x", "retry_after_s": 2}, headers=headers).retry_after_s == 2
    assert from_response(503, {"detail": "x"}, headers={"Retry-After": "Wed, 21 Oct 2026"}).retry_after_s is None


@pytest.mark.parametrize("told", [float("nan"), float("inf"), 10**400, -1, "5", True, [5], {"s": 5}])
def test_a_time_that_is_none_is_not_waited(told):
    """In a body, only a finite number of at least 0 is a time to wait; else the header's is taken."""
    body = {"detail": "x", "code": "warming", "retry_after_s": told}
    assert from_response(503, body).retry_after_s is None
    assert from_response(503, body, headers={"Retry-After": "7"}).retry_after_s == 7


@pytest.mark.parametrize("told", ["nan", "inf", "1e400", "-5", "-inf", "abc", ""])
def test_a_header_that_is_no_time_is_not_waited(told):
    """The same holds for Retry-After."""
    assert from_response(503, {"detail": "x"}, headers={"Retry-After": told}).retry_after_s is None


@pytest.mark.parametrize("wrong", [5, True, [], [1], {"a": 1}])
def test_a_field_of_another_kind_is_left_out(wrong):
    """An error body's malformed fields hide none of the others, and stay in `body`."""
    details = dict.fromkeys(("reason", "job_id", "replacement", "since"), wrong)
    body = {"detail": "so", "code": wrong, "request_id": wrong, "rid": "r-2", "hint": wrong, "details": details}
    error = from_response(410, body)
    assert (error.code, error.request_id, error.hint, str(error)) == ("gone", "r-2", None, "so")
    assert (error.reason, error.replacement, error.since, error.body) == (None, None, None, body)


@pytest.mark.parametrize("wrong", ["2", True, 1.5, [], {"a": 1}])
def test_a_place_in_line_that_is_none_is_no_place(wrong):
    """A malformed queue position queues nobody; malformed times are not handed to `on_queue` either."""
    details = {"queue_position": wrong, "eta_s": "soon", "queued_s": 3}
    error = from_response(503, {"detail": "full", "code": "unavailable", "details": details})
    assert (error.queued, error.queue_position, error.details) == (False, None, {"queued_s": 3})


@pytest.mark.parametrize("reason", ["gpu_limit_reached", "gpu_low_stock", "deployment_full", "queue_timeout"])
@pytest.mark.parametrize("wrong", [True, "x", [1], {"a": 1}, float("nan"), 10**400])
def test_a_shortage_in_malformed_numbers_is_still_a_sentence(reason, wrong):
    """A count that is none reads as unknown."""
    names = ("limit", "requested", "short", "in_use", "max_gpus", "waited_s", "gpu")
    told = {name: wrong for name in names if name != "gpu" or not isinstance(wrong, str)}
    error = from_response(409, {"detail": "no", "code": "conflict", "details": {"reason": reason, **told}})
    says = {"gpu_limit_reached": "of unknown", "gpu_low_stock": "no such card", "deployment_full": "max_gpus=unknown"}
    assert says.get(reason, "the whole of queue_timeout_s") in str(error)


def test_a_policys_exception_is_told_as_text():
    """A message that is no text is shown, and a name that is none makes a PolicyError."""
    raised = {"type": "ValueError", "message": [1], "traceback": 5}
    error = from_response(500, {"detail": "x", "code": "policy_error", "details": {"exception": raised}})
    assert (type(error), str(error), error.remote_traceback) == (ValueError, "[1]", None)
    body = {"detail": "x", "code": "policy_error", "details": {"exception": {"type": ["ValueError"], "message": 5}}}
    assert (type(from_response(500, body)), from_response(500, body).exception_type) == (PolicyError, None)


def test_an_answer_without_a_body_is_still_an_error():
    """Without any body the text, else the status, is the message."""
    assert str(from_response(500, None, text="boom")) == "boom"
    assert str(from_response(307)) == "HTTP 307"


def test_a_detail_that_is_a_list_is_shown_as_text():
    """A list of problems, as some frameworks send, is shown and not lost."""
    assert str(from_response(422, {"detail": [{"loc": "model"}]})) == "[{'loc': 'model'}]"


@pytest.mark.parametrize(
    "body",
    [
        {"detail": {"status": "warming_up", "message": "loading", "retry_after_s": 174, "warming_job_id": "j1"}},
        {"detail": {"code": "warming", "message": "loading", "retry_after_s": 174, "warming_job_id": "j1"}},
        {"status": "warming_up", "message": "loading", "retry_after_s": 174, "warming_job_id": "j1"},
        {"code": "warming", "detail": "loading", "retry_after_s": 174, "details": {"job_id": "j1"}},
    ],
)
def test_every_spelling_of_warming_is_understood(body):
    """A starting worker reads the same in today's and in the older forms of the answer."""
    error = from_response(503, body)
    assert (error.warming, error.retry_after_s, error.job_id, str(error)) == (True, 174, "j1", "loading")


def test_a_place_in_line_is_told():
    """A queue position makes an Unavailable a queued one."""
    error = from_response(503, {"detail": "full", "code": "unavailable", "details": {"queue_position": 2}})
    assert (error.queued, error.queue_position, error.warming) == (True, 2, False)
    assert not from_response(503, {"detail": "full", "code": "unavailable"}).queued


def test_gone_tells_what_to_use_instead():
    """What was taken away names its replacement, the time and the reason."""
    details = {"replacement": "pi06", "since": "2026-01-01", "reason": "retired"}
    error = from_response(410, {"detail": "gone", "code": "gone", "details": details})
    assert (error.replacement, error.since, error.reason) == ("pi06", "2026-01-01", "retired")


def test_a_policys_built_in_exception_is_raised_as_itself():
    """A ValueError of the policy is a ValueError here, with the worker's traceback attached."""
    raised = {"type": "ValueError", "message": "bad joints", "traceback": "Traceback ..."}
    body = {"detail": "infer failed", "code": "policy_error", "request_id": "r-9", "details": {"exception": raised}}
    error = from_response(500, body)
    assert type(error) is ValueError
    assert (str(error), error.remote_traceback, error.request_id) == ("bad joints", "Traceback ...", "r-9")
    assert error.code == "policy_error"


@pytest.mark.parametrize(
    "kind", ["SystemExit", "KeyboardInterrupt", "UnicodeDecodeError", "torch.OutOfMemoryError", "print"]
)
def test_any_other_exception_of_a_policy_is_a_policy_error(kind):
    """What is no built-in Exception, or cannot be made from a message, is a PolicyError that names it."""
    raised = {"type": kind, "message": "m", "traceback": "T"}
    error = from_response(500, {"detail": "failed", "code": "policy_error", "details": {"exception": raised}})
    assert type(error) is PolicyError
    assert (error.exception_type, error.remote_traceback) == (kind, "T")


@pytest.mark.parametrize(
    ("details", "says"),
    [
        ({"reason": "gpu_limit_reached", "limit": 8, "requested": 2, "short": 1, "in_use": {"serving": 5, "eval": 2}},
         "of 8, serving holds 5 and evals hold 2; this needs 2 (1 short)"),
        ({"reason": "gpu_limit_reached", "limit": None, "requested": 2}, "of unknown, serving holds unknown"),
        ({"reason": "gpu_limit_reached", "limit": 8, "requested": 16}, "never fits"),
        ({"reason": "gpu_busy"}, "every GPU on the platform is busy"),
        ({"reason": "gpu_low_stock", "gpu": "H100"}, "no H100 card"),
        ({"reason": "deployment_full", "max_gpus": 4}, "max_gpus=4"),
        ({"reason": "queue_timeout", "waited_s": 120.4}, "waited in line for 120 s"),
    ],
)  # fmt: skip
def test_each_shortage_of_gpus_is_one_plain_sentence(details, says):
    """A refusal for want of GPUs says which of the five things happened, with "unknown" for a count nobody knows."""
    error = from_response(409, {"detail": "no capacity", "code": "conflict", "details": details})
    assert says in str(error)
    assert error.details["reason"] == details["reason"]
