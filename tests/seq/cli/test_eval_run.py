"""`seq eval run`: what every flag sends or does, what is refused before anything is sent, gates, waits, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import pytest

from tests.supports.outcome import outcome

RUN = ("eval", "run", "arm-a", "--benchmark", "line")
ID = "0123456789abcdef0123456789abcdef"
ADAPTER = """
import seq
from seq import tf

@seq.adapter(name="bridge")
class Bridge(seq.Adapter):
    policy_io = "own"
    obs_transforms = [tf.rename({"a": "b"})]
    action_transforms = [tf.identity()]
"""
PLAIN = {"model": "arm-a", "benchmark": "line", "policy_instances": 1, "benchmark_instances": 1}
QUEUE = {"cards": 3, "available": 1, "waited_s": 4.0, "gives_up_at": "2026-01-01T00:10:00.000Z"}


@pytest.fixture
def ran(gateway):
    """An eval that has run by the first look, with that outcome."""

    def prepare(body=None, details=None, **answer):
        told, beside = outcome()
        gateway.on("POST", "/v1/eval", {"eval_id": ID, **answer})
        gateway.on("GET", f"/v1/eval/{ID}", body or told)
        gateway.on("GET", f"/v1/eval/{ID}/details", beside if details is None else details)

    return prepare


SENT = [
    (("--adapter", "bridge"), {"adapter": "bridge"}),
    (("--adapter", "bridge@v2"), {"adapter": "bridge@v2"}),
    (("--suite", "easy"), {"suite": "easy"}),
    (("--tasks", "go, stop"), {"tasks": ["go", "stop"]}),
    (("--trials", "3"), {"trials": 3}),
    (
        ("--variants", "light=dim,bright", "--variants", "mass=2"),
        {"variants": {"light": ["dim", "bright"], "mass": ["2"]}},
    ),
    (("--policy-instances", "2"), {"policy_instances": 2}),
    (("--policy-gpu", "L4"), {"policy_gpu": "L4"}),
    (("--benchmark-instances", "3"), {"benchmark_instances": 3}),
    (("--benchmark-gpu", "RTX-PRO-6000"), {"benchmark_gpu": "RTX-PRO-6000"}),
    (("--envs", "16"), {"envs": 16}),
    (("--region", "eu"), {"region": "eu"}),
    (("--max-usd", "1.5"), {"max_usd": 1.5}),
    (
        ("--param", "k=3", "--param", "policy.x=.5", "--param", "on=true", "--param", "name=a=b"),
        {"params": {"k": 3, "policy.x": 0.5, "on": True, "name": "a=b"}},
    ),
    (
        ("--sweep", "eval.steps_per_query=1,8", "--sweep", "on=true,false"),
        {"sweep": {"eval.steps_per_query": [1, 8], "on": [True, False]}},
    ),
    (("--compare", "arm-b", "--compare", "arm-c"), {"compare": ["arm-b", "arm-c"]}),
    (("--record", "none"), {"record": "none"}),
    (("--rerun-failed", ID), {"rerun_of": ID}),
    (("--rerun-unsuccessful", ID), {"rerun_unsuccessful_of": ID}),
    (("--rerun-unsuccessful", ID, "--metric", "held"), {"rerun_unsuccessful_of": ID, "metric": "held"}),
]


@pytest.mark.parametrize(("flags", "sent"), SENT, ids=[" ".join(flags) for flags, _ in SENT])
def test_every_flag_sends_what_it_says_and_nothing_else(seq, gateway, ran, flags, sent):
    """Alone, and in a dry run, which sends one thing more."""
    ran()
    assert seq(*RUN, *flags, "--no-wait").code == 0
    gateway.on("POST", "/v1/eval", {"estimate": {"wall_clock_s": 1.0, "cost_usd": 0.0}})
    assert seq(*RUN, *flags, "--dry-run").code == 0
    assert gateway.sent("POST", "/v1/eval") == [{**PLAIN, **sent}, {**PLAIN, **sent, "dry_run": True}]


WRONG = [
    ("--trials", "0"),
    ("--envs", "0"),
    ("--policy-instances", "65"),
    ("--benchmark-instances", "0"),
    ("--suite", ""),
    ("--region", " "),
    ("--policy-gpu", ""),
    ("--tasks", ""),
    ("--tasks", "a,,b"),
    ("--tasks", "a,a"),
    ("--variants", "light"),
    ("--variants", "=dim"),
    ("--variants", "light="),
    ("--variants", "light=dim,dim"),
    ("--variants", "light=dim", "--variants", "light=bright"),
    ("--param", "k"),
    ("--param", "k="),
    ("--param", "k=1", "--param", "k=2"),
    ("--param", "k=1e999"),
    ("--param", "k=" + "9" * 400),
    ("--sweep", "k=1"),
    ("--sweep", "k=1,1"),
    ("--sweep", "k=1,2", "--param", "k=3"),
    ("--compare", ""),
    ("--compare", "arm-b", "--compare", "arm-b"),
    ("--record", "some"),
    ("--max-usd", "0"),
    ("--max-usd", "-1"),
    ("--max-usd", "nan"),
    ("--max-usd", "inf"),
    ("--timeout", "nan"),
    ("--timeout", "inf"),
    ("--timeout", "-1"),
    ("--gate", "success"),
    ("--gate", "success >= high"),
    ("--gate", "success >= 0.5", "--gate", "success => 0.5"),
    ("--gate", "success >= nan"),
    ("--gate", ""),
    ("--gate", "success >= 0.5", "--no-wait"),
    ("--gate", "success >= 0.5", "--dry-run"),
    ("--junit", "out.xml", "--no-wait"),
    ("--junit", "out.xml", "--dry-run"),
    ("--junit", "no/such/out.xml"),
    ("--junit", "."),
    ("--metric", "success"),
    ("--metric", ""),
    ("--metric", "success", "--rerun-failed", ID),
    ("--rerun-failed", ""),
    ("--rerun-failed", ID, "--rerun-unsuccessful", ID),
    *(
        (rerun, ID, *more)
        for rerun in ("--rerun-failed", "--rerun-unsuccessful")
        for more in (
            ("--compare", "arm-b"),
            ("--sweep", "k=1,2"),
            ("--suite", "easy"),
            ("--tasks", "go"),
            ("--trials", "1"),
            ("--variants", "light=dim"),
            ("--param", "k=1"),
        )
    ),
    ("--no-wait", "--dry-run"),
    ("--no-wait", "--timeout", "5"),
    ("--dry-run", "--timeout", "5"),
    ("--json",),
]


@pytest.mark.parametrize("flags", WRONG, ids=[" ".join(flags)[:60] for flags in WRONG])
def test_what_cannot_be_is_refused_before_anything_is_sent(seq, gateway, flags):
    """One line, exit 2, no request; not even the adapter's file is registered."""
    Path("bridge.py").write_text(ADAPTER)
    ended = seq(*RUN, "--adapter", "./bridge.py", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error[invalid_request]: ")
    assert gateway.requests == []


@pytest.mark.parametrize(
    ("reference", "word"),
    [
        ("", "empty"),
        ("bridge@latest", "NAME@vN"),
        ("bridge@v0", "NAME@vN"),
        ("./none.py", "none.py"),
        ("./policy.py", "adapter"),
        ("./bridge.py:Other", "Other"),
    ],
)
def test_an_adapter_that_cannot_be_is_refused_before_anything_is_sent(seq, gateway, reference, word):
    """A malformed name, a file that is not there or declares none."""
    Path("bridge.py").write_text(ADAPTER)
    Path("policy.py").write_text(
        "import seq\n@seq.policy(gpu='cpu')\nclass P(seq.Policy):\n"
        "    @seq.infer\n    def infer(self, obs): return [[0.0]]\n"
    )
    ended = seq(*RUN, "--adapter", reference)
    assert ended.code == 2
    assert word in ended.err
    assert gateway.requests == []


def test_an_adapter_of_a_rerun_is_refused_whatever_it_is(seq, gateway):
    """It takes that of the eval it reruns."""
    for reference in ("bridge", "./bridge.py"):
        ended = seq(*RUN, "--rerun-failed", ID, "--adapter", reference)
        assert ended.code == 2
        assert "leave out --adapter" in ended.err
    assert gateway.requests == []


def test_a_wrong_value_is_named_with_what_would_do(seq):
    """The sentence holds the value that was given."""
    assert "max_usd: give a number of dollars above 0 (got 0.0)" in seq(*RUN, "--max-usd", "0").err
    assert "--sweep 'k=1': give at least two values" in seq(*RUN, "--sweep", "k=1").err
    assert "'k' is both set and swept" in seq(*RUN, "--sweep", "k=1,2", "--param", "k=3").err


@pytest.mark.parametrize("flag", ["--tasks", "--suite", "--trials", "--adapter", "--max-usd"])
def test_a_flag_of_one_value_is_given_once(seq, gateway, flag):
    """The last would win without a word."""
    ended = seq(*RUN, flag, "1", flag, "2")
    assert ended.code == 2
    assert f"{flag} is given 2 times and takes one value" in ended.err
    assert gateway.requests == []


# Gates.


def rated(successes, n=20, **more):
    """An outcome of so many successes: `success` with its Wilson interval."""
    body, details = outcome(("go",), n, {"arm-a": 1.0}, **more)
    low, high = {18: (0.699, 0.972), 10: (0.299, 0.701)}[successes]
    body["metrics"]["success"] |= {"overall": successes / n}
    leaf = {"mean": successes / n, "n": n, "low": low, "high": high, "small_n": False}
    for part in (details, details["arms"][0]):
        part["intervals"]["success"]["overall"] = leaf
        part["means"]["success"]["micro"] = leaf
    for number, row in enumerate(details["episodes"]):
        row["metrics"] = {"success": float(number < successes)}
    return body, details


def lines_of_gates(ended):
    return [line for line in ended.out.splitlines() if line.startswith("gate ")]


@pytest.mark.parametrize(
    ("gates", "passed"),
    [
        (["success >= 0.9"], [True]),
        (["success > 0.9"], [False]),
        (["success.low >= 0.69", "success.low >= 0.7"], [True, False]),
        (["success.high <= 0.98"], [True]),
        (["success>=0.5", "success <= 0.95", "success < 0.95", "success == 0.9"], [True, True, True, True]),
        (["speed >= 0.1"], [False]),
        (["success.diff >= -1"], [False]),
    ],
)
def test_gates_are_judged_on_the_final_report(seq, gateway, ran, gates, passed):
    """A line each, passed or missed, after the report; 8 where one is missed, and where a metric is not there."""
    ran(*rated(18))
    ended = seq(*RUN, *(word for gate in gates for word in ("--gate", gate)))
    assert [line.startswith("gate passed: ") for line in lines_of_gates(ended)] == passed
    assert [line.split(": ", 1)[1].split("  ")[0] for line in lines_of_gates(ended)] == gates
    assert ended.out.splitlines()[-len(gates) :] == lines_of_gates(ended)
    assert ended.code == (0 if all(passed) else 8)


def test_a_paired_difference_is_a_bar_too(seq, gateway, ran):
    """Every other arm against the first; the worst decides."""
    body, details = outcome(("go",), 20, {"arm-a": 0.5, "arm-b": 0.9, "arm-c": 0.1})
    details["paired"] = [
        {"metric": "success", "arm_a": "arm-a", "arm_b": b, "n": 20, "mean_diff": d, "low": d - 0.1, "high": d + 0.1}
        for b, d in (("arm-b", 0.2), ("arm-c", -0.04))
    ]
    ran(body, details)
    assert seq(*RUN, "--compare", "arm-b", "--compare", "arm-c", "--gate", "success.diff >= -0.05").code == 0
    ended = seq(*RUN, "--compare", "arm-b", "--compare", "arm-c", "--gate", "success.diff.low >= -0.05")
    assert ended.code == 8
    assert "arm-c" in lines_of_gates(ended)[0]


@pytest.mark.parametrize(
    "more",
    [{"status": "failed"}, {"status": "canceled", "stop_reason": "queue_timeout"}, {"incomplete": True}],
    ids=["failed", "canceled", "incomplete"],
)
def test_an_eval_that_did_not_complete_with_every_episode_meets_no_bar(seq, gateway, ran, more):
    """8 where bars were given; without them 1, or 0 for one that is only incomplete."""
    body, details = rated(18)
    ran({**body, **more}, details)
    assert seq(*RUN, "--gate", "success >= 0").code == 8
    assert seq(*RUN).code == (0 if "incomplete" in more else 1)


def test_a_missed_gate_still_has_its_report_and_its_file(seq, gateway, ran):
    """What went wrong can be read: the report, the verdict, and JUnit XML with the gate as a failure."""
    ran(*rated(10))
    ended = seq(*RUN, "--gate", "success >= 0.9", "--gate", "success >= 0.1", "--junit", "out.xml")
    assert ended.code == 8
    assert "report: completed" in ended.out
    suites = {suite.get("name"): suite for suite in ET.parse("out.xml").getroot()}
    assert (suites["gates"].get("tests"), suites["gates"].get("failures")) == ("2", "1")
    assert suites["arm-a"].get("tests") == "20"


def test_junit_is_written_without_gates_and_of_a_failed_eval(seq, gateway, ran):
    """It then has no suite of gates, and says that the eval did not complete."""
    body, details = rated(18)
    ran({**body, "status": "failed"}, details)
    assert seq(*RUN, "--junit", "out.xml").code == 1
    suites = {suite.get("name"): suite for suite in ET.parse("out.xml").getroot()}
    assert "gates" not in suites
    assert suites["eval"].get("errors") == "1"


def test_junit_that_cannot_be_written_is_told_after_the_report(seq, gateway, ran):
    """Exit 1, or 8 where a bar was missed, which says more."""
    body, details = rated(18)
    ran(body, {**details, "episodes": [], "episodes_total": 20})
    gateway.refuse("GET", f"/v1/eval/{ID}/episodes", "internal", 500)
    ended = seq(*RUN, "--junit", "out.xml")
    assert ended.code == 1
    assert "report: completed" in ended.out
    assert "error[internal]: its episodes: the internal sentence" in ended.err
    assert not Path("out.xml").exists()
    assert seq(*RUN, "--junit", "out.xml", "--gate", "success >= 0.95").code == 8


# The wait.


def test_an_eval_in_line_says_so_and_every_change(seq, gateway):
    """The started line has the cards, the free ones and when it gives up; then a line a change, none without one."""
    body, details = outcome()
    waiting = {**body, "status": "queued", "metrics": {}}
    running = {**waiting, "status": "running"}
    gateway.on("POST", "/v1/eval", {"eval_id": ID, "status": "queued", "queue": QUEUE})
    gateway.on("GET", f"/v1/eval/{ID}", waiting, waiting, waiting, running, running, body)
    gateway.on(
        *("GET", f"/v1/eval/{ID}/details"),
        {"queue": QUEUE, "progress": {"done": 0, "total": 20}},
        {"queue": {**QUEUE, "waited_s": 9.0}, "progress": {"done": 0, "total": 20}},
        {"queue": {**QUEUE, "available": 2}, "progress": {"done": 0, "total": 20}},
        {"progress": {"done": 0, "total": 20}},
        {"progress": {"done": 7, "total": 20}},
        {**details, "progress": {"done": 20, "total": 20}},
    )
    ended = seq(*RUN)
    assert ended.code == 0
    assert ended.out.splitlines()[0] == (
        f"eval {ID}: in line for 3 card(s), 1 free now, gives up at 2026-01-01T00:10:00.000Z"
    )
    assert ended.err.splitlines() == [
        "in line: needs 3 card(s), 1 free now, gives up at 2026-01-01T00:10:00.000Z",
        "in line: needs 3 card(s), 2 free now, gives up at 2026-01-01T00:10:00.000Z",
        "running: 0 of 20 episodes done",
        "running: 7 of 20 episodes done",
        "completed: 20 of 20 episodes done",
    ]


def test_the_started_line_has_the_estimate_and_the_hold(seq, gateway, ran):
    """So that whoever runs it sees what it takes."""
    ran(estimate={"wall_clock_s": 240.0, "cost_usd": 0.06, "held_usd": 0.09})
    ended = seq(*RUN, "--no-wait")
    assert ended.out.splitlines() == [
        f"eval {ID}: started, about 4 min, about $0.0600; $0.0900 held",
        f"next: `seq eval report {ID} --wait`",
    ]
    assert [request.method for request in gateway.requests] == ["POST"]


def test_an_eval_that_outlasts_the_wait_is_no_missed_gate(seq, gateway, ran):
    """7 with how to read it later: there is no final report to judge, and the time that was asked for is kept."""
    ran({**outcome()[0], "status": "running"})
    ended = seq(*RUN, "--gate", "success >= 0", "--timeout", "60")
    assert ended.code == 7
    assert f"`seq eval report {ID} --wait` waits again" in ended.err
    assert not lines_of_gates(ended)
    assert 60.0 <= gateway.clock.now - 1000.0 <= 61.0


def test_contact_lost_for_too_long_ends_the_wait(seq, gateway, ran):
    """7 after five minutes, saying that the work goes on and how to wait again."""
    ran()
    gateway.on("GET", f"/v1/eval/{ID}", httpx.ConnectError("refused"))
    ended = seq(*RUN)
    assert ended.code == 7
    assert "the work goes on" in ended.err
    assert f"seq eval report {ID} --wait" in ended.err
    assert 240.0 <= gateway.clock.now - 1000.0 <= 300.0


def test_a_platform_that_fails_during_the_wait_leaves_the_eval(seq, gateway, ran):
    """Exit 1 with the platform's sentence, and how to go on."""
    ran()
    gateway.refuse("GET", f"/v1/eval/{ID}", "internal", 500)
    ended = seq(*RUN)
    assert ended.code == 1
    assert ended.err.splitlines()[:2] == [
        f"the eval goes on: `seq eval report {ID} --wait` waits again, `seq eval cancel {ID}` stops it",
        "error[internal]: the internal sentence",
    ]


def test_ctrl_c_leaves_the_eval_and_says_how_to_go_on(seq, gateway, ran):
    """130, with the id, and nothing is sent to stop it."""
    ran()
    gateway.on("GET", f"/v1/eval/{ID}", {**outcome()[0], "status": "running"}, KeyboardInterrupt())
    ended = seq(*RUN)
    assert ended.code == 130
    assert f"`seq eval report {ID} --wait`" in ended.err
    assert f"`seq eval cancel {ID}`" in ended.err
    assert "Traceback" not in ended.err
    assert [request.method for request in gateway.requests].count("POST") == 1


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (httpx.ReadTimeout("slow"), 7)])
def test_a_start_without_an_answer_says_how_to_learn_of_it(seq, gateway, stop, code):
    """It may have begun: it is not sent again, and the list tells."""
    gateway.on("POST", "/v1/eval", stop)
    ended = seq(*RUN)
    assert ended.code == code
    assert "`seq eval ls arm-a`" in ended.err
    assert len(gateway.requests) == 1


@pytest.mark.parametrize(
    ("code", "status", "number"),
    [
        ("invalid_request", 400, 2),
        ("unauthenticated", 401, 3),
        ("forbidden", 403, 3),
        ("not_found", 404, 4),
        ("conflict", 409, 5),
        ("insufficient_credit", 402, 6),
        ("busy", 429, 7),
        ("unavailable", 503, 7),
        ("internal", 500, 1),
    ],
)
def test_a_refused_start_ends_with_the_number_of_its_code(seq, gateway, code, status, number):
    """Nothing more is asked, and no eval is said to go on."""
    gateway.refuse("POST", "/v1/eval", code, status)
    ended = seq(*RUN, "--gate", "success >= 0")
    assert ended.code == number
    assert ended.err.startswith(f"error[{code}]: the {code} sentence")
    assert len(gateway.requests) == 1


def test_a_refusal_over_parameters_lists_what_can_be_set(seq, gateway):
    """What the platform names is printed a line each."""
    gateway.refuse("POST", "/v1/eval", "invalid_request", 400, details={"settable": ["policy.k (int, 3)"]})
    assert seq(*RUN, "--param", "z=1").err.splitlines()[1] == "  policy.k (int, 3)"


def test_a_dry_run_shows_the_arms_and_as_json_the_whole_answer(seq, gateway):
    """Arms with each parameter's value and source; what the platform sent is what `--json` prints."""
    setting = {"policy": {"k": {"value": 3, "source": "cli"}}}
    answer = {
        "estimate": {"wall_clock_s": 60, "cost_usd": 0.5, "held_usd": 0.6},
        "layout": {"arms": [{"arm": "arm-a k=3", "model": "arm-a", "settings": setting}]},
        "planning": ["20 starts tell a difference of 0.2"],
    }
    gateway.on("POST", "/v1/eval", answer)
    out = seq(*RUN, "--param", "k=3", "--dry-run").out
    assert "policy.k=3 (cli)" in out
    assert "hold $0.6000" in out
    assert "20 starts tell" in out
    for arguments in (("--json", *RUN, "--dry-run"), (*RUN, "--dry-run", "--json")):
        assert json.loads(seq(*arguments).out) == answer
