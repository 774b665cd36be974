"""`seq.eval`: what it sends, what it answers, what its report knows, and how it waits."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import httpx
import pytest

import seq
from seq import evaluating
from seq.errors import SeqAuthoringError
from sequence_ai import InternalError, InvalidRequest, NotFound, SequencesError, Unavailable
from tests.supports.outcome import outcome

ID = "0123456789abcdef0123456789abcdef"
BARE = {"model": "arm-a", "benchmark": "line", "policy_instances": 1, "benchmark_instances": 1}
ADAPTER = """
import seq
from seq import tf

@seq.adapter(name="bridge")
class Bridge(seq.Adapter):
    policy_io = "own"
    obs_transforms = [tf.rename({"a": "b"})]
    action_transforms = [tf.identity()]
"""


@pytest.fixture(autouse=True)
def _connected(gateway, monkeypatch, tmp_path):
    monkeypatch.setattr(evaluating, "connect", lambda *_, **__: gateway.api())
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ran(gateway):
    """A completed eval."""
    body, details = outcome(seeds=3, rates={"arm-a": 1.0})
    gateway.on("POST", "/v1/eval", {"eval_id": ID})
    gateway.on("GET", f"/v1/eval/{ID}", body)
    gateway.on("GET", f"/v1/eval/{ID}/details", details)
    return body, details


SENT = [
    {"adapter": "bridge@v2"},
    {"suite": "easy"},
    {"tasks": ["go", "stop"]},
    {"trials": 3},
    {"policy_instances": 2},
    {"policy_gpu": "L4"},
    {"benchmark_instances": 3},
    {"benchmark_gpu": "L4"},
    {"envs": 16},
    {"region": "eu"},
    {"compare": ["arm-b"]},
    {"sweep": {"k": [1, 2.5, True, "x"]}},
    {"params": {"policy.k": 3}},
    {"variants": {"light": ["dim"]}},
    {"max_usd": 1.5},
    {"record": "all"},
]


@pytest.mark.parametrize("options", SENT, ids=[next(iter(options)) for options in SENT])
def test_every_keyword_sends_what_it_says_and_nothing_else(gateway, ran, options):
    """As the command's flags do."""
    assert seq.eval("arm-a", "line", wait=False, **options) == ID
    assert gateway.sent("POST", "/v1/eval") == [{**BARE, **options}]
    assert len(gateway.requests) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"tasks": "go"},
        {"tasks": []},
        {"compare": "arm-b"},
        {"variants": {"light": "dim"}},
        {"sweep": {"k": [1]}},
        {"sweep": {"k": "12"}},
        {"params": {"k": [1]}},
        {"params": {"k": float("nan")}},
        {"max_usd": 0},
        {"max_usd": float("nan")},
        {"trials": 0},
        {"envs": -1},
        {"benchmark_instances": 100},
        {"record": "some"},
        {"timeout_s": -1},
        {"timeout_s": float("nan")},
        {"suite": ""},
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_refused_before_anything_is_sent(gateway, options):
    """Not even the adapter's file is registered."""
    Path("bridge.py").write_text(ADAPTER)
    with pytest.raises(InvalidRequest, match=next(iter(options))):
        seq.eval("arm-a", "line", adapter="./bridge.py", **options)
    assert gateway.requests == []


@pytest.mark.parametrize("reference", ["bridge@latest", "", "./none.py"])
def test_an_adapter_that_cannot_be_is_refused_before_anything_is_sent(gateway, reference):
    """A malformed name, or no file."""
    with pytest.raises((InvalidRequest, SeqAuthoringError)):
        seq.eval("arm-a", "line", adapter=reference)
    assert gateway.requests == []


def test_an_adapters_file_or_class_is_registered_first(gateway, ran):
    """And runs as the version that it was registered as."""
    Path("bridge.py").write_text(ADAPTER)
    accepted = {"name": "bridge", "version": 4, "created": True, "lossy": False, "sha256": "0" * 64}
    gateway.on("POST", "/v1/adapters", accepted)
    bridge = evaluating.load("bridge.py")
    for adapter in ("./bridge.py:Bridge", bridge):
        seq.eval("arm-a", "line", adapter=adapter, wait=False)
    assert [body["source"] for body in gateway.sent("POST", "/v1/adapters")] == [ADAPTER, ADAPTER]
    assert [body["adapter"] for body in gateway.sent("POST", "/v1/eval")] == ["bridge@v4", "bridge@v4"]


def test_a_registration_that_is_garbage_is_an_error_of_the_platforms(gateway):
    """A typed one, and no eval is begun."""
    Path("bridge.py").write_text(ADAPTER)
    gateway.on("POST", "/v1/adapters", {"name": "bridge"})
    with pytest.raises(InternalError, match="not the registration of an adapter"):
        seq.eval("arm-a", "line", adapter="./bridge.py")
    assert gateway.sent("POST", "/v1/eval") == []


def test_a_report_knows_its_details(gateway, ran):
    """Without asking anything more it shows itself and gives its episodes."""
    report = seq.eval("arm-a", "line")
    asked = len(gateway.requests)
    assert report.metrics["success"].overall == 1.0
    assert "macro mean" in report._repr_html_()
    frame = report.to_pandas()
    assert list(frame["task"]) == ["reach"] * 3 + ["lift"] * 3
    assert len(gateway.requests) == asked


def test_very_many_episodes_are_fetched_when_they_are_needed(gateway, ran):
    """Page by page, over a connection of their own, lost contact waited out; each time anew."""
    _, details = ran
    rows = details["episodes"]
    gateway.on("GET", f"/v1/eval/{ID}/details", {**details, "episodes": [], "episodes_total": 6})
    gateway.on(
        *("GET", f"/v1/eval/{ID}/episodes"),
        {"episodes": rows[:4], "next_cursor": "o4"},
        httpx.ConnectError("refused"),
        {"episodes": rows[4:], "next_cursor": None},
    )
    report = seq.eval("arm-a", "line")
    assert not [request for request in gateway.requests if request.url.path.endswith("/episodes")]
    assert len(report.to_pandas()) == 6
    assert [r.url.params.get("cursor") for r in gateway.requests if r.url.path.endswith("/episodes")] == [
        None, "o4", "o4",
    ]  # fmt: skip


def test_a_report_is_a_value(gateway, ran):
    """It equals another of the same outcome, and can be copied and pickled."""
    report = seq.eval("arm-a", "line")
    assert report == seq.eval("arm-a", "line") == copy.deepcopy(report) == pickle.loads(pickle.dumps(report))


def test_the_report_of_a_platform_without_details_is_read(gateway, ran):
    """An older one answers 404."""
    del gateway.answers["GET", f"/v1/eval/{ID}/details"]
    assert seq.eval("arm-a", "line").metrics["success"].overall == 1.0


def test_a_dry_run_is_an_estimate(gateway):
    """It starts nothing, and knows layout, cards and what a real run holds."""
    answer = {
        "gpus_granted": 2,
        "estimate": {"wall_clock_s": 60, "cost_usd": 0.5, "held_usd": 0.7, "vlm_calls": 0, "breakdown": []},
        "cards": {"total": 2},
        "layout": {"episodes_per_arm": 20},
        "notes": ["shares cores"],
        "planning": ["20 starts"],
    }
    gateway.on("POST", "/v1/eval", answer)
    estimate = seq.eval("arm-a", "line", dry_run=True)
    assert (estimate.gpus_granted, estimate.wall_clock_s, estimate.cost_usd, estimate.held_usd) == (2, 60.0, 0.5, 0.7)
    assert estimate.notes == ["shares cores", "20 starts"]
    assert gateway.sent("POST", "/v1/eval") == [{**BARE, "dry_run": True}]


@pytest.mark.parametrize("answer", [{}, {"estimate": {}}, {"estimate": {"wall_clock_s": None}}, {"estimate": 3}])
def test_an_estimate_that_is_none_is_an_error_of_the_platforms(gateway, answer):
    """A typed one."""
    gateway.on("POST", "/v1/eval", answer)
    with pytest.raises(InternalError, match="not an estimate"):
        seq.eval("arm-a", "line", dry_run=True)


def test_it_waits_until_the_eval_has_ended_or_the_time_is_over(gateway, ran):
    """Then the report as it stands; a failed eval is a report, too."""
    body, _ = ran
    running = {**body, "status": "running", "metrics": {}}
    gateway.on("GET", f"/v1/eval/{ID}", running, running, {**body, "status": "failed"})
    assert seq.eval("arm-a", "line").status == "failed"
    gateway.on("GET", f"/v1/eval/{ID}", running)
    before = gateway.clock.now
    assert seq.eval("arm-a", "line", timeout_s=20).status == "running"
    assert gateway.clock.now - before == pytest.approx(20)
    before = gateway.clock.now
    assert seq.eval("arm-a", "line").status == "running"
    assert gateway.clock.now - before == pytest.approx(7200)


def test_lost_contact_is_waited_out_for_five_minutes(gateway, ran):
    """Then it is said that the work goes on, and how to wait again."""
    body, _ = ran
    lost = httpx.ConnectError("refused")
    gateway.on("GET", f"/v1/eval/{ID}", {**body, "status": "running"}, lost, lost, lost, body)
    assert seq.eval("arm-a", "line").status == "completed"
    gateway.on("GET", f"/v1/eval/{ID}", lost)
    with pytest.raises(Unavailable, match="the work goes on there") as gone:
        seq.eval("arm-a", "line")
    assert ID in gone.value.hint


def test_a_refusal_is_a_typed_error(gateway):
    """With the platform's code, hint and details."""
    gateway.refuse("POST", "/v1/eval", "not_found", 404, hint="yours: arm-b", details={"x": 1})
    with pytest.raises(NotFound) as refused:
        seq.eval("arm-a", "line")
    assert (refused.value.code, refused.value.hint, refused.value.details) == ("not_found", "yours: arm-b", {"x": 1})


@pytest.mark.parametrize("body", [{}, {"status": "completed"}, [], b"<html>", b'{"status": "comp'])
def test_a_report_that_is_none_is_an_error_of_the_platforms(gateway, ran, body):
    """Of one of the client's own classes, never a KeyError."""
    gateway.on("GET", f"/v1/eval/{ID}", body)
    with pytest.raises(SequencesError) as wrong:
        seq.eval("arm-a", "line")
    assert wrong.value.code == "internal"
