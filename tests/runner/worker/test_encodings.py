"""The worker's door in two encodings, and what is refused at it."""

from __future__ import annotations

import asyncio
import base64
import threading

import msgpack
import pytest

from runner.worker.parse import Declared, parse
from runner.worker.repeat import content_of
from seq.contract import codec
from seq.contract.deployments import PolicyDecl
from seq.contract.robot import ActionContract

JPEG = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 40
PACKED = {"Content-Type": "application/msgpack"}
OBSERVATION = {
    "images": [{"view": "front", "data": JPEG, "timestamp_ms": 5}],
    "proprioception": {"joint_positions": [0.5]},
    "instruction": "go",
}
ONE = ActionContract(robot="toy", action_space="joint_absolute", action_dim=1, control_frequency_hz=10)
AS_JSON = OBSERVATION | {"images": [{**OBSERVATION["images"][0], "data": base64.b64encode(JPEG).decode()}]}


def packed(worker, request_id=None, **body):
    """One act in MessagePack."""
    headers = PACKED | ({} if request_id is None else {"X-Seq-Request-Id": request_id})
    return worker.client.post("/act", content=msgpack.packb(body), headers=headers)


def policy_saw(worker):
    """The observations that the policy noted."""
    return [call for call in worker.policy.calls if isinstance(call, dict)]


def read(answer):
    """The body of an answer, by its content type."""
    assert answer.headers["content-type"] == "application/msgpack"
    return codec.parse(answer.content, "msgpack")


def test_an_act_in_messagepack_is_answered_in_it(make_worker):
    """The answer is written as the request was, and says the same as the JSON one."""
    worker = make_worker("return {'got': obs, 'pi': 3.25}")
    body = read(packed(worker, "r-1", inputs={"a": [1, 2.5, None]}, model="toy"))
    as_json = worker.act("r-2", inputs={"a": [1, 2.5, None]}, model="toy").json()
    assert body["outputs"] == as_json["outputs"] == {"got": {"a": [1, 2.5, None]}, "pi": 3.25}
    assert set(body) == set(as_json)
    assert set(body["perf"]) == set(as_json["perf"])


def test_arrays_cross_as_raw_bytes(make_worker):
    """An array in MessagePack's inputs is an array to `infer`, and one it returns goes back the same way."""
    worker = make_worker("return {'twice': obs['a'] * 2}")
    raw = {"__nd__": ["<f4", [2], b"\x00\x00\x80?\x00\x00\x00@"]}
    answer = worker.client.post("/act", content=msgpack.packb({"inputs": {"a": raw}}), headers=PACKED)
    assert read(answer)["outputs"] == {"twice": {"__nd__": ["<f4", [2], b"\x00\x00\x00@\x00\x00\x80@"]}}


def test_a_policy_of_plain_data_sees_the_same_text(make_worker):
    """A policy without the preset gets a frame's base64 whichever encoding it came in."""
    worker = make_worker("policy.calls.append(obs); return [[0.0]]", action=ONE)
    packed(worker, observation=OBSERVATION)
    worker.act(observation=AS_JSON)
    assert policy_saw(worker) == [AS_JSON, AS_JSON]


def test_a_frame_that_is_no_image_is_refused_in_either(make_worker):
    """Raw bytes are held to the same formats as base64 text."""
    worker = make_worker()
    wrong = OBSERVATION | {"images": [{"view": "a", "data": b"GIF89a"}]}
    assert "images[0].data" in packed(worker, observation=wrong).json()["detail"]
    assert worker.policy.calls == []


def test_refusals_are_json_whatever_was_asked_in(make_worker):
    """An error body is JSON, so that every client can read it."""
    worker = make_worker("return 1 / 0")
    answer = packed(worker, "r-1", inputs=1)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/json")
    assert answer.json()["code"] == "policy_error"


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"Content-Type": "application/x-pickle"}, "a worker reads application/json or application/msgpack"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, "a worker reads"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, "send it as it is"),
        ({"Content-Type": "application/msgpack"}, "not MessagePack"),
    ],
)
def test_another_content_is_refused_with_what_would_be_right(make_worker, headers, says):
    """A type that nobody reads, a packed body and a body of another type than it says are each a 400."""
    worker = make_worker()
    answer = worker.client.post("/act", content=b'{"inputs": 1}', headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert says in answer.json()["detail"]
    assert worker.policy.calls == []


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;", None])
def test_the_usual_ways_to_say_json_are_read(make_worker, kind):
    """Parameters, capitals and no content type at all are JSON."""
    headers = {} if kind is None else {"Content-Type": kind}
    answer = make_worker().client.post("/act", content=b'{"inputs": "ok"}', headers=headers)
    assert answer.json()["outputs"] == "ok"


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix",  # a pickle
        b"\xd6\xff\x00\x00\x00\x00",  # an extension type
        b"\x81\xa6inputs\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",  # NaN
        b"\x81\xa6inputs\xc4\x01a",  # raw bytes that are no frame's
        b"\x81\xa6inputs\xdd\xff\xff\xff\xff",  # a list that claims four billion items
        b"\x91" * 3000,  # nesting
        b"\x81\xa6inputs\x81\xa6__nd__\x93\xa2|O\x91\x01\xc4\x081234abcd",  # an array of objects
        b"\x81\xa6inputs\x81\xa6__nd__\x93\xa3<f4\x91\xce\xff\xff\xff\xff\xc4\x041234",  # one longer than its bytes
        b"\x93\x01\x02\x03",  # no object
    ],
)
def test_a_crafted_messagepack_body_is_a_400(make_worker, raw):
    """What is no plain data, or claims more than it holds, is refused in a sentence, and the worker goes on."""
    worker = make_worker()
    answer = worker.client.post("/act", content=raw, headers=PACKED)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert worker.policy.calls == []
    assert worker.act().status_code == 200


@pytest.mark.parametrize("raw", [b'{"inputs": 1e999}', b"[" * 90_000, b'{"inputs": ' + b"[" * 400 + b"]" * 400 + b"}"])
def test_a_crafted_json_body_is_a_400(make_worker, raw):
    """An infinite number and endless nesting are refused in JSON too."""
    worker = make_worker()
    answer = worker.client.post("/act", content=raw, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert worker.policy.calls == []


def test_too_large_a_body_is_refused_by_its_head(make_worker):
    """A body that says it is over 4 GiB is refused before it is read."""
    headers = {"Content-Type": "application/json", "Content-Length": str((4 << 30) + 1)}
    answer = make_worker().client.post("/act", content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


def test_a_repeat_in_the_other_encoding_runs_once(make_worker):
    """The same act under the same id, in the other encoding, is answered from memory, in the encoding it came in."""
    worker = make_worker("return [[float(len(policy.calls))]]", action=ONE)
    first = read(packed(worker, "r-1", observation=OBSERVATION))
    again = worker.act("r-1", observation=AS_JSON)
    assert again.headers["content-type"] == "application/json"
    assert again.json() == first
    assert len(worker.policy.calls) == 1


def test_a_repeat_of_an_array_in_the_other_encoding_runs_once(make_worker):
    """Arrays in the answer are written anew for a repeat in the other encoding."""
    worker = make_worker("import numpy; return numpy.arange(2, dtype='<i2')")
    assert worker.act("r-1", inputs=7).json()["outputs"] == {"__nd__": ["<i2", [2], "AAABAA=="]}
    assert read(packed(worker, "r-1", inputs=7))["outputs"] == {"__nd__": ["<i2", [2], b"\x00\x00\x01\x00"]}
    assert len(worker.policy.calls) == 1


def test_a_repeat_while_the_first_runs_waits_for_it(make_worker):
    """A repeat on another connection while the first is under way gets the same answer; `infer` is called once."""
    worker = make_worker("GATE.wait(); return len(policy.calls)")
    answers: list[int] = []
    asked = [
        threading.Thread(target=lambda: answers.append(worker.act("r-1", inputs=1).json()["outputs"])),
        threading.Thread(target=lambda: answers.append(read(packed(worker, "r-1", inputs=1))["outputs"])),
    ]
    for thread in asked:
        thread.start()
    worker.module.GATE.set()
    for thread in asked:
        thread.join()
    assert answers == [1, 1]
    assert worker.client.get("/ping").json()["acts"] == 1


def test_an_act_whose_client_went_away_still_finishes(make_worker):
    """A client that hangs up costs nothing but its answer: the repeat of its act is answered from memory."""
    worker = make_worker("GATE.wait(); return len(policy.calls)")

    async def hang_up() -> None:
        request = asyncio.ensure_future(
            worker.client._http.post("/act", json={"inputs": 1}, headers={"X-Seq-Request-Id": "r-1"})
        )
        while not worker.service.busy:  # noqa: ASYNC110  the worker's own counter
            await asyncio.sleep(0)
        request.cancel()

    asyncio.run_coroutine_threadsafe(hang_up(), worker.client._loop).result()
    worker.module.GATE.set()
    assert worker.act("r-1", inputs=1).json()["outputs"] == 1
    assert len(worker.policy.calls) == 1


def test_a_draining_worker_answers_what_it_ran(make_worker):
    """A repeat of an act that ran here is answered while the worker ends; only new acts are sent away."""
    worker = make_worker()
    worker.act("r-1", inputs=1)
    worker.service.draining = True
    assert worker.act("r-1", inputs=1).json()["outputs"] == 1
    assert worker.act("r-2", inputs=1).status_code == 503


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_an_answer_tells_where_its_time_went(make_worker, encoding):
    """`overhead_ms` is what the worker itself took: all but waiting and `infer`, its parts within it."""
    worker = make_worker("import time; time.sleep(0.01)")
    perf = worker.act().json()["perf"] if encoding == "json" else read(packed(worker, inputs=1))["perf"]
    assert perf["inference_ms"] >= 10
    assert perf["overhead_ms"] == pytest.approx(perf["handler_ms"] - perf["inference_ms"] - perf["queue_ms"], abs=0.002)
    assert perf["read_ms"] + perf["parse_ms"] + perf["answer_ms"] <= perf["overhead_ms"] + 0.002


def test_an_answer_that_holds_itself_is_a_policy_error(make_worker):
    """A value that cannot be written, however it is broken, fails its act alone."""
    worker = make_worker("loop = []; loop.append(loop); return loop")
    answer = worker.act()
    assert (answer.status_code, answer.json()["code"]) == (500, "policy_error")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 6143, 6144, 6145, 6146, 6147, 50_000, 50_001, 50_002])
def test_content_counts_alike_in_either_encoding(size):
    """A frame of any length is the same content as its base64, and another one is not."""
    raw = bytes(index * 7 % 251 for index in range(size))
    text = base64.b64encode(raw).decode()
    assert content_of({"data": [raw, 1.5]}) == content_of({"data": [text, 1.5]})
    assert content_of({"data": [raw + b"x", 1.5]}) != content_of({"data": [text, 1.5]})
    assert content_of({"data": [text, 1.5]}) != content_of({"data": [text, 2.5]})


def test_the_preset_reads_frames_of_either_encoding():
    """A policy that takes the preset gets an ImageFrame with the same text and bytes from both."""
    declared = Declared(PolicyDecl(handler_ref="p:P", action=ONE), preset=True)
    frames = [
        parse(body, declared, {}).observation.view("front")
        for body in ({"observation": codec.parse(msgpack.packb(OBSERVATION), "msgpack")}, {"observation": AS_JSON})
    ]
    assert frames[0] == frames[1]
    assert [(frame.data, frame.bytes) for frame in frames] == [(AS_JSON["images"][0]["data"], JPEG)] * 2


def test_a_buffer_that_a_policy_reuses_is_written_before_the_next_act(make_worker):
    """Acts that wait for the copy do not change the answer of the one before them."""
    worker = make_worker(
        "policy.calls.append(0); policy.buffer = getattr(policy, 'buffer', [0]); "
        "policy.buffer[0] += 1; return policy.buffer"
    )
    answers = []
    asked = [threading.Thread(target=lambda: answers.append(worker.act().json()["outputs"][0])) for _ in range(8)]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join()
    assert sorted(answers) == [1, 2, 3, 4, 5, 6, 7, 8]
