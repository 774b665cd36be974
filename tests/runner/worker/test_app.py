"""The worker's door, in process, with a policy written here."""

from __future__ import annotations

import threading

import pytest

from seq.contract.robot import ActionContract, ObservationContract

ACTION = ActionContract(
    robot="toy", action_space="joint_absolute", action_dim=2, control_frequency_hz=10, bounds=[(-1, 1), (-1, 1)]
)
LOOSE = ObservationContract(instruction=False, state={"x": 1})
OBSERVATION = {"images": [], "proprioception": {"joint_positions": []}, "instruction": "", "state": {"x": [1.0]}}


@pytest.mark.parametrize("path", ["/act", "/act/episode_end", "/ping"])
def test_the_secret_opens_every_path(make_worker, path):
    """Whoever does not hold the secret is answered 401, and nothing runs."""
    worker = make_worker()
    method = "GET" if path == "/ping" else "POST"
    answer = worker.client.request(method, path, json={"inputs": 1}, headers={"Authorization": "Bearer other"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert worker.policy.calls == []


def test_opaque_inputs_pass_through(make_worker):
    """Without a contract `infer` gets the inputs and its value comes back as outputs."""
    answer = make_worker().act("r-00000001", inputs={"a": [1, 2]}, model="toy")
    assert answer.headers["X-Seq-Request-Id"] == "r-00000001"
    body = answer.json()
    assert (body["outputs"], body["id"], body["model"]) == ({"a": [1, 2]}, "r-00000001", "toy")
    assert {"handler_ms", "inference_ms", "inference_cpu_ms", "queue_ms"} <= set(body["perf"])
    assert "action_chunk" not in body


def test_arrays_arrive_and_leave_as_arrays(make_worker):
    """A tagged array in the inputs is an array to `infer`, and one it returns is tagged again."""
    tagged = {"__nd__": ["<f4", [2], "AACAPwAAAEA="]}
    body = make_worker("return {'twice': obs['a'] * 2, 'shape': list(obs['a'].shape)}").act(inputs={"a": tagged}).json()
    assert body["outputs"] == {"twice": {"__nd__": ["<f4", [2], "AAAAQAAAgEA="]}, "shape": [2]}


def test_rows_become_a_whole_chunk(make_worker):
    """With `action=` declared, bare rows are completed by the worker and carried twice."""
    worker = make_worker("return [[0.5, 0.0], [0.25, 0.0]]", action=ACTION, observation=LOOSE)
    body = worker.act(observation=OBSERVATION).json()
    assert body["action_chunk"] == {
        "steps": [{"index": 0, "values": [0.5, 0.0]}, {"index": 1, "values": [0.25, 0.0]}],
        "robot": "toy",
        "action_space": "joint_absolute",
        "action_dim": 2,
        "control_frequency_hz": 10.0,
        "covers_seconds": 0.2,
    }
    assert body["outputs"] == body["action_chunk"]


@pytest.mark.parametrize(
    "value",
    [
        "{'steps': [[0.5, 0.0]], 'open_loop_horizon': 1}",
        "{'steps': [{'index': 0, 'values': [0.5, 0.0]}], 'open_loop_horizon': 1}",
        "__import__('seq.presets.robot_arm').presets.robot_arm.ActionChunk([[0.5, 0.0]], open_loop_horizon=1)",
    ],
)
def test_a_chunk_may_be_an_object_or_a_dict(make_worker, value):
    """Every documented form of a chunk gives the same answer, its horizon kept."""
    body = make_worker(f"return {value}", action=ACTION, observation=LOOSE).act(observation=OBSERVATION).json()
    assert body["action_chunk"]["steps"] == [{"index": 0, "values": [0.5, 0.0]}]
    assert body["action_chunk"]["open_loop_horizon"] == 1


def test_clipped_rows_are_what_an_own_adapter_gets(make_worker):
    """Rows given to opaque inputs come back in their own form, but within the declared bounds."""
    body = make_worker("return [[5.0, 0.0]]", action=ACTION).act(inputs={}).json()
    assert body["outputs"] == [[1.0, 0.0]]
    assert body["warnings"] == ["step 0: clipped dimension 0 from 5 to 1"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("[[0.0, float('nan')]]", "row 0, dimension 1 is nan"),
        ("[[0.0, 0.0], [0.0]]", "row 1 has 1 values; action_dim is 2"),
        ("[]", "no rows"),
        ("'left'", "a str"),
        ("{'steps': [[0.0, 0.0]], 'robot': 'other'}", "robot='other'"),
        ("{'steps': [[0.0, 0.0]], 'open_loop_horizon': 4}", "open_loop_horizon is 4"),
    ],
)
def test_a_chunk_that_must_not_be_played_is_a_policy_error(make_worker, value, says):
    """What `infer` returned wrongly is said by row and dimension, and counted."""
    worker = make_worker(f"return {value}", action=ACTION, observation=LOOSE)
    answer = worker.act(observation=OBSERVATION)
    assert (answer.status_code, answer.json()["code"]) == (500, "policy_error")
    assert says in answer.json()["detail"]
    assert worker.client.get("/ping").json()["errors"] == 1


WHOLE = "{'steps': [[0.0, 0.0]], 'robot': 'r', 'action_space': 'x', 'action_dim': 2, 'control_frequency_hz': 10, %s}"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("'open_loop_horizon': 'abc'", "open_loop_horizon is 'abc'"),
        ("'open_loop_horizon': float('nan')", "open_loop_horizon is nan"),
        ("'open_loop_horizon': 1.5", "open_loop_horizon is 1.5"),
        ("'open_loop_horizon': 2", "from 1 to the 1 rows"),
        ("'sustains_seconds': 'abc'", "sustains_seconds is 'abc'"),
        ("'sustains_seconds': 10**400", "sustains_seconds is 1000"),
        ("'control_frequency_hz': 0", "control_frequency_hz"),
        ("'control_frequency_hz': 1e300", "control_frequency_hz"),
        ("'control_frequency_hz': True", "control_frequency_hz"),
    ],
)
@pytest.mark.parametrize("contract", [True, False])
def test_a_chunks_own_words_are_checked_with_and_without_a_contract(make_worker, said, says, contract):
    """A horizon, a time or a rate that cannot be is the policy's error and names the field."""
    declared = {"action": ACTION.model_copy(update={"robot": "r"})} if contract else {}
    answer = make_worker(f"return {WHOLE % said}".replace("'x'", "'joint_absolute'"), **declared).act(inputs={})
    assert (answer.status_code, answer.json()["code"]) == (500, "policy_error")
    assert says in answer.json()["detail"]


def test_a_time_that_is_none_is_the_policys_error(make_worker):
    """Where no contract says it, what a chunk covers is the policy's own word, and a number."""
    said = "'covers_seconds': 'abc'"
    answer = make_worker(f"return {WHOLE % said}").act(inputs={})
    assert (answer.status_code, answer.json()["code"]) == (500, "policy_error")
    assert "covers_seconds is 'abc'" in answer.json()["detail"]


def test_numpys_numbers_are_numbers(make_worker):
    """A rate, a horizon and a time of numpy's go out as plain ones; a given covers_seconds is kept."""
    said = "**{k: __import__('numpy').float32(1) for k in ('open_loop_horizon', 'sustains_seconds', 'covers_seconds')}"
    chunk = make_worker(f"return {WHOLE % said}").act(inputs={}).json()["action_chunk"]
    assert [chunk[name] for name in ("open_loop_horizon", "sustains_seconds", "covers_seconds")] == [1, 1.0, 1.0]
    assert type(chunk["open_loop_horizon"]) is int


@pytest.mark.parametrize("contract", [True, False])
@pytest.mark.parametrize("kind", ["ValueError", "KeyError", "SystemExit", "KeyboardInterrupt"])
def test_a_property_that_raises_is_the_policys_error(make_worker, kind, contract):
    """What the policy's own object raises while it is read is told as raised by `infer`, and the worker answers on."""
    evil = f"type('Evil', (), {{'steps': property(lambda self: (_ for _ in ()).throw({kind}('mine')))}})()"
    worker = make_worker(f"return {evil}", **({"action": ACTION} if contract else {}))
    answer = worker.act(inputs={}).json()
    assert (answer["code"], answer["details"]["exception"]["type"]) == ("policy_error", kind)
    assert "mine" in answer["details"]["exception"]["message"]
    assert f"{worker.module.__name__}.py" in answer["details"]["exception"]["traceback"]
    assert worker.client.get("/ping").json()["errors"] == 1


def test_an_object_that_raises_while_it_is_written_is_the_policys_error(make_worker):
    """A dict of the policy's own that fails in the middle of the answer is told so."""
    evil = "type('Evil', (dict,), {'items': lambda self: 1 / 0})(a=1)"
    answer = make_worker(f"return {evil}").act(inputs={}).json()
    assert (answer["code"], answer["details"]["exception"]["type"]) == ("policy_error", "ZeroDivisionError")


def test_an_exception_without_a_text_is_still_told(make_worker):
    """An exception whose `__str__` raises is named all the same."""
    own = "type('Own', (Exception,), {'__str__': lambda self: 1 / 0})()"
    answer = make_worker(f"raise {own}").act().json()
    assert (answer["code"], answer["details"]["exception"]["type"]) == ("policy_error", "Own")
    assert "__str__ raised ZeroDivisionError" in answer["detail"]


def test_a_refused_bound_names_its_reason(make_worker):
    """With on_violation="refuse" a chunk beyond its bounds is an error with the reason `bounds`."""
    strict = ACTION.model_copy(update={"on_violation": "refuse"})
    answer = make_worker("return [[5.0, 0.0]]", action=strict).act(inputs={})
    assert (answer.status_code, answer.json()["details"]["reason"]) == (500, "bounds")


def test_an_exception_is_told_in_the_users_frames(make_worker):
    """The traceback has the policy's own frames, their path relative to the bundle, and no path of the platform."""
    worker = make_worker("return 1 / 0")
    details = worker.act().json()["details"]["exception"]
    assert (details["type"], details["message"]) == ("ZeroDivisionError", "division by zero")
    assert f'File "{worker.module.__name__}.py"' in details["traceback"]
    assert "return 1 / 0" in details["traceback"]
    assert "runner" not in details["traceback"]
    assert worker.code_dir not in details["traceback"]


def test_a_policy_that_exits_fails_its_act_alone(make_worker):
    """`sys.exit()` in `infer` is an error of that act; the worker answers on."""
    worker = make_worker("raise SystemExit(3)")
    assert worker.act().json()["details"]["exception"]["type"] == "SystemExit"
    assert worker.client.get("/ping").status_code == 200


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"observation": OBSERVATION | {"state": {}}}, "state.x is missing"),
        ({"observation": OBSERVATION | {"state": {"x": [1.0, 2.0]}}}, "state.x has 2 values of 1"),
        ({"observation": OBSERVATION | {"images": [{"view": "a", "data": "R0lG"}]}}, "images[0].data"),
        ({"inputs": {}}, "send an observation"),
        ({"model": "toy"}, "neither observation nor inputs"),
        ({"observation": OBSERVATION, "seed": "one"}, "seed must be a whole number"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(make_worker, body, says):
    """An observation that is not as declared is answered 400, naming what is wrong, and `infer` is not called."""
    worker = make_worker(action=ACTION, observation=LOOSE)
    answer = worker.act(**body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert says in answer.json()["detail"]
    assert worker.policy.calls == []


@pytest.mark.parametrize("params", [{"gian": 1.0}, {"gain": "big"}, {"gain": True}])
def test_a_wrong_parameter_is_refused_before_anything_runs(make_worker, params):
    """An unknown parameter or one of another type is answered 400 with the reason `params`."""
    worker = make_worker()
    answer = worker.act(inputs={}, params=params)
    assert (answer.status_code, answer.json()["details"]["reason"]) == (400, "params")
    assert worker.policy.calls == []


def test_keywords_reach_infer(make_worker):
    """The seed, the episode and parameters cast to their type arrive as keywords."""
    worker = make_worker()
    worker.act(inputs={}, seed=7, episode_id="e1", params={"gain": 2}, robot="ignored")
    assert worker.policy.calls == [(7, "e1", 2.0)]
    assert type(worker.policy.calls[0][2]) is float


def test_a_request_sent_twice_runs_once(make_worker):
    """The same id with the same body is answered from memory; another body is another act."""
    worker = make_worker("return len(policy.calls)")
    answers = [worker.act("r-1", inputs=text).json()["outputs"] for text in ("a", "a", "b")]
    assert answers == [1, 1, 2]
    assert worker.client.get("/ping").json()["acts"] == 2


def test_an_act_that_takes_too_long_is_given_up_but_runs_on(make_worker):
    """Past the limit the caller gets 504; the same request sent again gets the answer once it is there."""
    worker = make_worker("GATE.wait(); return 'late'", limit_s=0.0)
    assert (worker.act("r-1").status_code, worker.client.get("/ping").json()["busy"]) == (504, 1)
    worker.module.GATE.set()
    worker.service._limit_s = 30.0
    assert worker.act("r-1").json()["outputs"] == "late"
    assert len(worker.policy.calls) == 1


def test_a_repeat_waits_no_longer_than_the_first(make_worker):
    """The limit counts from when the copy began: asking again under the same id buys no time."""
    worker = make_worker("GATE.wait(); return 'late'", limit_s=0.3)
    assert [worker.act("r-1").status_code for _ in range(3)] == [504] * 3
    worker.module.GATE.set()


def test_acts_wait_for_the_copy(make_worker):
    """While one act holds the copy others wait, and every one is answered."""
    worker = make_worker("GATE.wait(); return len(policy.calls)")
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(worker.act().json()["outputs"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    worker.module.GATE.set()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [1, 2, 3]


def test_the_end_of_an_episode_reaches_the_policy_once(make_worker):
    """A known episode's end is told to the hook; an unknown one is no error and not told."""
    worker = make_worker()
    worker.act(inputs={}, episode_id="e1")
    for episode in ("e1", "e1", "other"):
        assert worker.client.post("/act/episode_end", json={"episode_id": episode}).status_code == 200
    worker.act(inputs={})
    assert worker.policy.ended == ["e1"]


def test_a_draining_worker_sends_robots_away(make_worker):
    """While it ends it answers 503 with the reason `draining`, so that clients connect again."""
    worker = make_worker()
    worker.service.draining = True
    answer = worker.act()
    assert (answer.status_code, answer.json()["details"]["reason"]) == (503, "draining")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("GET", "/act", 405)])
def test_other_paths_answer_in_the_error_shape(make_worker, method, path, status):
    """An unknown path or method gets a clean error body."""
    answer = make_worker().client.request(method, path)
    assert answer.status_code == status
    assert {"detail", "code", "retryable"} <= set(answer.json())


@pytest.mark.parametrize("raw", [b"{", b"[1]", b'{"inputs": NaN}', b"\x80\x04."])
def test_a_body_that_is_no_json_object_is_refused(make_worker, raw):
    """Malformed JSON, NaN, and bytes of other formats are answered 400."""
    assert make_worker().client.post("/act", content=raw).status_code == 400
