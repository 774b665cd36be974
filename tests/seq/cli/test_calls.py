"""`seq.deploy` and `seq.eval`: the Python calls behind the command."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

import seq as sdk
from seq import deploying, evaluating
from sequence_ai import Conflict, InvalidRequest, Unavailable

REPORT = {
    "status": "completed",
    "metrics": {
        "success": {"overall": 0.5, "n": 2, "per_task": [{"task": "go", "value": 0.5, "n": 2}], "per_suite": []}
    },
    "cost_usd": 0.25,
    "dashboard_url": "http://x",
    "adapter_lossy": [],
    "videos": [],
}
READY = {"deployment": "arm", "version": 1, "state": "ready", "phases": [], "log": ""}


@pytest.fixture
def arm(tmp_path, monkeypatch):
    """A policy class of a file of its own."""
    (tmp_path / "arm_file.py").write_text(
        "import seq\n\n@seq.policy(name='arm', gpu='cpu')\nclass Arm(seq.Policy):\n"
        "    @seq.infer\n    def infer(self, obs, *, seed=None):\n        return [[0.0]]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "arm_file", raising=False)
    from arm_file import Arm  # noqa: PLC0415

    return Arm


@pytest.fixture(autouse=True)
def _connected(gateway, monkeypatch):
    for module in (deploying, evaluating):
        monkeypatch.setattr(module, "connect", lambda *_, **__: gateway.api())


def test_the_signatures_are_the_published_ones():
    """Files written for the product pass these keywords."""
    assert list(inspect.signature(sdk.deploy).parameters) == [
        "cls", "name", "base_url", "api_key", "wait", "timeout_s", "poll_interval_s", "existing_volumes",
    ]  # fmt: skip
    assert list(inspect.signature(sdk.eval).parameters) == [
        "model", "benchmark", "adapter", "suite", "tasks", "trials", "policy_instances", "policy_gpu",
        "benchmark_instances", "benchmark_gpu", "envs", "region", "compare", "sweep", "params", "variants", "max_usd",
        "record", "dry_run", "wait", "timeout_s", "base_url", "api_key",
    ]  # fmt: skip


def test_a_deployed_policy_is_its_name_and_more(gateway, arm):
    """The handle equals, prints and hashes as the name, and asks the platform how it is."""
    gateway.on("POST", "/v1/deployments", {"deployment_id": "arm"})
    gateway.on("GET", "/v1/deployments/arm/build", READY)
    gateway.on("GET", "/v1/deployments/arm", {"status": "ready", "model": "arm"})
    handle = sdk.deploy(arm)
    assert handle == "arm"
    assert (str(handle), hash(handle), handle.name) == ("arm", hash("arm"), "arm")
    assert handle.status().status == "ready"
    assert handle.wait() is handle


def test_a_build_that_fails_or_outlasts_the_wait_is_raised(gateway, arm):
    """Conflict with its state, or Unavailable with code timeout; the interval that was asked for is kept."""
    gateway.on("POST", "/v1/deployments", {"deployment_id": "arm"})
    gateway.on("GET", "/v1/deployments/arm/build", {**READY, "state": "failed", "error": "no arm"})
    with pytest.raises(Conflict, match="no arm") as failed:
        sdk.deploy(arm)
    assert failed.value.details["state"] == "failed"
    gateway.on("GET", "/v1/deployments/arm/build", {**READY, "state": "building"})
    with pytest.raises(Unavailable) as late:
        sdk.deploy(arm, timeout_s=9, poll_interval_s=3)
    assert late.value.code == "timeout"
    assert gateway.clock.slept[-3:] == [3, 3, 3]


def test_a_class_is_deployed_by_name_too(gateway, arm):
    """`seq.deploy("pkg.module:Class", wait=False)` returns once it is accepted."""
    gateway.on("POST", "/v1/deployments", {"deployment_id": "other"})
    assert sdk.deploy("arm_file:Arm", name="other", wait=False) == "other"
    assert gateway.sent("POST", "/v1/deployments")[0]["name"] == "other"


@pytest.mark.parametrize(
    ("options", "word"), [({"name": "no spaces"}, "no spaces"), ({"existing_volumes": ["v"]}, "volumes")]
)
def test_a_deploy_that_cannot_be_is_refused_before_it_is_sent(gateway, arm, options, word):
    """A name no object may have, and volumes, which there are none of."""
    with pytest.raises(InvalidRequest, match=word):
        sdk.deploy(arm, **options)
    assert gateway.requests == []


def test_an_eval_answers_an_estimate_a_report_or_its_id(gateway, arm):
    """The three answers of one call; a decorated class stands for its name."""
    estimate = {"wall_clock_s": 60, "cost_usd": 0.5, "vlm_calls": 0}
    gateway.on("POST", "/v1/eval", {"estimate": estimate}, {"eval_id": "e1"})
    gateway.on("GET", "/v1/eval/e1", REPORT)
    dry = sdk.eval(arm, "line", envs=16, dry_run=True)
    assert (dry.wall_clock_s, dry.cost_usd) == (60.0, 0.5)
    report = sdk.eval("arm", "line", adapter="bridge@v2", variants={"light": ("dim",)})
    assert report.metrics["success"].overall == 0.5
    assert report.metrics["success"].per_task[0].n == 2
    assert sdk.eval("arm", "line", wait=False) == "e1"
    bodies = gateway.sent("POST", "/v1/eval")
    assert (bodies[0]["model"], bodies[0]["dry_run"], bodies[0]["envs"]) == ("arm", True, 16)
    assert (bodies[1]["adapter"], bodies[1]["variants"]) == ("bridge@v2", {"light": ["dim"]})


def test_an_eval_that_still_runs_at_the_deadline_returns_as_it_is(gateway):
    """A Python caller gets the report so far instead of an error."""
    gateway.on("POST", "/v1/eval", {"eval_id": "e1"})
    gateway.on("GET", "/v1/eval/e1", {**REPORT, "status": "running", "metrics": {}})
    assert sdk.eval("arm", "line", timeout_s=20).status == "running"


@pytest.mark.parametrize("options", [{"trials": 0}, {"envs": 0}, {"policy_instances": 0}, {"record": "some"}])
def test_an_eval_that_cannot_be_is_refused_before_it_is_sent(gateway, options):
    """The wrong value is named with what was given."""
    (name, value), *_ = options.items()
    with pytest.raises(InvalidRequest, match=rf"{name}: .*got {value!r}"):
        sdk.eval("arm", "line", **options)
    assert gateway.requests == []


def test_an_adapters_source_is_what_was_registered(gateway, monkeypatch, tmp_path):
    """`seq.adapter_source` verifies the text and writes it where asked."""
    from seq import sources  # noqa: PLC0415
    from seq.contract.adapters import content_hash  # noqa: PLC0415

    monkeypatch.setattr(sources, "connect", lambda *_, **__: gateway.api())
    body = {"name": "a", "version": 1, "class_name": "A", "handler_ref": "m:A", "source": "x = 1\n"}
    gateway.on("GET", "/v1/adapters/a/source", {**body, "sha256": content_hash("A", "x = 1\n")})
    target = Path(tmp_path) / "a.py"
    assert sdk.adapter_source("a", 1, path=target) == "x = 1\n"
    assert target.read_text() == "x = 1\n"
