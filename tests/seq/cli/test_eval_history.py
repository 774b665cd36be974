"""`seq eval ls`, `schedule` and `compare`: evals over time, by themselves, and against each other."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from seq.contract.errors import CODES

HISTORY = "/v1/deployments/arm-a/evals"
SCHEDULE = f"{HISTORY}/schedule"
SET = ("eval", "schedule", "arm-a", "--benchmark", "line")
ADAPTER = """
import seq
from seq import tf

@seq.adapter(name="bridge")
class Bridge(seq.Adapter):
    policy_io = "own"
    obs_transforms = [tf.rename({"a": "b"})]
    action_transforms = [tf.identity()]
"""
DAILY = {
    "benchmark": "line",
    "every": "daily",
    "trials": 2,
    "max_usd": 1.5,
    "adapter": "bridge",
    "due_at": "2026-01-02T00:00:00.000Z",
    "webhook": "https://ci.example/hook",
    "last_eval": "e2",
    "last_error": None,
    "previous": {
        "eval_id": "e1",
        "metric": "success",
        "value": 0.5,
        "regressed": True,
        "sentence": "REGRESSION: -0.400",
    },
}
ON_DEPLOY = {
    "benchmark": "other",
    "every": "deploy",
    "trials": None,
    "max_usd": None,
    "due_at": None,
    "last_eval": None,
    "last_error": "the run of 2026-01-01T00:00:00.000Z was refused: no benchmark",
    "previous": None,
}
EVALS = [
    {
        "eval_id": "e2",
        "status": "completed",
        "model_version": 3,
        "benchmark": "line",
        "metric": "success",
        "value": 0.5,
        "low": 0.3,
        "high": 0.7,
        "scheduled": True,
        "regressed": True,
    },
    {"eval_id": "e1", "status": "canceled", "model_version": 2, "benchmark": "line", "incomplete": True},
]
PAGE = {"deployment": "arm-a", "schedules": [DAILY, ON_DEPLOY], "history": EVALS, "total": 7, "offset": 0}


def columns(text):
    """Each line with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture
def listed(gateway):
    gateway.on("GET", HISTORY, PAGE)


def test_the_list_has_the_schedules_first(seq, gateway, listed):
    """What runs by itself, when, its last verdict and its last error; then the evals with a mark of regression."""
    assert columns(seq("eval", "ls", "arm-a").out) == [
        "benchmark every trials max usd due last eval verdict",
        "line daily 2 $1.50 2026-01-02T00:00:00.000Z e2 REGRESSED success 0.500",
        "other deploy all no limit the next deploy none yet",
        "line: REGRESSION: -0.400",
        "line: with adapter bridge",
        "line: a regression is told to https://ci.example/hook",
        "other: last error: the run of 2026-01-01T00:00:00.000Z was refused: no benchmark",
        "",
        "eval status version benchmark metric value 95% CI",
        "e2 completed v3 line success 0.500 [0.300, 0.700] REGRESSED, scheduled",
        "e1 canceled v2 line incomplete",
        "1-2 of 7",
    ]


def test_a_list_pages_and_filters(seq, gateway, listed):
    """The flags are sent; schedules of another benchmark are left out, and all of them on a later page."""
    ended = seq("eval", "ls", "arm-a", "--benchmark", "line", "--limit", "2")
    assert dict(gateway.requests[-1].url.params) == {"limit": "2", "benchmark": "line"}
    assert "last error" not in ended.out
    assert "line: with adapter bridge" in ended.out
    ended = seq("eval", "ls", "arm-a", "--cursor", "o2")
    assert dict(gateway.requests[-1].url.params) == {"limit": "50", "cursor": "o2"}
    assert columns(ended.out)[0].startswith("eval status")
    assert json.loads(seq("eval", "ls", "arm-a", "--json").out) == PAGE


def test_a_policy_without_evals_or_schedules_says_so(seq, gateway):
    """One line."""
    gateway.on("GET", HISTORY, {"schedules": [], "history": [], "total": 0, "offset": 0})
    assert seq("eval", "ls", "arm-a").out == "no rows\n"


SENT = [
    (("--every", "weekly"), {"every": "weekly"}),
    (("--every", "deploy"), {"every": "deploy"}),
    (("--adapter", "bridge@v2"), {"adapter": "bridge@v2"}),
    (("--trials", "3"), {"trials": 3}),
    (("--max-usd", "2"), {"max_usd": 2.0}),
    (("--webhook", "https://ci.example/hook?x=1"), {"webhook": "https://ci.example/hook?x=1"}),
    (("--webhook", "http://127.0.0.1:9/hook"), {"webhook": "http://127.0.0.1:9/hook"}),
]


@pytest.mark.parametrize(("flags", "sent"), SENT, ids=[" ".join(flags) for flags, _ in SENT])
def test_every_flag_of_a_schedule_sends_what_it_says(seq, gateway, listed, flags, sent):
    """And nothing else, so that the rest stays; then all schedules and the evals on that benchmark are shown."""
    gateway.on("PUT", SCHEDULE, DAILY)
    ended = seq(*SET, *flags)
    assert ended.code == 0, ended.err
    assert gateway.sent("PUT", SCHEDULE) == [{"benchmark": "line", **sent}]
    assert gateway.requests[-1].url.params["benchmark"] == "line"
    assert "other deploy" in " ".join(ended.out.split())
    assert "webhook secret" not in ended.out


def test_a_schedule_is_removed(seq, gateway, listed):
    """`--off` names the benchmark and sends nothing else."""
    gateway.on("DELETE", SCHEDULE, {"deployment": "arm-a", "benchmark": "line", "deleted": True})
    ended = seq(*SET, "--off")
    assert ended.code == 0, ended.err
    assert [(request.method, dict(request.url.params)) for request in gateway.requests] == [
        ("DELETE", {"benchmark": "line"}),
        ("GET", {"benchmark": "line", "limit": "50"}),
    ]
    assert ended.out.startswith("arm-a is no longer run on line by itself\n")


def test_without_a_change_the_schedules_are_only_shown(seq, gateway, listed):
    """Nothing is set."""
    assert "line: with adapter bridge" in seq(*SET).out
    assert [request.method for request in gateway.requests] == ["GET"]
    assert json.loads(seq(*SET, "--json").out) == PAGE


def test_a_webhooks_secret_is_shown_whatever_fails_then(seq, gateway):
    """The platform tells it once: the list after it may fail. On stdout, or in the JSON."""
    gateway.on("PUT", SCHEDULE, {**DAILY, "webhook_secret": "s3cret"})
    gateway.refuse("GET", HISTORY, "internal", 500)
    ended = seq(*SET, "--webhook", "https://ci.example/hook")
    assert ended.code == 1
    assert ended.out.splitlines()[0] == "webhook secret: s3cret"
    ended = seq(*SET, "--webhook", "https://ci.example/hook", "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["schedule"]["webhook_secret"] == "s3cret"


def test_an_adapters_file_is_registered_before_its_schedule(seq, gateway, listed):
    """And named by its version."""
    Path("bridge.py").write_text(ADAPTER)
    accepted = {"name": "bridge", "version": 4, "created": True, "lossy": False, "sha256": "0" * 64}
    gateway.on("POST", "/v1/adapters", accepted)
    gateway.on("PUT", SCHEDULE, DAILY)
    assert seq(*SET, "--adapter", "./bridge.py", "--every", "daily").code == 0
    assert gateway.sent("PUT", SCHEDULE)[0]["adapter"] == "bridge@v4"


@pytest.mark.parametrize(
    "flags",
    [
        ("--every", "hourly"),
        ("--every", ""),
        ("--trials", "0"),
        ("--max-usd", "0"),
        ("--max-usd", "nan"),
        ("--webhook", "ci.example"),
        ("--webhook", "ftp://ci.example"),
        ("--webhook", "http://ci.example"),
        ("--webhook", "https://"),
        ("--webhook", "https://[::1"),
        ("--off",),
        ("--benchmark", ""),
    ],
    ids=" ".join,
)
def test_a_schedule_that_cannot_be_is_refused_before_anything_is_sent(seq, gateway, flags):
    """Also what goes with no removal; the adapter's file is not registered."""
    Path("bridge.py").write_text(ADAPTER)
    ended = seq(*SET, "--adapter", "./bridge.py", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert gateway.requests == []


PAIRED = [
    {
        "metric": "success",
        "n": 20,
        "mean_diff": -0.2,
        "low": -0.4,
        "high": 0.01,
        "p": 0.0312,
        "p_adjusted": 0.0624,
        "comparisons": 2,
        "won": 1,
        "lost": 5,
        "method": "Agresti-Min",
        "p_method": "exact McNemar",
    },
    {"metric": "speed", "n": 20, "mean_diff": 0.5, "low": None, "high": None, "p": None, "comparisons": 2},
]
COMPARED = {
    "a": {"eval_id": "e1", "model": "arm-a", "model_version": 1, "status": "completed", "scored": 20},
    "b": {"eval_id": "e2", "model": "arm-a", "model_version": 2, "status": "canceled", "scored": 18},
    "paired": PAIRED,
    "differs": ["adapter: bridge v1 before, bridge v2 now"],
    "incomplete": True,
}


def test_two_evals_are_held_against_each_other(seq, gateway):
    """What they are, what differs beside the policy, a row a metric, and how it was reckoned."""
    gateway.on("GET", "/v1/eval/e1/compare/e2", COMPARED)
    ended = seq("eval", "compare", "e1", "e2")
    assert ended.code == 0, ended.err
    assert columns(ended.out) == [
        "a: arm-a v1 eval e1 completed, 20 episode(s) scored",
        "b: arm-a v2 eval e2 canceled, 18 episode(s) scored",
        "incomplete: not every episode that was planned was scored; a pair counts only where both were",
        "differs: adapter: bridge v1 before, bridge v2 now",
        "metric b - a 95% CI pairs won lost p adjusted p",
        "success -0.200 [-0.400, +0.010] 20 1 5 0.031 0.062",
        "speed +0.500 none 20",
        "method: Agresti-Min; exact McNemar",
        "adjusted p: for 2 comparisons (Holm)",
    ]
    assert json.loads(seq("eval", "compare", "e1", "e2", "--json").out) == COMPARED


def test_two_evals_with_no_start_in_common_say_so(seq, gateway):
    """Instead of an empty table."""
    gateway.on("GET", "/v1/eval/e1/compare/e2", {**COMPARED, "paired": [], "incomplete": False, "differs": []})
    assert seq("eval", "compare", "e1", "e2").out.splitlines()[2:] == ["no start was scored by the same metric in both"]


def test_two_evals_that_mean_different_things_are_refused_with_what_differs(seq, gateway):
    """5, and each difference on a line of its own."""
    gateway.refuse("GET", "/v1/eval/e1/compare/e2", "conflict", 409, details={"differs": ["benchmark line: v1, v2"]})
    ended = seq("eval", "compare", "e1", "e2")
    assert ended.code == 5
    assert ended.err.splitlines() == ["error[conflict]: the conflict sentence", "  benchmark line: v1, v2"]


COMMANDS = [
    (("eval", "ls", "arm-a"), ("GET", HISTORY)),
    (SET, ("GET", HISTORY)),
    ((*SET, "--every", "daily"), ("PUT", SCHEDULE)),
    ((*SET, "--off"), ("DELETE", SCHEDULE)),
    (("eval", "compare", "e1", "e2"), ("GET", "/v1/eval/e1/compare/e2")),
]


@pytest.mark.parametrize(("arguments", "place"), COMMANDS)
@pytest.mark.parametrize("code", sorted(CODES))
def test_every_refusal_ends_with_its_number(seq, gateway, arguments, place, code):
    """The exit number of the code that the platform answered with, and one sentence."""
    gateway.refuse(*place, code, CODES[code].status)
    ended = seq(*arguments)
    assert (ended.code, ended.out) == (CODES[code].exit, "")
    assert ended.err.startswith(f"error[{code}]: the {code} sentence")


@pytest.mark.parametrize(("arguments", "place"), COMMANDS)
@pytest.mark.parametrize(("stop", "code"), [(httpx.ConnectError("refused"), 7), (KeyboardInterrupt(), 130)])
def test_no_answer_and_ctrl_c(seq, gateway, arguments, place, stop, code):
    """7 and 130, without a traceback."""
    gateway.on(*place, stop)
    ended = seq(*arguments)
    assert ended.code == code
    assert "Traceback" not in ended.err
