"""The client's half of the golden bodies: it reads each to the values meant and writes each back alike.

The platform's half, reading the same files with `seq.contract`, is in the test beside this one. A file changed for one
side alone fails the other.
"""

import json
from pathlib import Path

import httpx
import numpy as np
import pytest

import sequence_ai
from sequence_ai import ImageFrame, Observation, PolicyError, Proprioception, Unavailable, _wire, from_response
from sequence_ai.testing import FakePlatform

GOLDEN = Path(__file__).parent / "golden"


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.fixture
def platform():
    """A platform that makes the golden connect answer its own."""
    with FakePlatform().in_place() as fake:
        yield fake


def connected(platform, **options):
    return sequence_ai.connect("toy-policy", base_url=platform.url, api_key=platform.key, **options)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("connect_request", {"embodiment": None, "params": None, "move": False}),
        ("connect_request_full", {"embodiment": "left_arm", "params": {"steps": 4, "greedy": True}, "move": True}),
    ],
)
def test_connect_requests_are_written(name, choices):
    """A connect request holds what was chosen and nothing that was not."""
    body = golden(name)
    assert _wire.connect_body("toy-policy", body["session"], **choices) == body


def test_the_connect_answer_is_read():
    """Coordinates, lease, contracts, embodiment, parameters and the wish to move are all read."""
    body = golden("connect_answer")
    answer = _wire.read_connect(body)
    assert (answer.worker_url, answer.fingerprint) == ("https://127.0.0.1:8443/w/abc", "a1" * 32)
    assert (answer.secret, answer.lease_s, answer.epoch) == ("a-worker-secret", 300.0, 4)
    assert (answer.action, answer.observation) == (body["action"], body["observation"])
    assert (answer.embodiment, answer.params, answer.rotate) == ("left_arm", {"steps": 4}, True)
    assert answer.encodings == ("json", "msgpack")


def test_a_connect_answer_that_declares_nothing_is_read():
    """Nulls are absent declarations: no lease, no contract, no body, no wish to move."""
    answer = _wire.read_connect(golden("connect_answer_minimal"))
    assert (answer.lease_s, answer.action, answer.observation, answer.embodiment) == (0, None, None, None)
    assert (answer.params, answer.rotate) == ({}, False)
    assert (answer.encodings, _wire.best_encoding(answer)) == (("json",), "json")


def test_a_robot_arm_act_is_written(platform):
    """An observation, read from the golden act, is sent as exactly that act, explicit nulls and all."""
    body = golden("act_request_robot_arm")
    seen = body["observation"]
    observation = Observation(
        [ImageFrame(**frame) for frame in seen["images"]],
        Proprioception(**seen["proprioception"]),
        seen["instruction"],
        seen["state"],
    )
    with connected(platform, embodiment="left_arm", params={"steps": 4}) as policy:
        policy.predict(observation, seed=7, episode_id=body["episode_id"])
    assert platform.to("/act")[0].body == body
    assert observation.images[0].array()[4].argmax(axis=-1).tolist() == [0, 0, 0, 0, 2, 2, 2, 2]
    assert observation.images[2].array().tolist() == [[0, 500], [1000, 2000]]


def test_an_opaque_act_is_written(platform):
    """Raw inputs go as they are; the array in them takes its one JSON form."""
    body = golden("act_request_opaque")
    image = np.arange(6, dtype=np.float32).reshape(2, 3)
    inputs = {"position": [0.5, -0.25], "image": image, "note": None, "step": 3}
    raw = []
    platform.infer = lambda read: raw.append(read) or {"outputs": None}
    with connected(platform) as policy:
        policy.predict(inputs, seed=7, episode_id=body["episode_id"])
    assert json.loads(_wire.dumps(raw[0])) == body
    assert (raw[0]["inputs"]["image"] == image).all()


def test_act_answers_are_read():
    """A chunk's rows, horizon and timings are read; bare rows and absent options too; outputs come back with arrays."""
    prediction = _wire.read_prediction(golden("act_answer_robot_arm"), request_id="r-1", model="m")
    chunk = prediction.action_chunk
    assert chunk.steps == [[0.0, 0.1, 0.04], [0.1, 0.2, 0.04], [0.2, 0.3, 0.0]]
    assert (chunk.open_loop_horizon, chunk.sustains_seconds, prediction.id) == (2, 0.1, "r-0123abcd")
    assert (prediction.perf["handler_ms"], len(prediction.warnings)) == (83.0, 1)
    bare = _wire.read_prediction(golden("act_answer_bare_rows"), request_id="r-1", model="m")
    assert (bare.action_chunk.steps, bare.action_chunk.open_loop_horizon, bare.id) == ([[0, 0.1, 0.04]], None, "r-1")
    outputs = _wire.read_outputs(_wire.loads((GOLDEN / "act_answer_opaque.json").read_bytes()))
    assert outputs["action"] == [0.5, 0.5]
    assert (outputs["value"] == [1, 2]).all()


def test_the_release_is_written(platform):
    """Closing sends the name and the session of the connect."""
    with connected(platform) as policy:
        policy.predict(1)
    sent = platform.to("/v1/act/release")[0].body
    assert sent == {**golden("release_request"), "session": platform.to("/v1/act/connect")[0].body["session"]}


def test_readiness_is_read(platform):
    """The readiness answer is a yes or no and a guess."""
    platform.answer_next("/v1/act/ready", httpx.Response(200, json=golden("ready_answer")))
    assert connected(platform).ready() == (False, 12.5)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("error_*.json")), ids=lambda path: path.stem)
def test_error_bodies_are_read(path):
    """Every field of an error body is where a caller looks for it, and the code's retryability is the wire's."""
    status, body = (json.loads(path.read_text())[key] for key in ("status", "body"))
    error = from_response(status, body)
    assert error.code == body["code"]
    assert error.request_id == body["request_id"]
    if isinstance(error, sequence_ai.SequencesError):
        assert (error.retryable, error.retry_after_s, error.hint) == tuple(
            body[key] for key in ("retryable", "retry_after_s", "hint")
        )
        assert error.details == body["details"]


def test_errors_are_told_apart():
    """Warming, a place in line, the policy's own exception and refused bounds are each what they say."""
    errors = {
        name: from_response(**golden(f"error_{name}")) for name in ("warming", "queued", "policy_error", "bounds")
    }
    assert isinstance(errors["warming"], Unavailable)
    assert errors["warming"].warming
    assert errors["queued"].queue_position == 2
    assert type(errors["policy_error"]) is KeyError
    assert "line 9, in infer" in errors["policy_error"].remote_traceback
    assert type(errors["bounds"]) is PolicyError
    assert errors["bounds"].details["reason"] == "bounds"
