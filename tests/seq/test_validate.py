"""The echo of a declaration: what would be installed, mounted, uploaded and checked."""

import pytest

import seq
from seq.contract import CONTRACT_VERSION
from seq.validate import Line, validate


def _text(lines) -> str:
    return "\n".join(f"{line.depth} {line.label} {line.text}" for line in lines)


def test_a_policys_echo_lists_every_part(toy):
    """Name, contract, image, weights, code with its files, I/O and parameters."""
    echo = validate(toy["policy"])

    assert (echo.kind, echo.name, echo.request.name) == ("policy", "toy-policy", "toy-policy")
    assert [line.label for line in echo.lines if line.label] == [
        "policy",
        "platform",
        "image",
        "weights",
        "code",
        "I/O",
        "io",
        "params",
    ]
    assert CONTRACT_VERSION in echo.lines[1].text
    assert Line("", "policy.py", 2) in echo.lines


def test_image_steps_stand_in_build_order(policy_class):
    """Each step is a line of its own under the image."""
    image = (
        seq.Image.debian_slim().apt_install("git", "gcc").uv_pip_install("numpy").run_commands("make").env({"A": "1"})
    )
    lines = validate(seq.policy(gpu="cpu", image=image)(policy_class())).lines

    assert [(line.label, line.text) for line in lines if line.depth == 1] == [
        ("apt-get install", "git, gcc"),
        ("uv pip install", "numpy"),
        ("run", "make"),
        ("env", "A=1"),
    ]


def test_contracts_are_spelled_out(policy_class):
    """Robot, space, dims and rate; cameras with sizes and history, vectors with lengths."""
    action = seq.ActionContract(robot="arm", action_space="joint_absolute", action_dim=7, control_frequency_hz=15)
    observation = seq.ObservationContract(
        cameras={"front": seq.Camera(width=224, height=200)},
        history=2,
        proprio={"joint_positions": 7},
        state={"goal": 3},
    )
    text = _text(validate(seq.policy(gpu="cpu", action=action, observation=observation)(policy_class())).lines)

    assert "arm · joint_absolute · 7 dims · 15 Hz" in text
    assert "front 224x200 x 2 frames · joint_positions[7] · goal[3] · instruction" in text


def test_a_benchmarks_echo_counts_its_episodes(toy):
    """Sims, episodes and the action it takes."""
    text = _text(validate(toy["benchmark"]).lines)

    assert "3 task(s) x 8 seed(s), at most 40 steps" in text
    assert "CPU, 4 cores" in text
    assert "toy_line · ee_delta · 1 dims · 10 Hz" in text


def test_an_adapters_echo_labels_each_step(toy):
    """Every transform with its pipeline and whether it loses something."""
    lines = validate(toy["adapter"]).lines

    assert [(line.label, line.text) for line in lines if line.depth == 1] == [
        ("obs", "rename(arm_x->state,goal_x->goal)  lossless"),
        ("action", "custom(delta_to_step)  lossless"),
    ]


def test_what_is_refused_has_no_echo():
    """An undecorated class is an authoring error."""
    with pytest.raises(seq.SeqAuthoringError):
        validate(int)
