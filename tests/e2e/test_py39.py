"""The client on Python 3.9 with httpx alone, as on a robot's computer."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import uv

import sequence_ai
from sequence_ai.testing import FakePlatform, chunk

pytestmark = [pytest.mark.e2e, pytest.mark.py39]

ROOT = Path(__file__).resolve().parents[2]
BACKPORTS = ("exceptiongroup", "typing-extensions")  # httpx's own, on an old Python

# What a robot's own program does, in the old interpreter; prints one JSON object.
ROBOT = """
import base64, importlib.util, json, sys
import sequence_ai

state, jpeg = json.loads(sys.argv[2]), base64.b64decode(sys.argv[3])
seen = sequence_ai.observation(
    images={"front": jpeg, "wrist": jpeg}, joints=[0.0] * 7, gripper=[0.0], state=state, instruction="go"
)
with sequence_ai.connect(sys.argv[1]) as policy:
    policy.wait_until_ready()
    prediction = policy.predict(seen, seed=1)
    actions = [policy.next_action(seen) for _ in range(3)]
    contract = policy.contract
print(json.dumps({
    "version": list(sys.version_info[:2]),
    "chunk": str(prediction.action_chunk),
    "actions": actions,
    "robot": contract["action"]["robot"],
    "others": [name for name in ("numpy", "PIL", "pydantic", "seq") if importlib.util.find_spec(name)],
}))
"""


def interpreter():
    """A Python 3.9 of this machine, from PATH or pyenv; None when there is none."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    candidates = [shutil.which("python3.9"), *sorted(root.glob("versions/3.9.*/bin/python3.9"))]
    return next((str(path) for path in candidates if path and _answers(path)), None)


def _answers(path):
    """A pyenv shim is on PATH even when no 3.9 stands behind it, so each candidate is asked."""
    ask = [path, "-c", "import sys; print(sys.version_info[:2])"]
    told = subprocess.run(ask, capture_output=True, text=True, check=False)
    return told.stdout.strip() == "(3, 9)"


@pytest.fixture(scope="module")
def python39(tmp_path_factory):
    """An environment of Python 3.9 with httpx and a copy of the client, and nothing else of ours."""
    found = interpreter()
    if found is None:
        pytest.skip("no Python 3.9 on PATH or under pyenv: install one to run the client's oldest supported version")
    folder = tmp_path_factory.mktemp("py39")
    venv = folder / "venv"
    python = venv / "bin" / "python"
    tool = uv.find_uv_bin()
    subprocess.run([tool, "venv", "-q", "--no-config", "--python", found, venv], check=True)
    subprocess.run([tool, "pip", "install", "-q", "--no-config", "--python", python, "httpx"], check=True)
    shutil.copytree(Path(sequence_ai.__file__).parent, folder / "client" / "sequence_ai")
    return python, folder / "client"


def run(python39, code, *arguments, **environment):
    """What `code` prints in the old interpreter, with warnings as errors and this checkout out of its reach."""
    python, client = python39
    done = subprocess.run(
        [python, "-W", "error", "-c", code, *arguments],
        cwd=client,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def drive(python39, model, url, key, state=None):
    """What the robot's program reports after driving `model` of the platform at `url`."""
    frame = sequence_ai.encode(np.zeros((8, 8, 3), np.uint8))
    told = run(python39, ROBOT, model, json.dumps(state), frame, SEQUENCES_BASE_URL=url, SEQUENCES_API_KEY=key)
    return json.loads(told)


def test_every_module_imports_on_39(python39):
    """Each module of the client, the testing one too, imports on 3.9."""
    files = (path.relative_to(python39[1]).with_suffix("") for path in (python39[1] / "sequence_ai").rglob("*.py"))
    names = sorted(".".join(file.parts).removesuffix(".__init__") for file in files)
    run(python39, f"import importlib\nfor name in {names!r}: importlib.import_module(name)")


def test_a_robot_on_39_drives_a_real_deployment(python39, shared):
    """With httpx alone, a program on 3.9 drives a deployment of a real platform: connect, pinned TLS, act, close."""
    declared = shared.api("GET", "/v1/deployments/panda-still/io").json()["observation"]
    state = {name: [0.0] * length for name, length in declared["state"].items()}
    told = drive(python39, "panda-still", shared.address["url"], shared.key, state)
    assert told["version"] == [3, 9]
    assert "joint_absolute, franka_panda, 20 Hz" in told["chunk"]
    assert [len(action) for action in told["actions"]] == [8, 8, 8]
    assert (told["robot"], told["others"]) == ("franka_panda", [])


def test_a_robot_on_39_drives_a_deployment(python39):
    """With httpx alone, a program on 3.9 waits for, predicts from and plays a deployment over real sockets."""
    platform = FakePlatform(infer=lambda _: {"action_chunk": chunk([[0.0, 0.0], [1.0, 1.0]])})
    with platform.served() as gateway, platform.served() as worker:
        platform.connect["worker_url"] = worker.url
        told = drive(python39, "toy-policy", gateway.url, platform.key)
    assert told["version"] == [3, 9]
    assert told["chunk"].startswith("ActionChunk(2 steps x 2 dims")
    assert told["actions"] == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert (told["robot"], told["others"]) == ("fake_arm", [])
    assert platform.to("/v1/act/release")


def test_the_distribution_installs_with_httpx_alone(python39, tmp_path):
    """On 3.9 the whole distribution is the client and httpx; `seq` says that it needs 3.10, and exits with 1."""
    venv, tool = tmp_path / "venv", uv.find_uv_bin()
    subprocess.run([tool, "venv", "-q", "--no-config", "--python", interpreter(), venv], check=True)
    python = venv / "bin/python"
    subprocess.run([tool, "pip", "install", "-q", "--no-config", "--python", python, ROOT], check=True)
    listed = subprocess.run(
        [tool, "pip", "list", "--no-config", "--python", python, "--format", "json"], capture_output=True, check=True
    )
    names = {entry["name"] for entry in json.loads(listed.stdout)}
    assert names <= {"sequence-ai", "httpx", "httpcore", "h11", "anyio", "certifi", "idna", "sniffio", *BACKPORTS}
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for command in ([venv / "bin/seq", "--help"], [python, "-m", "seq", "policy", "ls"]):
        done = subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "3.10" in done.stderr
        assert "Traceback" not in done.stderr
    told = "import sequence_ai; print(len(sequence_ai.__all__))"
    assert (
        int(subprocess.run([python, "-c", told], env=clean, cwd=tmp_path, capture_output=True, check=True).stdout) > 40
    )
