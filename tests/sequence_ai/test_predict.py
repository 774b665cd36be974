"""What a handle answers: predict, next_action, contract checks, one driver, closing."""

import json
import threading

import httpx
import numpy as np
import pytest

import sequence_ai
from sequence_ai import ChunkExhausted, InvalidRequest, NotFound, PolicyError, Prediction, SequencesError, Unavailable
from sequence_ai.testing import chunk, error

CONTRACT = {
    "cameras": {"wrist": {"width": 8, "height": 8}},
    "history": 1,
    "proprio": {"joint_positions": 7, "gripper": 1},
    "state": {},
    "instruction": True,
}


def test_connecting_sends_nothing(platform, connect):
    """A handle is local until its first request, and closing one that never asked sends nothing either."""
    policy = connect()
    assert (policy.model, policy.contract, policy.buffered) == ("toy", None, 0)
    policy.close()
    assert platform.sent == []


def test_raw_inputs_go_and_come_untouched(platform, connect):
    """Anything but an Observation is sent as `inputs`, and the policy's own value comes back."""
    platform.infer = lambda body: {"outputs": {"echo": body["inputs"], "seed": body["seed"]}}
    assert connect().predict({"x": [1, 2.5, None]}, seed=3) == {"echo": {"x": [1, 2.5, None]}, "seed": 3}


def test_arrays_travel_both_ways(platform, connect):
    """A numeric array in raw inputs reaches the policy as it is, and one in its outputs comes back as an array."""
    platform.infer = lambda body: {"outputs": {"twice": body["inputs"]["image"] * 2}}
    image = np.arange(12, dtype=np.float32).reshape(3, 4)
    twice = connect().predict({"image": image, "n": np.int64(1)})["twice"]
    assert (twice.dtype, twice.shape) == (np.float32, (3, 4))
    assert (twice == image * 2).all()
    assert platform.to("/act")[0].body["inputs"]["n"] == 1


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, np.array(["text"])])
def test_what_is_no_plain_data_is_refused_here(platform, connect, value):
    """NaN and objects are refused before an act is sent."""
    with pytest.raises(InvalidRequest, match="cannot be sent"):
        connect().predict({"x": value})
    assert platform.to("/act") == []


def test_the_worker_is_spoken_to_in_messagepack_where_it_offers_it(platform, connect, seen):
    """With the extra `fast`, acts to a worker that offers MessagePack carry frames as bytes; the gateway gets JSON."""
    platform.connect["encodings"] = ["json", "msgpack"]
    assert len(connect().predict(seen).action_chunk) == 2
    [act] = platform.to("/act")
    assert act.headers["content-type"] == "application/msgpack"
    assert act.body["observation"]["images"][0]["data"] == b"frame"
    assert {sent.headers["content-type"] for sent in platform.sent if sent.server == "gateway"} == {"application/json"}


@pytest.mark.parametrize("row", [["0.5", "1"], [True, False], [None, 0.0], [[0.0], 1.0], "ab", {"values": "12"}])
def test_what_is_no_number_is_no_action(platform, connect, seen, row):
    """Text, truth values and nested lists are not read as numbers: a guess would move a robot."""
    made = chunk([[0.0, 0.0]])
    platform.infer = lambda _: {"action_chunk": {**made, "steps": [row]}}
    with pytest.raises(PolicyError, match="row 0 of the chunk is not a list of numbers"):
        connect().predict(seen)


@pytest.mark.parametrize("hz", [0, -5, float("inf"), float("nan"), 1e300, "20", True, None])
def test_a_rate_that_no_robot_has_is_refused(platform, connect, seen, hz):
    """Rows are never played in a burst because a policy said an absurd rate; connect's own is checked alike."""
    made = {**chunk([[0.0, 0.0]]), "control_frequency_hz": hz}
    body = json.dumps({"action_chunk": made}).encode()
    platform.answer_next("/act", httpx.Response(200, content=body))
    with pytest.raises(PolicyError, match="control_frequency_hz"):
        connect().predict(seen)


@pytest.mark.parametrize("wrong", [{"control_hz": float("inf")}, {"timeout_s": float("inf")}, {"timeout_s": 1e10}])
def test_endless_limits_are_refused(connect, wrong):
    """A rate or a time-out without end is no limit."""
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        connect(**wrong)


def test_options_pass_through_and_none_is_left_out(platform, connect, seen):
    """Keywords reach the policy as they are; those that are None are not sent."""
    connect().predict(seen, seed=None, action_horizon=4, episode_id="e1")
    body = platform.to("/act")[0].body
    assert (body["action_horizon"], body["episode_id"], body["model"]) == (4, "e1", "toy")
    assert "seed" not in body
    with pytest.raises(InvalidRequest, match="inputs"):
        connect().predict(seen, inputs={})


def test_an_observation_is_answered_with_a_prediction(platform, connect, seen):
    """The answer's chunk, timings and warnings arrive, under the worker's id or else the request's."""
    platform.infer = lambda _: {"action_chunk": chunk([[1.0, 2.0]]), "perf": {"handler_ms": 5}, "warnings": ["clipped"]}
    prediction = connect().predict(seen)
    assert isinstance(prediction, Prediction)
    assert prediction.action_chunk.steps == [[1.0, 2.0]]
    assert (prediction.perf, prediction.warnings, prediction.model) == ({"handler_ms": 5}, ["clipped"], "toy")
    assert prediction.id == platform.to("/act")[0].headers["x-seq-request-id"]


def test_a_prediction_keeps_the_rows_untouched_and_next_action_limits_them(platform, connect, seen):
    """predict hands out the policy's own rows; next_action holds them within the declared limits."""
    platform.connect["action"].update(bounds=[[-1, 1], [-1, 1]], max_delta=0.5)
    platform.infer = lambda _: {"action_chunk": chunk([[9.0, 0.0], [-9.0, 0.0]])}
    policy = connect()
    assert policy.predict(seen).action_chunk.steps[0] == [9.0, 0.0]
    assert policy.buffered == 2
    assert [policy.next_action(), policy.next_action()] == [[1, 0.0], [0.5, 0.0]]


def test_next_action_asks_only_when_the_buffer_is_empty(platform, connect, seen):
    """With actions left nothing is sent; the horizon decides how many rows are left."""
    platform.infer = lambda _: {"action_chunk": chunk([[float(row), 0.0] for row in range(5)], horizon=2)}
    policy = connect()
    rows = [policy.next_action(seen)[0] for _ in range(4)]
    assert rows == [0.0, 1.0, 0.0, 1.0]
    assert len(platform.to("/act")) == 2


def test_next_action_without_anything_to_play_says_so(platform, connect, seen):
    """No action and no observation is ChunkExhausted; so is an empty chunk; raw inputs are told to use predict."""
    policy = connect()
    with pytest.raises(ChunkExhausted, match="observation"):
        policy.next_action()
    with pytest.raises(InvalidRequest, match="predict"):
        policy.next_action({"x": 1})
    platform.infer = lambda _: {"action_chunk": chunk([])}
    with pytest.raises(ChunkExhausted, match="empty"):
        policy.next_action(seen)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": [[float("nan"), 0]]}, "row 0"),
        ({"steps": [[0, 0], [0]]}, "row 1"),
        ({"steps": [{"index": 0}]}, "row 0"),
        ({"robot": None}, "no robot"),
        ({"open_loop_horizon": 0}, "open_loop_horizon"),
    ],
)
def test_a_chunk_that_no_robot_may_play_is_refused(platform, connect, seen, change, says):
    """NaN, rows of a wrong length and missing fields raise; nothing of such a chunk is buffered."""
    platform.infer = lambda _: {"action_chunk": {**chunk([[0.0, 0.0]]), **change}}
    if "nan" in str(change):  # the answer as a careless server would write it
        text = '{"action_chunk": {"steps": [[NaN, 0]], "robot": "a", "action_space": "joint_delta", "action_dim": 2, '
        text += '"control_frequency_hz": 10, "covers_seconds": 0.1}}'
        platform.answer_next("/act", httpx.Response(200, text=text))
    policy = connect()
    with pytest.raises(PolicyError, match=says):
        policy.predict(seen)
    assert policy.buffered == 0


def test_a_policy_of_another_form_is_told_apart(platform, connect, seen):
    """An answer without a chunk says that this policy wants raw inputs; an answer with neither is malformed."""
    platform.infer = lambda _: {"outputs": 1}
    with pytest.raises(PolicyError, match="own inputs"):
        connect().predict(seen)
    platform.infer = lambda _: {"action_chunk": {"steps": []}}
    assert connect().predict(1) == {"steps": []}
    platform.infer = lambda _: {}
    with pytest.raises(PolicyError, match="neither"):
        connect().predict(1)


def test_the_contract_is_there_once_connected(platform, connect, seen):
    """After the first answer the handle tells what the policy declares, and the body that the gateway chose."""
    platform.connect.update(observation=CONTRACT, embodiment="left_arm")
    policy = connect()
    policy.predict(seen)
    assert policy.contract == {
        "action": platform.connect["action"],
        "observation": CONTRACT,
        "embodiment": "left_arm",
    }
    assert platform.to("/act")[0].body["embodiment"] == "left_arm"


def test_embodiment_and_params_are_sent(platform, connect):
    """The chosen body and the session's parameters go with connect and every act; a call's own parameters win."""
    policy = connect(embodiment="right_arm", params={"steps": 4})
    policy.predict(1)
    policy.predict(1, params={"steps": 8})
    first, second = (sent.body for sent in platform.to("/act"))
    asked = platform.to("/v1/act/connect")[0].body
    assert (asked["embodiment"], asked["params"], asked["moves"]) == ("right_arm", {"steps": 4}, True)
    assert (first["embodiment"], first["params"], second["params"]) == ("right_arm", {"steps": 4}, {"steps": 8})


def test_a_mismatch_warns_at_the_users_line_and_is_sent(platform, connect):
    """By default an observation that does not fit is named in a warning, and the worker has the last word."""
    platform.connect["observation"] = CONTRACT
    with pytest.warns(UserWarning, match=r"missing view\(s\) \['wrist'\]") as caught:
        connect().predict(sequence_ai.observation(images={}, joints=[0] * 7, gripper=[0], instruction="go"))
    assert caught[0].filename == __file__
    assert len(platform.to("/act")) == 1


def test_strict_refuses_and_off_stays_silent(platform, connect, seen):
    """validate="strict" raises before the act; "off" sends without a word; an extra camera alone is survivable."""
    platform.connect["observation"] = {**CONTRACT, "cameras": {"front": {"width": 8, "height": 8}}}
    with pytest.raises(InvalidRequest, match="front"):
        connect(validate="strict").predict(seen)
    assert platform.to("/act") == []
    connect(validate="off").predict(seen)
    platform.connect["observation"] = {**CONTRACT, "cameras": {}}
    with pytest.warns(UserWarning, match="not read"):
        connect(validate="strict").predict(seen)
    assert len(platform.to("/act")) == 2


def test_older_frames_are_left_at_home(platform, connect):
    """Only the declared history is uploaded, and the dropping is said once a handle."""
    platform.connect["observation"] = CONTRACT
    seen = sequence_ai.observation(images={"wrist": [b"old", b"new"]}, joints=[0] * 7, gripper=[0], instruction="go")
    policy = connect()
    with pytest.warns(UserWarning, match="1 older frame"):
        policy.predict(seen)
    policy.predict(seen)  # a second warning would be an error here
    assert [len(sent.body["observation"]["images"]) for sent in platform.to("/act")] == [1, 1]


@pytest.mark.parametrize(
    ("expect", "says"),
    [({"robot": "droid"}, "robot is fake_arm, expected droid"), ({"robots": 1}, "'robots' is not declared")],
)
def test_another_policy_than_expected_is_refused_before_the_first_act(platform, connect, expect, says):
    """expect= is compared with the declared action contract at connect."""
    with pytest.raises(InvalidRequest, match=says):
        connect(expect=expect).predict(1)
    assert platform.to("/act") == []


def test_expectations_that_hold_pass(platform, connect):
    """Values are compared as text; a policy without an action contract holds no expectation."""
    platform.infer = lambda _: {"outputs": 1}
    assert connect(expect={"action_dim": "2", "robot": "fake_arm"}).predict(1) == 1
    platform.connect["action"] = None
    with pytest.raises(InvalidRequest, match="declares no action contract"):
        connect(expect={"action_dim": 2}).predict(1)


def test_a_second_thread_is_refused_at_once(platform, connect):
    """While one thread drives a handle another one gets an error, and the driver is not disturbed."""
    policy = connect()
    caught = []

    def intrude():
        with pytest.raises(SequencesError, match="another thread") as raised:
            policy.next_action()
        caught.append(raised.value)

    def infer(_):
        other = threading.Thread(target=intrude)
        other.start()
        other.join()
        return {"outputs": "mine"}

    platform.infer = infer
    assert policy.predict(1) == "mine"
    assert len(caught) == 1


def test_closing_gives_the_slot_back_once(platform, connect):
    """Leaving the block releases the session it connected with; closing again sends nothing; later calls raise."""
    with connect() as policy:
        policy.predict(1)
    policy.close()
    released = platform.to("/v1/act/release")
    assert [sent.body for sent in released] == [
        {"model": "toy", "session": platform.to("/v1/act/connect")[0].body["session"]}
    ]
    for use in (lambda: policy.predict(1), policy.next_action, policy.ready, policy.__enter__):
        with pytest.raises(SequencesError, match="closed"):
            use()


def test_a_refused_connect_still_gives_its_place_back(platform, connect):
    """A handle whose connect was refused releases its session when closed, and failing at that is no error."""
    platform.answer_next("/v1/act/connect", error(404, "not_found"))
    platform.answer_next("/v1/act/release", error(500, "internal"))
    policy = connect()
    with pytest.raises(NotFound):
        policy.predict(1)
    policy.close()
    assert len(platform.to("/v1/act/release")) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"model": ""},
        {"model": None},
        {"validate": "maybe"},
        {"timeout_s": 0},
        {"control_hz": -1},
        {"startup_timeout_s": -1},
    ],
)
def test_arguments_that_cannot_be_right_are_refused(connect, options):
    """connect refuses a value it cannot use, naming the argument."""
    with pytest.raises(InvalidRequest, match=next(iter(options))):
        connect(**options)


def test_ready_looks_without_waiting(platform, connect):
    """ready() asks once, with the name, and tells the guess."""
    platform.documents["/v1/act/ready"] = {"ready": False, "eta_s": 40, "status": "starting"}
    assert connect().ready() == (False, 40)
    assert platform.clock.slept == []


def test_waiting_until_ready_tells_how_long(platform, connect):
    """wait_until_ready polls and returns the seconds waited; past its bound it raises Unavailable with .warming."""
    starting = {"ready": False, "eta_s": 40, "status": "starting"}
    platform.answer_next("/v1/act/ready", *[httpx.Response(200, json=starting)] * 3)
    assert connect().wait_until_ready(poll_s=5) == 15
    platform.documents["/v1/act/ready"] = starting
    with pytest.raises(Unavailable, match="still starting after 12 s") as caught:
        connect().wait_until_ready(timeout_s=12)
    assert caught.value.warming
