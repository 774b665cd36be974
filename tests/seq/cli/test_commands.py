"""What each command sends and shows, against a gateway that is a table of answers."""

from __future__ import annotations

import base64
import json

import httpx
import pytest

from seq.contract.adapters import content_hash

POLICY = """
import seq

@seq.policy(name="arm-a", gpu="cpu", action=seq.ActionContract(
    robot="toy", action_space=seq.ActionSpace.JOINT_ABSOLUTE, action_dim=1, control_frequency_hz=10))
class ArmA(seq.Policy):
    @seq.load
    def load(self):
        pass

    @seq.infer
    def infer(self, obs, *, seed=None):
        return [[0.0]]
"""

ADAPTER = """
import seq
from seq import tf

@seq.adapter(name="bridge")
class Bridge(seq.Adapter):
    policy_io = "own"
    obs_transforms = [tf.rename({"a": "b"})]
    action_transforms = [tf.custom("half", lambda rows: rows, lossy="drops half")]
"""

BENCHMARK = """
import seq

@seq.benchmark(name="line", gpu="cpu", cpu=1, conditions=seq.conditions(["go"], [0, 1]))
class Line(seq.Benchmark):
    @seq.reset
    def reset(self, seed, variant):
        return object()

    @seq.check
    def check(self, env):
        return seq.Step(done=True, metrics={"success": True})
"""

PRICING = {
    "gpus": [{"gpu": "L4", "usd_per_hour": 0.8, "usd_per_second": 0.0002, "vram_gb": 24, "policy": True}],
    "cpu": {"usd_per_core_hour": 0.04},
    "memory": {"usd_per_gib_hour": 0.005},
}
BUILDING = {
    "deployment": "arm-a",
    "version": 2,
    "state": "building",
    "phases": [{"phase": "image", "at": 1.0}],
    "log": "a",
}
READY = {**BUILDING, "state": "ready", "phases": [{"phase": "image", "at": 1.0}, {"phase": "load", "at": 2.0}]}
RUNNING = {"status": "running", "metrics": {}, "cost_usd": 0.0, "dashboard_url": "u", "adapter_lossy": []}
DONE = {
    **RUNNING,
    "status": "completed",
    "metrics": {"success": {"overall": 1.0, "n": 2, "per_task": [], "per_suite": []}},
    "videos": ["http://elsewhere/v1/eval/e-12345678/videos/0.mp4"],
}
EPISODE = {"index": 0, "task": "go", "seed": 0, "steps": 1, "metrics": {"success": 1.0}}


@pytest.fixture
def files(seq, tmp_path):
    """A policy, an adapter and a benchmark file in the folder the command runs in."""
    work = tmp_path / "work"
    for name, text in (("arm.py", POLICY), ("bridge.py", ADAPTER), ("line_bench.py", BENCHMARK)):
        (work / name).write_text(text)
    return work


def test_validate_reads_back_what_a_deploy_would_send(seq, gateway, files):
    """Labelled lines, exit 0, nothing sent; `--json` is the request's body, before the command and at its end alike."""
    ended = seq("validate", "arm.py")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[0] == "policy      arm-a"
    assert "toy · joint_absolute · 1 dims · 10 Hz" in ended.out
    bodies = [
        json.loads(seq(*arguments).out)
        for arguments in (("--json", "validate", "arm.py"), ("validate", "arm.py", "--json"))
    ]
    assert bodies[0] == bodies[1]
    assert bodies[0]["policy"]["handler_ref"] == "arm:ArmA"
    assert gateway.requests == []


def test_a_deploy_sends_the_request_and_follows_the_build(seq, gateway, files):
    """Each phase is a line as it begins, once; the end says how to connect and what a worker costs."""
    gateway.on("POST", "/v1/deployments", {"deployment_id": "arm-a", "status": "building"}, status=202)
    gateway.on("GET", "/v1/deployments/arm-a/build", BUILDING, BUILDING, READY)
    gateway.on("GET", "/v1/pricing", PRICING)
    ended = seq("deploy", "arm.py", "--replace")
    assert ended.code == 0, ended.err
    assert ended.err.splitlines() == [
        "image: building the environment",
        "  a",
        "load: the worker is loading the policy",
    ]
    assert ended.out.splitlines() == [
        "arm-a is ready",
        'connect: sequence_ai.connect(model="arm-a")',
        "one worker costs $0.00 (GPU) + $0.0050 (CPU) + $0.0006 (memory) an hour",
    ]
    assert gateway.requests[0].url.query == b"replace=true"


def test_max_gpus_limits_the_cards_of_a_policy_that_holds_some(seq, gateway, files):
    """It is kept in the request; on a policy without a card it would change nothing, so it is refused."""
    (files / "card.py").write_text(POLICY.replace('gpu="cpu"', 'gpu="L4"'))
    gateway.on("GET", "/v1/deployments/arm-a/claim", {"state": "free"})
    ended = seq("deploy", "card.py", "--max-gpus", "3", "--dry-run", "--json")
    assert json.loads(ended.out)["request"]["autoscaler"]["max_gpus"] == 3
    refused = seq("deploy", "arm.py", "--max-gpus", "3")
    assert refused.code == 2
    assert "arm-a holds none" in refused.err
    assert gateway.sent("POST", "/v1/deployments") == []


def test_a_failed_build_shows_its_log_and_what_still_serves(seq, gateway, files):
    """Exit 5, the policy's own error, the last 20 lines of the log, and that the old version goes on."""
    log = "\n".join(f"line {number}" for number in range(30))
    gateway.on("POST", "/v1/deployments", {"deployment_id": "arm-a"})
    gateway.on(
        "GET", "/v1/deployments/arm-a/build", {**BUILDING, "state": "failed", "error": "ValueError: no arm", "log": log}
    )
    gateway.on("GET", "/v1/deployments", {"data": [{"name": "arm-a", "status": "ready", "version": 1}]})
    ended = seq("deploy", "arm.py")
    assert ended.code == 5
    shown = ended.err.splitlines()
    assert "error[conflict]: version 2 of arm-a failed to build: ValueError: no arm" in shown
    assert [line for line in shown if line.startswith("  line ")][-20:] == [
        f"  line {number}" for number in range(10, 30)
    ]
    assert shown[-1] == "hint: v1 still serves, as before"


def test_a_build_that_takes_longer_than_the_wait_goes_on(seq, gateway, files):
    """Exit 7, saying how to wait again."""
    gateway.on("POST", "/v1/deployments", {"deployment_id": "arm-a"})
    gateway.on("GET", "/v1/deployments/arm-a/build", BUILDING)
    ended = seq("deploy", "arm.py", "--timeout", "30")
    assert ended.code == 7
    assert "error[timeout]: arm-a is still building after 30 s; the build goes on" in ended.err
    assert "seq policy status arm-a --wait" in ended.err
    assert 30.0 <= gateway.clock.now - 1000.0 <= 31.0


def test_no_wait_returns_once_it_is_accepted(seq, gateway, files):
    """Nothing is polled."""
    gateway.on("POST", "/v1/deployments", {"deployment_id": "other"})
    ended = seq("deploy", "arm.py", "--no-wait", "--name", "other")
    assert ended.code == 0
    assert "seq policy status other --wait" in ended.out
    assert [request.method for request in gateway.requests] == ["POST"]
    assert gateway.sent("POST", "/v1/deployments")[0]["name"] == "other"


@pytest.mark.parametrize(
    ("claim", "arguments", "code"),
    [
        ({"state": "new"}, (), 0),
        ({"state": "taken", "held_by": "old:Old"}, (), 5),
        ({"state": "taken", "held_by": "old:Old"}, ("--replace",), 0),
        ({"state": "invalid", "detail": "too long"}, (), 2),
    ],
)
def test_a_dry_deploy_prints_the_request_and_the_claim(seq, gateway, files, claim, arguments, code):
    """Nothing is submitted; a name that a real deploy would not get decides the exit."""
    gateway.on("GET", "/v1/deployments/arm-a/claim", claim)
    ended = seq("deploy", "arm.py", "--dry-run", *arguments)
    assert ended.code == code
    assert f"claim       {claim['state']}" in ended.out
    assert ended.out.splitlines()[0] == "policy      arm-a"
    assert [request.method for request in gateway.requests] == ["GET"]


def test_a_benchmark_is_registered_and_waited_for(seq, gateway, files):
    """Its phases come from its log; a failed check is exit 5 with the reason."""
    gateway.on("POST", "/v1/benchmarks", {"name": "line", "status": "building"})
    gateway.on(
        "GET", "/v1/benchmarks/line", {"name": "line", "status": "building"}, {"name": "line", "status": "ready"}
    )
    gateway.on("GET", "/v1/benchmarks/line/logs", {"phases": [{"phase": "check", "at": 1.0}], "log": ""})
    ended = seq("deploy", "line_bench.py")
    assert ended.code == 0, ended.err
    assert ended.err.splitlines() == ["check: one reset and step of each environment"]
    failed = {"name": "line", "status": "failed", "error": "check returned no metric"}
    gateway.on("GET", "/v1/benchmarks/line", failed)
    ended = seq("deploy", "line_bench.py")
    assert ended.code == 5
    assert "benchmark line failed to build: check returned no metric" in ended.err
    assert seq("benchmark", "status", "line").code == 5


def test_a_benchmark_is_waited_for_longer_while_its_log_moves(seq, gateway, files):
    """Without --timeout the hour is extended while the log moves, and ends when it stands still."""
    gateway.on("POST", "/v1/benchmarks", {"name": "line", "status": "building"})
    gateway.on("GET", "/v1/benchmarks/line", {"name": "line", "status": "building"})
    gateway.on("GET", "/v1/benchmarks/line/logs", {"log": "still at it"})
    ended = seq("deploy", "line_bench.py")
    assert ended.code == 7
    assert gateway.clock.now - 1000.0 == pytest.approx(5400.0)


def test_an_adapter_is_registered_once_a_content(seq, gateway, files):
    """The version and its loss; the same file again says that it is the version it already is."""
    accepted = {"name": "bridge", "version": 1, "created": True, "lossy": True, "sha256": "0" * 64}
    gateway.on("POST", "/v1/adapters", accepted, {**accepted, "created": False})
    assert seq("deploy", "bridge.py").out == "registered bridge@v1 (lossy)\n"
    assert seq("deploy", "bridge.py").out == "bridge@v1 is already registered (lossy): nothing new\n"
    assert gateway.sent("POST", "/v1/adapters")[0]["source"] == ADAPTER
    assert seq("deploy", "bridge.py", "--max-gpus", "2").code == 2


def test_an_adapter_file_is_checked_without_sending_anything(seq, gateway, files):
    """Each step with its label and reason; a policy file is no adapter."""
    ended = seq("adapter", "check", "bridge.py")
    assert ended.code == 0, ended.err
    assert "rename" in ended.out
    assert "drops half" in ended.out
    assert ended.out.splitlines()[-1] == "ok: every label is true; nothing was sent"
    assert "source" not in json.loads(seq("adapter", "check", "bridge.py", "--json").out)
    assert seq("adapter", "check", "arm.py").code == 2
    assert gateway.requests == []


def test_an_adapter_is_pulled_byte_for_byte(seq, gateway, files):
    """The file is the registered text; a different one stays unless forced; a changed text is not written."""
    source = "x = 'é'\r\n"
    body = {
        "name": "a",
        "version": 2,
        "class_name": "A",
        "handler_ref": "pkg.mod:A",
        "source": source,
        "sha256": content_hash("A", source),
    }
    gateway.on("GET", "/v1/adapters/a/source", body)
    assert seq("adapter", "pull", "a@v2").out == "wrote mod.py (a@v2)\n"
    assert gateway.requests[-1].url.query == b"version=2"
    assert (files / "mod.py").read_bytes() == source.encode()
    (files / "mod.py").write_text("mine")
    assert seq("adapter", "pull", "a").code == 2
    assert (files / "mod.py").read_text() == "mine"
    assert seq("adapter", "pull", "a", "--force").code == 0
    gateway.on("GET", "/v1/adapters/a/source", {**body, "source": "changed"})
    assert seq("adapter", "pull", "a", "-o", "other.py").code == 1
    assert not (files / "other.py").exists()


def test_an_eval_is_started_followed_and_reported(seq, gateway, files):
    """What was asked is sent; changes go to stderr, each once; the report to stdout; exit 0 on completed."""
    gateway.on("POST", "/v1/eval", {"eval_id": "e-12345678", "estimate": {"wall_clock_s": 60, "cost_usd": 0.5}})
    gateway.on("GET", "/v1/eval/e-12345678", RUNNING, RUNNING, RUNNING, DONE)
    progress = [{"progress": {"done": done, "total": 2}} for done in (0, 0, 1, 2)]
    gateway.on("GET", "/v1/eval/e-12345678/details", *progress)
    ended = seq(
        *("eval", "run", "arm-a", "--benchmark", "line", "--tasks", "go,stop", "--trials", "2", "--envs", "4"),
        *("--variants", "light=dim,bright", "--param", "k=3", "--param", "policy.x=0.5", "--sweep", "on=true,false"),
        *("--record", "all"),
    )
    assert ended.code == 0, ended.err
    assert gateway.sent("POST", "/v1/eval") == [
        {
            "model": "arm-a",
            "benchmark": "line",
            "tasks": ["go", "stop"],
            "trials": 2,
            "policy_instances": 1,
            "benchmark_instances": 1,
            "envs": 4,
            "variants": {"light": ["dim", "bright"]},
            "params": {"k": 3, "policy.x": 0.5},
            "sweep": {"on": [True, False]},
            "record": "all",
        }
    ]
    assert ended.err.splitlines() == [
        "running: 0 of 2 episodes done",
        "running: 1 of 2 episodes done",
        "completed: 2 of 2 episodes done",
    ]
    assert ended.out.splitlines()[0] == "eval e-12345678: started, about 60 s, about $0.5000"
    assert "success:                 1.000  n=2 *" in ended.out


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("failed", 1), ("canceled", 1)])
def test_an_eval_that_did_not_complete_ends_with_1(seq, gateway, status, code):
    """Both `run` and `report` say by their exit whether the eval completed."""
    gateway.on("POST", "/v1/eval", {"eval_id": "e1"})
    gateway.on("GET", "/v1/eval/e1", {**DONE, "status": status})
    assert seq("eval", "run", "p", "--benchmark", "b").code == code
    assert seq("eval", "report", "e1").code == code
    assert seq("eval", "status", "e1").code == (1 if status == "failed" else 0)


def test_an_eval_that_outlasts_the_wait_goes_on(seq, gateway):
    """Exit 7 with how to read it later."""
    gateway.on("POST", "/v1/eval", {"eval_id": "e1"})
    gateway.on("GET", "/v1/eval/e1", RUNNING)
    ended = seq("eval", "run", "p", "--benchmark", "b", "--timeout", "60")
    assert ended.code == 7
    assert "seq eval report e1 --wait" in ended.err


def test_contact_lost_during_an_eval_is_waited_out(seq, gateway):
    """A gateway that is away for a while costs a line on stderr, not the report."""
    gateway.on("POST", "/v1/eval", {"eval_id": "e1"})
    gateway.on("GET", "/v1/eval/e1", RUNNING, httpx.ConnectError("refused"), httpx.ConnectError("refused"), DONE)
    ended = seq("eval", "run", "p", "--benchmark", "b")
    assert ended.code == 0
    assert ended.err.count("lost contact") == 2


def test_a_local_adapter_file_is_registered_before_its_eval(seq, gateway, files):
    """`--adapter ./file.py:Class` runs as the version that it was registered as."""
    accepted = {"name": "bridge", "version": 4, "created": True, "lossy": True, "sha256": "0" * 64}
    gateway.on("POST", "/v1/adapters", accepted)
    gateway.on("POST", "/v1/eval", {"eval_id": "e1"})
    ended = seq("eval", "run", "p", "--benchmark", "b", "--adapter", "./bridge.py:Bridge", "--no-wait")
    assert ended.code == 0, ended.err
    assert gateway.sent("POST", "/v1/eval")[0]["adapter"] == "bridge@v4"


def test_a_dry_run_starts_nothing_and_is_readable_as_json(seq, gateway):
    """The platform is asked with dry_run; `--json` is its answer."""
    answer = {"estimate": {"wall_clock_s": 60, "cost_usd": 0.5, "vlm_calls": 0}, "notes": ["shares cores"]}
    gateway.on("POST", "/v1/eval", answer)
    assert seq("eval", "run", "p", "--benchmark", "b", "--dry-run").out.splitlines() == [
        "estimate: about 60 s, about $0.5000",
        "note: shares cores",
    ]
    assert json.loads(seq("eval", "run", "p", "--benchmark", "b", "--dry-run", "--json").out) == answer
    assert gateway.sent("POST", "/v1/eval")[0]["dry_run"] is True


def test_a_report_saves_its_episodes_and_videos(seq, gateway, files):
    """The CSV and a file a recording, fetched from the platform that was asked, whatever host the link names."""
    video = base64.b64decode("AAAA")
    gateway.on("GET", "/v1/eval/e-12345678", DONE)
    gateway.on("GET", "/v1/eval/e-12345678/details", {"episodes": [EPISODE], "progress": {"total": 1}})
    gateway.on("GET", "/v1/eval/e-12345678/videos/0.mp4", video)
    ended = seq("eval", "report", "e-12345678", "--csv", "out.csv", "--videos", "clips")
    assert ended.code == 0, ended.err
    assert (files / "clips" / "eval-e-123456-0.mp4").read_bytes() == video
    assert (files / "out.csv").read_text().splitlines()[1].startswith("0,go,0,")
    assert seq("eval", "report", "e-12345678", "--csv", "-").out == (files / "out.csv").read_text()


def test_a_report_with_something_missing_ends_with_1(seq, gateway, files):
    """A recording that cannot be fetched, or a CSV without episodes, is said; the rest is still done."""
    gateway.on("GET", "/v1/eval/e-12345678", DONE)
    ended = seq("eval", "report", "e-12345678", "--videos", "clips")
    assert ended.code == 1
    assert "error[not_found]" in ended.err
    assert "report: completed" in ended.out
    assert seq("eval", "report", "e-12345678", "--csv", "out.csv").code == 1


def test_a_report_of_many_episodes_is_read_page_by_page(seq, gateway):
    """Where the details hold only a part, the CSV still has every episode."""
    gateway.on("GET", "/v1/eval/e1", DONE)
    gateway.on("GET", "/v1/eval/e1/details", {"episodes": [], "progress": {"total": 2}})
    pages = [{"episodes": [EPISODE], "next_cursor": "c"}, {"episodes": [{**EPISODE, "index": 1}], "next_cursor": None}]
    gateway.on("GET", "/v1/eval/e1/episodes", *pages)
    assert len(seq("eval", "report", "e1", "--csv", "-").out.splitlines()) == 3
    assert b"cursor=c" in gateway.requests[-1].url.query


def test_a_list_ends_with_which_rows_it_showed(seq, gateway):
    """The last line says which rows of how many, and the cursor of the next page."""
    row = {"name": "arm-a", "status": "ready", "version": 3, "gpu": "cpu", "weights": None, "stopped": False}
    page = {"data": [row], "total": 9, "offset": 4, "next_cursor": "abc"}
    gateway.on("GET", "/v1/deployments", page)
    ended = seq("policy", "ls", "--limit", "1", "--cursor", "x")
    assert ended.code == 0
    assert "arm-a" in ended.out
    assert ended.out.splitlines()[-1] == "5-5 of 9; next page: --cursor abc"
    assert gateway.requests[-1].url.query == b"limit=1&cursor=x"
    assert json.loads(seq("policy", "ls", "--json").out) == page


@pytest.mark.parametrize(
    ("arguments", "path", "body", "shown"),
    [
        (("benchmark", "ls"), "/v1/benchmarks", {"benchmarks": [{"name": "b", "version": 1, "status": "ready"}]}, "v1"),
        (
            ("adapter", "ls"),
            "/v1/adapters",
            {"adapters": [{"name": "a", "latest": 2, "versions": 2, "lossy": False}]},
            "lossless",
        ),
        (("volume", "ls"), "/v1/volumes", {"data": [{"name": "eval:1", "size_bytes": 2048}]}, "2.0 KiB"),
        (("secret", "ls"), "/v1/secrets", {"secrets": [{"name": "s", "env_keys": ["A", "B"]}]}, "A, B"),
        (
            ("key", "ls"),
            "/v1/keys",
            {"data": [{"id": "k1", "key": "seq_live_ab…wxyz", "kind": "full"}]},
            "seq_live_ab…wxyz",
        ),
        (
            ("eval", "ls", "p"),
            "/v1/deployments/p/evals",
            {"history": [{"eval_id": "e", "model_version": 1, "benchmark": "b", "metric": "success", "value": 0.5}]},
            "0.500",
        ),
        (("models",), "/v1/models", {"data": []}, "no chat"),
        (("gpus",), "/v1/pricing", PRICING, "L4"),
        (("account",), "/v1/account", {"gpus": {"limit": 8, "in_use": {"serving": None}}}, "serving unknown"),
        (("eval", "cancel", "e1"), "/v1/eval/e1/cancel", {"eval_id": "e1", "status": "canceled"}, "canceled"),
        (("policy", "rm", "p"), "/v1/deployments/p", {"deleted": True, "workers_stopped": 1}, "1 worker(s) ended"),
        (("benchmark", "rm", "b"), "/v1/benchmarks/b", {"deleted": True}, "removed b"),
        (("status",), "/v1/status", {"gateway": {"url": "http://x", "pid": 7}, "workers": []}, "pid 7"),
        (("status",), "/v1/status", {"cards": {"L4": 2, "H100": 1}, "pretend": False}, "1 x H100, 2 x L4\nno worker"),
        (("status",), "/v1/status", {"cards": {"L4": 2}, "pretend": True}, "pretend: this machine has none"),
        (("status",), "/v1/status", {"cards": None, "pretend": None}, "no worker"),
    ],
)
def test_each_command_shows_what_it_read(seq, gateway, arguments, path, body, shown):
    """A person's view without `--json`, the platform's answer with it."""
    gateway.on("GET", "/v1/templates", {"data": []})
    method = {"cancel": "POST", "rm": "DELETE"}.get(arguments[1] if len(arguments) > 1 else "", "GET")
    gateway.on(method, path, body)
    ended = seq(*arguments)
    assert ended.code == 0, ended.err
    assert shown in ended.out
    as_json = seq(*arguments, "--json")
    assert as_json.code == 0
    assert json.loads(as_json.out) is not None


def test_a_long_build_error_is_cut_in_the_list(seq, gateway):
    """One line of 60 characters in the table, the whole error in JSON."""
    error = "the build failed:\n" + "x" * 100
    gateway.on("GET", "/v1/deployments", {"data": [{"name": "p", "status": "failed", "version": 1, "error": error}]})
    assert seq("policy", "ls").out.splitlines()[1].endswith("  the build failed: " + "x" * 39 + "...")
    assert json.loads(seq("policy", "ls", "--json").out)["data"][0]["error"] == error


def test_a_new_key_goes_alone_to_stdout(seq, gateway):
    """So that `KEY=$(seq key create)` holds the key and nothing else."""
    made = {
        "id": "k",
        "name": "n",
        "key": "seq…",
        "kind": "act",
        "deployment": "p",
        "secret": "seq_live_x",
        "account": "a",
    }
    gateway.on("POST", "/v1/keys", made)
    ended = seq("key", "create", "--deployment", "p", "--name", "n")
    assert ended.out == "seq_live_x\n"
    assert "act key for p" in ended.err
    assert gateway.sent("POST", "/v1/keys") == [{"name": "n", "deployment": "p"}]


def test_a_failed_deployment_ends_status_with_5_unless_an_older_version_serves(seq, gateway):
    """An older version that serves makes it a warning."""
    gateway.on("GET", "/v1/deployments/p", {"status": "failed", "model": "p", "error": "no arm"})
    gateway.on("GET", "/v1/deployments", {"data": []}, {"data": [{"name": "p", "status": "ready", "version": 1}]})
    assert seq("policy", "status", "p").code == 5
    ended = seq("policy", "status", "p")
    assert ended.code == 0
    assert "warning: v1 still serves" in ended.out


def test_the_templates_are_listed_and_written(seq, gateway, files):
    """`init` writes the files under the directory's name, says what is next, and touches nothing that is there."""
    listed = seq("init", "--list")
    assert listed.code == 0
    assert "  toy-policy         stable=v1" in listed.out.splitlines()
    bare = seq("init")
    assert (bare.code, bare.out) == (2, listed.out)
    ended = seq("init", "toy-policy@stable", "arms/arm-b")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == ["wrote arms/arm-b/ (toy-policy v1)", "next: `seq deploy arms/arm-b/policy.py`"]
    assert 'name="arm-b"' in (files / "arms/arm-b/policy.py").read_text()
    assert seq("init", "toy-policy", "arms/arm-b").code == 5
    assert seq("init", "nope").code == 4
    assert seq("init", "toy-policy@v9", "other").code == 4
    assert not (files / "other").exists()
    assert gateway.requests == []


@pytest.mark.parametrize("name", ["ü", "@", "-x"])
def test_a_folder_whose_name_no_policy_may_have_is_refused(seq, files, name):
    """Before anything is written: `seq deploy` would refuse the copy. A benchmark keeps its own name anywhere."""
    ended = seq("init", "toy-policy", f"./{name}")
    assert ended.code == 2
    assert f"got {name!r}" in ended.err
    assert not (files / name).exists()
    assert seq("init", "toy-benchmark", f"./{name}").code == 0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("def (", "syntax error"),
        ("import no_such_package", "no_such_package"),
        ("x = 1", "declares no"),
        (POLICY + POLICY.replace("ArmA", "ArmB"), "ArmB"),
    ],
)
def test_a_file_that_declares_no_one_thing_is_refused(seq, gateway, files, text, word):
    """A syntax error, a missing package, nothing, two policies: each one sentence, exit 2, nothing sent."""
    (files / "wrong.py").write_text(text)
    for command in ("validate", "deploy"):
        ended = seq(command, "wrong.py")
        assert ended.code == 2
        assert word in ended.err
        assert ended.err.startswith("error[invalid_request]: ")
        assert "Traceback" not in ended.err
    assert gateway.requests == []
