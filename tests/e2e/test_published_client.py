"""The published client and command, unmodified, in an environment of their own, against our gateway."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e.harness import ROOT, Platform

UV = str(Path(sys.executable).parent / "uv")
PINS = ("sequence-ai==0.33.69", "sequence-base==0.4.11", "pillow", "numpy")


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """The bin folder of an environment with the published packages."""
    folder = tmp_path_factory.mktemp("published") / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", "3.11", str(folder)], check=True)
    subprocess.run([UV, "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *PINS], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def user(shared: Platform) -> dict[str, str]:
    """Their environment: an address and a key, and nothing of ours on the path."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**clean, "SEQUENCES_BASE_URL": shared.address["url"], "SEQUENCES_API_KEY": shared.key}


def call(command: list[str], env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_walkthrough(published: Path, user: dict[str, str], tmp_path: Path) -> None:
    """init, deploy of all three kinds, dry run, run, status, report and list, with the published `seq`."""
    seq = str(published / "seq")
    for name, file in (("toy-policy", "policy.py"), ("toy-benchmark", "benchmark.py"), ("toy-adapter", "adapter.py")):
        call([seq, "init", name], user, tmp_path)
        call([seq, "deploy", f"{name}/{file}"], user, tmp_path)
    run = [seq, "eval", "run", "toy-policy", "--benchmark", "toy-benchmark", "--adapter", "toy-adapter", "--envs", "16"]
    assert "estimate" in call([*run, "--dry-run"], user, tmp_path)
    out = call(run, user, tmp_path)
    assert "success" in out
    listed = json.loads(call([seq, "--json", "eval", "ls", "toy-policy"], user, tmp_path))
    eval_id = listed["history"][0]["eval_id"]
    assert "completed" in call([seq, "eval", "status", eval_id], user, tmp_path)
    assert "index,task,seed" in call([seq, "eval", "report", eval_id, "--csv", "-"], user, tmp_path)
    for command in (["policy", "ls"], ["benchmark", "ls"], ["adapter", "ls"], ["account"], ["gpus"], ["models"]):
        call([seq, *command], user, tmp_path)


def test_a_metric_that_never_varies(published: Path, user: dict[str, str], tmp_path: Path) -> None:
    """A mean without an interval is printed by the published command, not choked on."""
    seq, file = str(published / "seq"), ROOT / "tests/supports/steady.py"
    call([seq, "deploy", f"{file}:Steady"], user, tmp_path)
    call([seq, "deploy", f"{file}:SteadyPolicy"], user, tmp_path)
    out = call([seq, "eval", "run", "steady-policy", "--benchmark", "steady"], user, tmp_path)
    assert "metres_a_step" in out
    listed = json.loads(call([seq, "--json", "eval", "ls", "steady-policy"], user, tmp_path))
    assert "completed" in call([seq, "eval", "status", listed["history"][0]["eval_id"]], user, tmp_path)


@pytest.fixture(scope="module")
def ramp(shared: Platform) -> str:
    """A deployment with limits, an open-loop horizon and a camera, warm."""
    shared.seq("deploy", f"{ROOT / 'tests/supports/ramp.py'}:Ramp", timeout=900)
    return "ramp"


def jpeg() -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    return buffer.getvalue().hex()


def test_the_same_script_comes_to_the_same(published: Path, user: dict[str, str], ramp: str, tmp_path: Path) -> None:
    """connect, predict, run, act, interrupt, ready, label and close: both clients tell the same of each."""
    script = ["-W", "ignore", str(ROOT / "tests/supports/drive.py"), ramp, jpeg()]
    theirs = json.loads(call([str(published / "python"), *script], user, tmp_path))
    ours = json.loads(call([sys.executable, *script], {**user, "PYTHONPATH": str(ROOT)}, tmp_path))
    assert ours == theirs
    assert theirs["run"]["actions"] == 10
    assert theirs["interrupted"] == {"reason": "interrupted", "held": "hold", "moved": True}


OUTAGE = """
import os, signal, sys, time
import sequence_ai
joints, played = [0.0, 0.0], []
def observe():
    return sequence_ai.observation(images={"front": bytes.fromhex(sys.argv[2])}, joints=joints, instruction="go")
def act(row):
    played.append(time.monotonic())
    if len(played) == 20:
        os.kill(int(sys.argv[3]), signal.SIGKILL)
with sequence_ai.connect(model=sys.argv[1]) as policy:
    out = policy.run(observe, act, max_actions=140, validate=lambda row: True, progress=False)
print(out.reason, out.actions)
"""


def test_a_gateway_that_dies_between_renewals_stops_no_robot(
    published: Path, bare_home: Platform, tmp_path: Path
) -> None:
    """The published client renews inside an act, so between its renewals a dead gateway does nothing to its loop."""
    bare_home.seq("up")
    bare_home.seq("deploy", f"{ROOT / 'tests/supports/ramp.py'}:Ramp", timeout=900)
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    user = {**clean, "SEQUENCES_BASE_URL": bare_home.address["url"], "SEQUENCES_API_KEY": bare_home.key}
    command = [str(published / "python"), "-W", "ignore", "-c", OUTAGE, "ramp", jpeg(), str(bare_home.address["pid"])]
    assert call(command, user, tmp_path).split() == ["completed", "140"]
