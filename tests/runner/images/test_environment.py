"""Environments made by uv: by content, once, whole or not at all."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runner.images import BuildError, Environment, build, find, process_env, sdk
from runner.images.commands import run
from runner.images.environment import content_hash, runtime_pins
from runner.settings import Settings
from seq.contract.image import ImageSpec

PYTHON = Path("/p/3.11")


def image(*steps):
    return ImageSpec(base="debian:12-slim", steps=list(steps))


def test_the_name_of_an_environment_follows_its_content(tmp_path):
    """Equal content has one name; a step, a pin, an added file's bytes or another Python changes it."""
    local = tmp_path / "_seq_local" / "0"
    local.mkdir(parents=True)
    (local / "a.txt").write_text("one")
    added = image({"add_local": {"src": "_seq_local/0/a.txt", "dst": "/env/a.txt"}})
    base = content_hash(image(), PYTHON, tmp_path)
    assert base == content_hash(image(), PYTHON, tmp_path)
    first = content_hash(added, PYTHON, tmp_path)
    (local / "a.txt").write_text("two")
    names = {
        base,
        first,
        content_hash(added, PYTHON, tmp_path),
        content_hash(image({"env": {"A": "1"}}), PYTHON, tmp_path),
        content_hash(image(), PYTHON.with_name("3.12"), tmp_path),
    }
    assert len(names) == 5


def test_the_order_of_steps_counts(tmp_path):
    """Steps are done in the order written, so another order is another environment."""
    one, two = {"env": {"A": "1"}}, {"uv_pip_install": ["x"]}
    assert content_hash(image(one, two), PYTHON, tmp_path) != content_hash(image(two, one), PYTHON, tmp_path)


def test_an_added_file_that_the_bundle_lacks_is_a_sentence(tmp_path):
    """A source outside the bundle, or not in it, is named."""
    for src in ("_seq_local/0/none", "../../etc/passwd"):
        with pytest.raises(BuildError, match="the code bundle holds no"):
            content_hash(image({"add_local": {"src": src, "dst": "/env/a"}}), PYTHON, tmp_path)


def test_an_environment_that_is_not_there_is_said_so(tmp_path):
    """Looking up one that was never made, or only half, raises with what to do."""
    settings = Settings(home=tmp_path)
    (settings.envs / "half" / "bin").mkdir(parents=True)
    for name in ("none", "half"):
        with pytest.raises(BuildError, match="deploy it again"):
            find(settings, name)


def test_two_builds_of_one_image_make_it_once(monkeypatch, tmp_path):
    """Whoever comes second waits for the first and finds what it made."""
    settings, begun, made = Settings(home=tmp_path), threading.Barrier(2, timeout=30), []

    def make(spec, python, root, *_):
        made.append(root)
        (root / "bin").mkdir(parents=True)
        (root / "bin" / "python").touch()
        return {}

    def one():
        begun.wait()
        return build(settings, image(), tmp_path, lambda _: None)

    monkeypatch.setattr("runner.images.environment._make", make)
    with ThreadPoolExecutor() as pool:
        first, second = [done.result() for done in [pool.submit(one), pool.submit(one)]]
    assert first == second
    assert len(made) == 1


def test_half_of_an_environment_is_made_anew(monkeypatch, tmp_path):
    """What a killed platform left without its marker is removed before the build."""
    settings, seen = Settings(home=tmp_path), []

    def make(spec, python, root, *_):
        seen.append(root.exists())
        (root / "bin").mkdir(parents=True)
        (root / "bin" / "python").touch()
        return {}

    monkeypatch.setattr("runner.images.environment._make", make)
    made = build(settings, image(), tmp_path, lambda _: None)
    (made.root / ".ready").unlink()
    build(settings, image(), tmp_path, lambda _: None)
    assert seen == [False, False]


def test_a_users_process_gets_nothing_of_the_platforms(monkeypatch, tmp_path):
    """Its variables are the image's and a fixed few; the platform's own do not reach it."""
    monkeypatch.setenv("SEQUENCES_API_KEY", "seq_live_x")
    monkeypatch.setenv("UV_INDEX_URL", "https://index.example")
    environment = Environment("h", tmp_path, tmp_path / "bin/python", {"MUJOCO_GL": "egl"})
    env = process_env(environment, tmp_path / "sdk", tmp_path / "code")
    assert env["PYTHONPATH"] == f"{tmp_path}/sdk:{tmp_path}/code"
    assert env["PATH"].startswith(f"{tmp_path}/bin:")
    assert set(env) == {
        "MUJOCO_GL", "PATH", "VIRTUAL_ENV", "PYTHONPATH", "HOME", "LANG", "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED", "SEQ_MANIFEST",
    }  # fmt: skip


def test_the_copy_of_our_packages_is_made_once_and_imports_alone(tmp_path):
    """The copy holds every package, no caches of ours, and is found again."""
    settings = Settings(home=tmp_path)
    folder = sdk(settings)
    assert sdk(settings) == folder
    assert sorted(path.name for path in folder.iterdir()) == ["runner", "seq", "sequence_ai", "sequence_base", "sims"]
    assert [path.name for path in settings.sdk.iterdir()] == [folder.name]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import seq.contract.internal as m; print(m.__file__)"
    where = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert where.stdout.strip().startswith(str(folder))


def test_a_failing_command_tells_its_step_and_its_words(tmp_path):
    """The error names the step, its exit and what it said; every line went to the log."""
    lines = []
    with pytest.raises(BuildError, match=r"`make it` failed \(exit 3\): error: no rule"):
        run(
            ["/bin/sh", "-c", "echo hi; echo 'error: no rule'; exit 3"],
            label="make it",
            env={},
            cwd=tmp_path,
            log=lines.append,
        )
    assert lines == ["$ make it", "hi", "error: no rule"]


@pytest.mark.slow
def test_an_image_becomes_an_environment_with_all_its_steps(tmp_path):
    """Runtime packages, a user's package, a variable, a command and a file are there; a second build takes none."""
    settings, lines = Settings(home=tmp_path / "home"), []
    local = tmp_path / "code" / "_seq_local" / "0"
    local.mkdir(parents=True)
    (local / "a.txt").write_text("hello")
    wanted = image(
        {"env": {"A_FILE": "/env/data/a.txt"}},
        {"add_local": {"src": "_seq_local/0/a.txt", "dst": "/env/data/a.txt"}},
        {"run_commands": ["cat $A_FILE > seen.txt && uv pip install --no-deps tomli==2.2.1"]},
        {"uv_pip_install": ["httpx==0.27.2"]},
    )
    made = build(settings, wanted, tmp_path / "code", lines.append)
    code = "import httpx, tomli, numpy, pydantic, starlette, uvicorn, msgpack, PIL, os; print(httpx.__version__)"
    shown = subprocess.run(
        [made.python, "-c", code], env=process_env(made), capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert shown.stdout.strip() == "0.27.2"
    assert (made.root / "seen.txt").read_text() == "hello"
    assert process_env(made)["A_FILE"] == str(made.root / "data" / "a.txt")
    again = []
    assert build(settings, wanted, tmp_path / "code", again.append) == made == find(settings, made.hash)
    assert len(again) == 1
    assert any(runtime_pins()[0] in line for line in lines)


@pytest.mark.slow
def test_a_failed_image_leaves_nothing(tmp_path):
    """A package that does not exist fails the build in a sentence, and no folder of it stays."""
    settings = Settings(home=tmp_path)
    with pytest.raises(BuildError, match="surely-not-a-package-of-anyone"):
        build(settings, image({"uv_pip_install": ["surely-not-a-package-of-anyone"]}), tmp_path, lambda _: None)
    assert [path.name for path in settings.envs.iterdir() if not path.name.endswith(".lock")] == []
