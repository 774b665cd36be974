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


DRIVE = """
import sequence_ai
with sequence_ai.connect(model="panda-still") as policy:
    obs = sequence_ai.observation(
        images={name: bytes.fromhex(JPEG) for name in ("front", "wrist")},
        joints=[0.0] * 7, gripper=[0.0], instruction="hold still", state=STATE,
    )
    print(policy.predict(obs).action_chunk)
    print(len(policy.next_action(obs)))
"""


def test_driving_a_deployment(published: Path, user: dict[str, str], shared: Platform, tmp_path: Path) -> None:
    """The published `connect` acts on one of our workers and reads its chunk."""
    buffer = io.BytesIO()
    Image.new("RGB", (224, 224)).save(buffer, "JPEG")
    declared = shared.api("GET", "/v1/deployments/panda-still/io").json()["observation"]
    state = {name: [0.0] * length for name, length in declared["state"].items()} or None
    script = f"JPEG = {buffer.getvalue().hex()!r}\nSTATE = {state!r}\n{DRIVE}"
    out = call([str(published / "python"), "-W", "ignore", "-c", script], user, tmp_path)
    assert "joint_absolute, franka_panda, 20 Hz" in out
    assert out.strip().endswith("8")
