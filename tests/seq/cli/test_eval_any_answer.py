"""Whatever a platform answers, `seq eval` ends with a sentence and a number, never with a traceback."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import httpx
import pytest

from seq._eval_answers import (
    Canceled,
    Comparison,
    Details,
    DryRun,
    Estimated,
    History,
    Report,
    Schedule,
    Started,
    answered,
)
from seq._junit import junit
from seq.cli._estimate import estimate_lines, started_line
from seq.cli._eval_compare import difference_row, methods, sides
from seq.cli._eval_history import show_history
from seq.cli._eval_schedule import change_lines
from seq.cli._eval_status import status_lines
from seq.cli._report import csv_text, report_lines
from seq.evaluating import EvalState
from seq.gates import judge_all, parse
from seq.report import EvalEstimate
from sequence_ai import InternalError
from tests.seq.cli.conftest import FakeGateway
from tests.seq.cli.test_eval_history import COMPARED, PAGE
from tests.supports.outcome import everything, leaf

BODY, DETAILS = everything()
DETAILS["queue"] = {"cards": 3, "available": 1, "waited_s": 4.0, "gives_up_at": "2026-01-01T00:10:00Z"}
DETAILS["progress"] = {
    "done": 30,
    "total": 40,
    "failed": 2,
    "running": 1,
    "pending": 3,
    "not_run": 4,
    "arms": [
        {"arm": arm, "model": arm, "done": 15, "total": 20, "failed": 1, "metrics": {"success": leaf([1.0, 0.0])}}
        for arm in ("expert", "random")
    ],
}
STARTED = {
    "eval_id": "e1",
    "status": "queued",
    "estimate": {"wall_clock_s": 240.0, "low_s": 200.0, "high_s": 300.0, "cost_usd": 0.06, "held_usd": 0.09},
    "queue": DETAILS["queue"],
}
DRY = {
    "gpus_granted": 2,
    "estimate": {
        **STARTED["estimate"],
        "vlm_calls": 3,
        "default_timing": True,
        "breakdown": [{"arm": "expert", "task": "reach", "episodes": 20, "seconds": 60.0}],
    },
    "cards": {
        "policy": {"instances": 1, "gpu": "L4", "cards_each": 1},
        "benchmark": {"instances": 1, "gpu": "L4", "cards_each": 1},
        "total": 2,
        "limit": 8,
        "in_use": {"serving": 3, "eval": 0},
        "available": 1,
        "short": 1,
        "reason": "gpu_busy",
        "would_queue": True,
        "queue_timeout_s": 600,
    },
    "layout": {
        "policy": [{"model": "expert", "instances": 1, "gpu": "L4", "fallback": ["A100"], "cards_each": 1}],
        "benchmark": {"gpu": "L4", "envs": 16, "instances_per_arm": 1, "fallback": []},
        "arms": [{"arm": "expert", "model": "expert", "settings": {"policy": {"k": {"value": 3, "source": "policy"}}}}],
        "region": "eu",
        "region_multiple": 1.15,
        "episodes_per_arm": 20,
    },
    "planning": ["20 starts"],
    "notes": ["shares cores"],
    "clamped_by": {"limit": "cards", "requested": 3, "granted": 2},
}

RUN = ("eval", "run", "expert", "--benchmark", "table")
GATES = ("--gate", "success >= 0.1", "--gate", "success.diff.low >= -1")
SET = ("eval", "schedule", "arm-a", "--benchmark", "line", "--every", "daily")


def good() -> FakeGateway:
    """A platform that answers everything as it should."""
    gateway = FakeGateway()
    gateway.on("POST", "/v1/eval", STARTED)
    gateway.on("GET", "/v1/eval/e1", BODY)
    gateway.on("GET", "/v1/eval/e1/details", {**DETAILS, "episodes": [], "episodes_total": 40})
    gateway.on("GET", "/v1/eval/e1/episodes", {"episodes": DETAILS["episodes"], "next_cursor": None})
    gateway.on("GET", "/v1/eval/e1/videos/0.mp4", b"film")
    gateway.on("POST", "/v1/eval/e1/cancel", {"eval_id": "e1", "status": "canceled"})
    gateway.on("GET", "/v1/eval/e1/compare/e2", COMPARED)
    gateway.on("GET", "/v1/deployments/arm-a/evals", PAGE)
    gateway.on("PUT", "/v1/deployments/arm-a/evals/schedule", {**PAGE["schedules"][0], "webhook_secret": "s"})
    gateway.on("DELETE", "/v1/deployments/arm-a/evals/schedule", {"deleted": True})
    return gateway


COMMANDS = {
    ("POST", "/v1/eval"): [(*RUN, "--no-wait"), (*RUN, "--dry-run")],
    ("GET", "/v1/eval/e1"): [("eval", "report", "e1", *GATES), ("eval", "status", "e1"), (*RUN, *GATES)],
    ("GET", "/v1/eval/e1/details"): [
        ("eval", "report", "e1", *GATES, "--html", "out.html", "--csv", "out.csv"),
        ("eval", "status", "e1"),
        RUN,
    ],
    ("GET", "/v1/eval/e1/episodes"): [("eval", "report", "e1", "--csv", "out.csv", "--junit", "out.xml")],
    ("POST", "/v1/eval/e1/cancel"): [("eval", "cancel", "e1")],
    ("GET", "/v1/eval/e1/compare/e2"): [("eval", "compare", "e1", "e2")],
    ("GET", "/v1/deployments/arm-a/evals"): [("eval", "ls", "arm-a"), SET],
    ("PUT", "/v1/deployments/arm-a/evals/schedule"): [SET],
    ("DELETE", "/v1/deployments/arm-a/evals/schedule"): [(*SET[:-2], "--off")],
}
GARBAGE = {
    "nothing": b"",
    "empty": {},
    "truncated": b'{"status": "compl',
    "no JSON": b"<html>hello</html>",
    "no text": b"\xff\xfe\x00",
    "a list": [],
    "a list of numbers": [1],
    "null": None,
    "a number": 3,
    "deep": b"[" * 100_000,
    "a number of many digits": b'{"cost_usd": ' + b"9" * 5000 + b"}",
    "half a character": b'{"status": "\\ud800", "metrics": {}}',
    "not what it says": lambda: httpx.Response(
        200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"no gzip")
    ),
    "a redirect": lambda: httpx.Response(307, headers={"Location": "/"}),
    "an error without JSON": lambda: httpx.Response(502, content=b"<html>Bad Gateway</html>"),
    "an error of a list": lambda: httpx.Response(500, json=[1, 2]),
    "an error of nothing": lambda: httpx.Response(500),
    "an error with odd parts": lambda: httpx.Response(
        409, json={"code": 5, "detail": ["x"], "hint": {}, "details": {"a": [None, {"b": []}, 3]}, "request_id": []}
    ),
    "an error that is cut off": lambda: httpx.Response(500, content=b'{"detail": "the'),
    "a broken connection": httpx.RemoteProtocolError("peer closed connection"),
}


@pytest.fixture
def told(gateway, seq):
    """Runs a command against a good platform whose one answer is another, and holds it to a sentence and a number."""

    def tell(arguments, place, answer):
        gateway.answers, gateway.requests = good().answers, []
        gateway.on(*place, answer)
        ended = seq(*arguments)
        assert ended.code in range(9)
        assert "Traceback" not in ended.err
        if ended.code not in (0, 8):
            assert "error[" in ended.err or ended.out
        return ended

    return tell


@pytest.mark.parametrize("place", COMMANDS, ids=" ".join)
def test_the_commands_work_against_a_good_platform(gateway, told, place):
    """So that what follows fails for the one answer that is wrong."""
    for arguments in COMMANDS[place]:
        answer = DRY if "--dry-run" in arguments else good().answers[place][1][0]
        assert told(arguments, place, answer).code in (0, 8), arguments


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("place", COMMANDS, ids=" ".join)
def test_garbage_is_a_sentence(told, place, garbage):
    """Whatever it is; a platform may have no details, and none of what is read here."""
    optional = place[1].endswith("/details") and garbage in ("nothing", "empty", "null")
    for arguments in COMMANDS[place]:
        ended = told(arguments, place, GARBAGE[garbage])
        if place[0] != "DELETE" and not optional:  # of what a removal answers, nothing is read
            assert ended.code in (1, 2, 5, 7, 8), (arguments, ended)
            assert "error[" in ended.err


ODD: tuple[Any, ...] = ("x", 7, -1, 0.5, True, [], [[]], [{}], {}, {"x": {}}, None, float("nan"), 10**400, "\x1b[2J")


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where anything stands in a document, in the first row of its lists."""
    inner = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document[:1] if isinstance(document, list) else ())
    )
    return [place for key, value in inner for place in ((*path, key), *places(value, (*path, key)))]


def changed(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at a place."""
    found = copy.deepcopy(document)
    inside = found
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return found


READERS = {
    "started": (Started, STARTED, started_line),
    "dry run": (DryRun, DRY, estimate_lines),
    "estimate": (Estimated, DRY, EvalEstimate.from_wire),
    "comparison": (Comparison, COMPARED, lambda answer: [*sides(answer), *map(difference_row, answer["paired"])]),
    "methods": (Comparison, COMPARED, lambda answer: list(methods(answer))),
    "history": (History, PAGE, lambda page: show_history(page, benchmark=None, schedules=True)),
    "schedule": (Schedule, PAGE["schedules"][0], lambda answer: list(change_lines({"schedule": answer}, None))),
    "cancel": (Canceled, {"eval_id": "e1", "status": "canceled"}, str),
}


@pytest.mark.parametrize("name", READERS)
def test_an_answer_with_one_odd_value_is_read_or_refused(name):
    """Any value of another kind, anywhere in it."""
    kind, answer, reader = READERS[name]
    reader(answered(kind, answer, name))
    for where, value in product(places(answer), ODD):
        odd = changed(answer, where, value)
        try:
            reader(answered(kind, odd, name))
        except InternalError:
            continue
        except Exception as error:
            raise AssertionError(f"{value!r} at {where}") from error


def shown(body, details):
    """Everything that the commands make of a report and its details, or a refusal of them."""
    try:
        state = EvalState(answered(Report, body, "a report"), answered(Details, details, "details"))
    except InternalError:
        return
    report = state.as_report()
    list(status_lines("e1", state))
    report_lines(report, details)
    verdicts = judge_all([parse(gate) for gate in GATES[1::2]], report, details)
    junit(report, details, verdicts, details.get("episodes") or [])
    csv_text(details.get("episodes") or [])
    report._repr_html_()


@pytest.mark.parametrize("document", ["report", "details"])
def test_a_report_with_one_odd_value_is_shown_or_refused(document):
    """Any value of another kind, anywhere in the report or in the details beside it."""
    for where, value in product(places(BODY if document == "report" else DETAILS), ODD):
        body = changed(BODY, where, value) if document == "report" else BODY
        details = changed(DETAILS, where, value) if document == "details" else DETAILS
        try:
            shown(body, details)
        except Exception as error:
            raise AssertionError(f"{value!r} at {where}") from error


def test_what_is_missing_is_no_mistake():
    """The details of an older platform lack keys anywhere; they are read all the same."""
    for where in places(DETAILS):
        if where[0] == "episodes":
            continue
        for null in (True, False):
            answer = changed(DETAILS, where, None)
            if not null and isinstance(where[-1], str):
                inside = answer
                for key in where[:-1]:
                    inside = inside[key]
                del inside[where[-1]]
            elif not isinstance(where[-1], str):
                continue
            answered(Details, answer, "details")
            list(status_lines("e1", EvalState({**BODY, "status": "queued"}, answer)))


def test_a_later_platform_may_say_more():
    """More keys anywhere, and another word for a state."""
    more = {**BODY, "status": "paused", "stop_reason": "weather", "units": {}}
    more["metrics"]["success"]["unit"] = "1"
    assert answered(Report, more, "a report") is more


def test_what_is_wrong_with_an_answer_is_named():
    """A few places, why each, and how many more."""
    with pytest.raises(InternalError, match=r"not a report as .*: status: Field required; metrics: .*; and 2 more"):
        answered(Report, {}, "a report")
