"""What an image may ask of a machine without a container engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import Refused
from runner.images import check_image, pythons
from runner.images.commands import build_env, summary
from seq.contract.image import ImageSpec


def image(*steps, base="debian:12-slim", **rest):
    return ImageSpec(base=base, steps=list(steps), **rest)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine with two Pythons and one system package."""
    monkeypatch.setattr(pythons, "pythons", lambda: {"3.11": Path("/p/3.11"), "3.12": Path("/p/3.12")})
    monkeypatch.setattr("runner.images.steps._is_installed", lambda name: name == "libgl1")


@pytest.mark.parametrize(
    "step",
    [
        {"uv_pip_install": ["numpy==2.4.6", "tomli>=2"]},
        {"apt_install": ["libgl1"]},
        {"env": {"MUJOCO_GL": "egl"}},
        {"run_commands": ["uv pip install --no-deps gym-hil==0.1.14", "git clone https://h/apt && cd apt && make"]},
        {"run_commands": ["echo 'sudo apt-get install' > notes"]},
        {"add_local": {"src": "_seq_local/0/a", "dst": "/env/a"}},
    ],
)
def test_what_stays_inside_the_environment_is_taken(step):
    """Packages, installed system packages, variables, commands and files below /env are accepted."""
    check_image(image(step))


@pytest.mark.parametrize(
    ("step", "word"),
    [
        ({"run_commands": ["apt-get update"]}, "apt-get"),
        ({"run_commands": ["cd /tmp && sudo make install"]}, "sudo"),
        ({"run_commands": ["DEBIAN_FRONTEND=x apt install y"]}, "apt"),
        ({"run_commands": ["uv pip install --system numpy"]}, "--system"),
        ({"uv_pip_install": ["--system", "numpy"]}, "--system"),
        ({"apt_install": ["libgl1", "libegl1"]}, "libegl1 not installed"),
        ({"env": {"SEQ_X": "1"}}, "SEQ_X"),
        ({"env": {"PATH": "/x"}}, "PATH"),
        ({"run_commands": ["true"], "secrets": [{"name": "gh"}]}, "no secret named 'gh'"),
        ({"add_local": {"src": "_seq_local/0/a", "dst": "/opt/a"}}, "/opt/a"),
        ({"add_local": {"src": "_seq_local/0/a", "dst": "/env/../etc/a"}}, "/env/../etc/a"),
    ],
)
def test_what_would_reach_beyond_it_is_refused_in_a_sentence(step, word):
    """Each refusal names what was asked; those that only an engine could do say that none is here."""
    with pytest.raises(Refused) as refused:
        check_image(image(step))
    assert refused.value.code == "invalid_request"
    assert word in refused.value.detail


def test_refusals_of_system_writes_say_that_there_is_no_engine():
    """The sentence for apt tells why."""
    with pytest.raises(Refused, match="no container engine is here"):
        check_image(image({"run_commands": ["apt install x"]}))


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        (image(), "3.11"),
        (image(python="3.12"), "3.12"),
        (image(base="python:3.12-slim"), "3.12"),
        (image(base="python:3.12-slim", python="image"), "3.12"),
        (image(base="docker.io/library/debian:12-slim"), "3.11"),
    ],
)
def test_the_python_follows_from_the_declaration_or_the_base(spec, version):
    """`python=` wins, a python:* base brings its own, else it is 3.11."""
    assert pythons.resolve(spec) == Path("/p") / version


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (image(python="3.13"), "it has 3.11, 3.12"),
        (image(base="python:3.10"), "Python 3.10"),
        (image(base="nvidia/cuda:12.2.2"), "nvidia/cuda:12.2.2"),
        (image(base="python:latest"), "python:latest"),
        (image(python="image"), "cannot be told"),
        (ImageSpec(dockerfile="FROM debian"), "Dockerfile"),
    ],
)
def test_a_python_or_base_that_is_not_here_is_refused(spec, word):
    """A Python the machine lacks is refused naming those found; a foreign base names itself."""
    with pytest.raises(Refused) as refused:
        check_image(spec)
    assert word in refused.value.detail


def test_builds_see_where_packages_come_from_and_nothing_of_the_platform(monkeypatch, tmp_path):
    """Index and proxy settings reach a build; the platform's keys, homes and other variables do not."""
    monkeypatch.setenv("UV_INDEX_URL", "https://index.example")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    monkeypatch.setenv("UV_SYSTEM_PYTHON", "1")
    monkeypatch.setenv("SEQUENCES_API_KEY", "seq_live_x")
    env = build_env(tmp_path / "env", tmp_path / "tools", {"A": "1"}, "/bin")
    assert (env["UV_INDEX_URL"], env["HTTPS_PROXY"], env["A"]) == ("https://index.example", "http://proxy.example", "1")
    assert env["PATH"].split(":")[0] == str(tmp_path / "env" / "bin")
    assert env["HOME"] == str(tmp_path / "env" / "home")
    assert not {"SEQUENCES_API_KEY", "UV_SYSTEM_PYTHON", "SEQ_HOME", "PYTHONPATH"} & set(env)


def test_a_failure_is_summed_up_from_where_the_tool_began_to_explain():
    """uv's drawing characters and the lines before its explanation are left out."""
    said = summary(
        [
            "Using Python 3.11 environment",
            "  × No solution found when resolving dependencies:",  # noqa: RUF001
            "  ╰─▶ Because nosuch was not found in the registry and you require",
            "      nosuch, your requirements are unsatisfiable.",
        ]
    )
    assert said.startswith("No solution found when resolving dependencies: Because nosuch was not found")
    assert "Using Python" not in said
