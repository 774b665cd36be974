"""The worker's small memories: requests, episodes, and what it tells the gateway."""

from __future__ import annotations

import json

import httpx

from runner.worker.repeat import Repeats
from runner.worker.report import Reporter
from runner.worker.trace import frames, sentence
from seq.contract.internal import WorkerReport


def test_the_same_request_is_begun_once():
    """The same id and content give what was begun first; another content, or no id, begins anew."""
    repeats: Repeats[int] = Repeats()
    numbers = iter(range(10))
    sent = [("r-1", 1), ("r-1", 1), ("r-1", 2), None, None]
    assert [repeats.once(key, lambda: next(numbers)) for key in sent] == [0, 0, 1, 2, 3]


def test_only_the_newest_requests_are_kept():
    """Past the capacity the oldest is forgotten."""
    repeats: Repeats[int] = Repeats(capacity=2)
    numbers = iter(range(10))
    assert [repeats.once((name, 0), lambda: next(numbers)) for name in ("a", "b", "c", "c", "a")] == [0, 1, 2, 2, 3]


def test_large_answers_make_room_for_each_other():
    """Past the bytes the oldest answer is forgotten; a request under way never is, nor is the newest answer."""
    repeats: Repeats[int] = Repeats(most_bytes=10)
    numbers = iter(range(10))
    for name in ("under way", "a", "b", "c"):
        repeats.once((name, 0), lambda: next(numbers))
        repeats.answered((name, 0), 6) if name != "under way" else None
    assert [repeats.once((name, 0), lambda: next(numbers)) for name in ("under way", "c", "a")] == [0, 3, 4]
    repeats.answered(("a", 0), 100)
    assert repeats.once(("a", 0), lambda: next(numbers)) == 4


def test_reports_arrive_in_order_however_often_the_gateway_fails():
    """A gateway that is down or failing is asked again with growing pauses until it took each report."""
    heard: list[str] = []
    answers = iter([httpx.ConnectError("down"), httpx.Response(503), httpx.Response(200), httpx.Response(200)])
    pauses: list[float] = []

    def gateway(request: httpx.Request) -> httpx.Response:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        if answer.is_success:
            heard.append(request.headers["Authorization"] + request.content.decode())
        return answer

    reporter = Reporter("http://gateway/report", "tok", transport=httpx.MockTransport(gateway), sleep=pauses.append)
    reporter.tell(WorkerReport(phase="load"))
    reporter.tell(WorkerReport(phase="ready"))
    assert reporter.flush(30)
    told = [WorkerReport(phase=phase).wire() for phase in ("load", "ready")]
    assert heard == [f"Bearer tok{json.dumps(body, separators=(',', ':'))}" for body in told]
    assert pauses == [0.2, 0.4]


def test_a_failure_to_start_is_told_whatever_its_text():
    """An exception in `load` whose `__str__` raises does not keep the gateway from hearing of it."""

    class OwnError(Exception):
        def __str__(self) -> str:
            raise KeyError

    assert sentence(OwnError()) == "OwnError: (its text cannot be had: __str__ raised KeyError)"


def test_a_report_nobody_wants_is_dropped():
    """A gateway that refuses the report for good is not asked again."""
    transport = httpx.MockTransport(lambda _: httpx.Response(401))
    reporter = Reporter("http://gateway/report", "tok", transport=transport, sleep=lambda _: None)
    reporter.tell(WorkerReport(phase="load"))
    assert reporter.flush(30)


def test_what_was_raised_with_half_a_surrogate_is_told_in_escapes():
    """Nothing else could be sent."""
    error = ValueError("no file \ud800")
    assert sentence(error) == "ValueError: no file \\ud800"
    assert "no file \\ud800" in frames(error, "/code")
