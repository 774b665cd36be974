"""The mission's "Benchmarks & eval" section, as written, from `seq init` on."""

import csv
import io
import subprocess
import sys

import pytest

from tests.e2e.harness import Platform

SHELL = """
seq init toy-policy
seq init toy-benchmark
seq init toy-adapter
seq deploy toy-policy/policy.py
seq deploy toy-benchmark/benchmark.py
seq deploy toy-adapter/adapter.py
seq eval run toy-policy --benchmark toy-benchmark --adapter toy-adapter --envs 16 --dry-run
seq eval run toy-policy --benchmark toy-benchmark --adapter toy-adapter --envs 16
"""

PYTHON = """
import seq

est = seq.eval("toy-policy", "toy-benchmark", adapter="toy-adapter", envs=16, dry_run=True)
assert est.wall_clock_s > 0 and est.cost_usd >= 0

report = seq.eval("toy-policy", "toy-benchmark", adapter="toy-adapter", envs=16)
print(report.metrics["success"].overall)
print(report.metrics["success"].per_task)
print(report.cost_usd, report.dashboard_url, report.videos, report.adapter_lossy)
"""


@pytest.fixture(scope="module")
def walked(shared: Platform, tmp_path_factory) -> tuple[Platform, str, str]:
    """The shell block run once, and what it printed."""
    folder = tmp_path_factory.mktemp("walk")
    script = ["bash", "-euo", "pipefail", "-c", SHELL]
    done = subprocess.run(script, env=shared.env, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return shared, done.stdout, done.stderr


def test_the_shell_block_runs_as_written(walked) -> None:
    """Init, deploy of all three kinds, dry run and run: exit 0, an estimate, a score with its interval."""
    _, out, _ = walked
    assert "estimate:" in out
    assert "success" in out
    assert "95% CI [" in out
    assert "toy-adapter@v1" in out


def test_the_python_block_runs_as_written(walked) -> None:
    """The same from Python: an estimate, then a report with metrics by task."""
    platform, _, _ = walked
    done = subprocess.run(
        [sys.executable, "-c", PYTHON], env=platform.env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "TaskAgg" in done.stdout


def test_status_report_cancel_and_ls(walked) -> None:
    """A finished eval can be looked at again by its id, canceling it changes nothing, and it stands in the list."""
    platform, _, _ = walked
    listed = platform.json("eval", "ls", "toy-policy")
    eval_id = (listed.get("history") or listed["evals"])[0]["eval_id"]
    assert "completed" in platform.seq("eval", "status", eval_id)
    assert "completed" in platform.seq("eval", "report", eval_id)
    rows = list(csv.DictReader(io.StringIO(platform.seq("eval", "report", eval_id, "--csv", "-"))))
    assert [row["index"] for row in rows] == [str(index) for index in range(len(rows))]
    assert {row["error"] for row in rows} == {""}
    platform.seq("eval", "cancel", eval_id)
    assert "completed" in platform.seq("eval", "status", eval_id)
    assert eval_id[:8] in platform.seq("eval", "ls", "toy-policy")


def test_the_same_adapter_file_is_the_same_version(walked, tmp_path) -> None:
    """Deploying it again makes no version; changing a byte makes the next one."""
    platform, _, _ = walked
    platform.seq("init", "toy-adapter", tmp_path / "again")
    assert "toy-adapter@v1" in platform.seq("deploy", tmp_path / "again" / "adapter.py")
    with (tmp_path / "again" / "adapter.py").open("a") as file:
        file.write("\n# another byte\n")
    assert "toy-adapter@v2" in platform.seq("deploy", tmp_path / "again" / "adapter.py")


def test_what_this_platform_does_not_have_is_refused_in_a_sentence(walked) -> None:
    """A region, cards that are not here, evals that are not there: each by name, with its code; nothing starts."""
    platform, _, _ = walked
    run = ["eval", "run", "toy-policy", "--benchmark", "toy-benchmark"]
    before = platform.json("eval", "ls", "toy-policy")["total"]
    for flags, exits, code in (
        (["--region", "eu"], 2, "invalid_request"),
        (["--policy-gpu", "L4"], 2, "invalid_request"),
        (["--benchmark-gpu", "L4"], 2, "invalid_request"),
        (["--rerun-failed", "0" * 32], 4, "not_found"),
        (["--rerun-unsuccessful", "0" * 32], 4, "not_found"),
    ):
        adapter = [] if exits == 4 else ["--adapter", "toy-adapter"]
        refused = platform.run(*run, *adapter, *flags)
        assert refused.returncode == exits, (flags, refused.stdout, refused.stderr)
        assert refused.stderr.startswith(f"error[{code}]: "), (flags, refused.stderr)
    assert platform.json("eval", "ls", "toy-policy")["total"] == before
