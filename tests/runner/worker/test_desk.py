"""A copy's own socket: the same answers as at the door, in order, whoever asks and however badly."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.worker import assign, connection
from runner.worker.acts import ActRefusedError, LineLostError
from runner.worker.calls import Order
from runner.worker.connections import MOST_STRANGERS
from seq.contract import codec
from seq.contract.robot import ActionContract, ObservationContract
from tests.runner.worker.conftest import SECRET, Worker
from tests.runner.worker.desks import Attended, frame

ACTION = ActionContract(
    robot="toy", action_space="joint_absolute", action_dim=2, control_frequency_hz=10, bounds=[(-1, 1), (-1, 1)]
)
REFUSING = ACTION.model_copy(update={"on_violation": "refuse"})
JPEG = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 40
SEES = ObservationContract.model_validate(
    {"instruction": True, "state": {"x": 2}, "cameras": {"front": {"width": 8, "height": 8}}}
)
OBSERVATION = {
    "images": [{"view": "front", "data": JPEG}],
    "proprioception": {"joint_positions": [0.5]},
    "instruction": "go",
    "state": {"x": [1.0, 2.0]},
}
Attend = Callable[..., Attended]


@pytest.fixture
def attend() -> Iterator[Attend]:
    """`attend(worker)`: a desk over the worker's own copy."""
    made: list[tuple[Attended, Worker]] = []

    def start(worker: Worker, **options: Any) -> Attended:
        made.append((Attended(worker.copy.policy, worker.copy.declared, **options), worker))
        return made[-1][0]

    yield start
    for attended, worker in made:
        worker.module.GATE.set()
        attended.close()


def at_the_door(worker: Worker, raw: bytes) -> Any:
    """What the door answers: what the policy says, or the error body."""
    answer = worker.client.post("/act", content=raw, headers={"Content-Type": "application/msgpack"})
    if answer.status_code != 200:
        return {name: told for name, told in answer.json().items() if name != "request_id"}
    body = codec.parse(answer.content, "msgpack")
    return {name: body[name] for name in ("outputs", "warnings") if name in body}


def at_the_desk(attended: Attended, raw: bytes) -> Any:
    """What the copy answers on its own socket, as it stands there."""
    with attended.raw(frame(SECRET.encode()) + frame(raw)) as line:
        size = int.from_bytes(line.recv(4, socket.MSG_WAITALL), "big")
        content = line.recv(size, socket.MSG_WAITALL)
    if content[0] == 1:
        body = json.loads(content[1:])
        assert body.pop("request_id").startswith("r-")
        return body
    body = codec.parse(content[1:], "msgpack")
    assert set(body) <= {"outputs", "warnings", "perf"}
    assert {"inference_ms", "inference_cpu_ms", "queue_ms"} <= set(body.pop("perf"))
    return body


def changed(**parts: Any) -> dict[str, Any]:
    """The observation with other parts."""
    return {"observation": {**OBSERVATION, **parts}}


BODIES: list[Any] = [
    {"observation": OBSERVATION, "seed": 7, "episode_id": "e1", "model": "toy", "anything": 1},
    changed(images=[{"view": "front", "data": base64.b64encode(JPEG).decode(), "timestamp_ms": 5}]),
    changed(images=[]),
    changed(images=[{"view": "front", "data": b"GIF89a"}]),
    changed(images=[{"data": JPEG}]),
    changed(images="none"),
    changed(state={"x": [1.0]}),
    changed(state={"x": [1, True]}),
    changed(state={"x": [1, 2]}),
    changed(state={"y": [0.5]}),
    changed(state=[1.0]),
    changed(proprioception=None),
    changed(instruction=""),
    changed(instruction=5),
    {"observation": [1, 2]},
    {"inputs": {"a": [1, 2.5, None, "ü\ud800"], "b": {"__nd__": ["<f4", [2], b"\0\0\x80?\0\0\0@"]}}},
    {"inputs": {"b": {"__nd__": ["|O", [1], b"12345678"]}}},
    {"inputs": b"raw"},
    {"inputs": float("nan")},
    {"inputs": [0.5, float("inf")]},
    {"inputs": 1, "params": {"gain": 2}},
    {"inputs": 1, "params": {"gain": "big"}},
    {"inputs": 1, "params": {"gain": True}},
    {"inputs": 1, "params": {"gian": 1.0}},
    {"inputs": 1, "params": [1]},
    {"inputs": 1, "seed": "one"},
    {"inputs": 1, "episode_id": 5},
    {"inputs": 1, "embodiment": "left"},
    {"model": "toy"},
    {},
    [1],
    {1: 2},
    {"episode_end": "e1", "inputs": 3},
]
GARBAGE = [
    b"",
    b"\xc1",
    b"\x80\x04\x95",
    b"\x91" * 3000,
    b"\x81\xa6inputs\xdd\xff\xff\xff\xff",
    b"\xd6\xff\0\0\0\0",
    b'{"inputs": 1}',
]
RETURNS = [
    "return obs",
    "return [[0.5, 0.0], [0.25, -0.0]]",
    "return [[5.0, 0.0], [0, 1]]",
    "return [[0.0, float('nan')]]",
    "return [[0.0]]",
    "return [[0.0, '1']]",
    "return []",
    "return 'left'",
    "return None",
    "return {'steps': [[0.5, 0.0]], 'open_loop_horizon': 1}",
    "return {'steps': [{'index': 0, 'values': [0.5, 2.0]}], 'sustains_seconds': 0.5}",
    "return {'steps': [[0.0, 0.0]], 'robot': 'other', 'action_dim': 3}",
    "return __import__('seq.presets.robot_arm').presets.robot_arm.ActionChunk([[0.5, 0.0]])",
    "import numpy; return numpy.linspace(-2, 2, 6).reshape(3, 2)",
    "import numpy; return numpy.ones((2, 2), 'f4') / 3",
    "import numpy; return [numpy.float32(0.1), [0.2]]",
    "import numpy; return [[numpy.float32(0.1), 0.2]]",
    "loop = []; loop.append(loop); return loop",
    "return {'a': {1, 2}}",
    "return b'raw'",
    "return 1 / 0",
    "raise SystemExit(3)",
    "raise KeyError('no such key')",
    "return type('Evil', (), {'steps': property(lambda self: 1 / 0)})()",
    "return type('Evil', (dict,), {'items': lambda self: 1 / 0})(a=1)",
]
DECLARED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "actions": {"action": ACTION},
    "refusing": {"action": REFUSING},
    "both": {"action": ACTION, "observation": SEES},
}


def packed(body: Any) -> bytes:
    """The body in MessagePack, good or bad."""
    return msgpack.packb(body, unicode_errors="surrogatepass")


@pytest.mark.parametrize("declared", DECLARED)
def test_every_body_is_answered_as_at_the_door(make_worker, attend, declared):
    """What is asked rightly or wrongly is answered with the same value, warnings or error body on either way."""
    worker = make_worker("return [[0.5, 3.0]] if policy.calls[-1][2] == 1.0 else obs", **DECLARED[declared])
    desk = attend(worker)
    for raw in [*map(packed, BODIES), *GARBAGE]:
        assert at_the_desk(desk, raw) == at_the_door(worker, raw), raw


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("body", RETURNS)
def test_whatever_a_policy_answers_is_told_as_at_the_door(make_worker, attend, body, declared):
    """Chunks in every form, wrong ones, values that cannot be sent and exceptions are the same on either way."""
    worker = make_worker(body, **DECLARED[declared])
    desk = attend(worker)
    for asked in (BODIES[0], {"inputs": {"a": [0.25, 0.5]}}):
        assert at_the_desk(desk, packed(asked)) == at_the_door(worker, packed(asked))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=10,
)
bodies = st.dictionaries(
    st.sampled_from(["inputs", "seed", "episode_id", "params", "embodiment", "model", "other"]), values, max_size=4
)
observations = st.fixed_dictionaries(
    {
        "images": st.lists(
            st.fixed_dictionaries({"view": st.sampled_from(["front", 5])}, optional={"data": st.just(JPEG) | values}),
            max_size=2,
        ),
        "proprioception": st.dictionaries(st.sampled_from(["joint_positions", "gripper"]), st.lists(st.floats())),
        "instruction": st.text(max_size=3),
    },
    optional={
        "state": st.dictionaries(
            st.sampled_from(["x", "y"]), st.lists(st.floats() | st.integers(-(2**63), 2**64 - 1)) | values
        )
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_body_is_answered_as_at_the_door(worker_and_desk, data):
    """Whatever a body holds, both ways say the same of it."""
    body = data.draw(bodies)
    if data.draw(st.booleans()):
        body["observation"] = data.draw(observations)
    worker, desk = worker_and_desk
    assert at_the_desk(desk, packed(body)) == at_the_door(worker, packed(body))


@pytest.fixture
def worker_and_desk(make_worker, attend):
    """A policy that returns what it sees, looking at what an observation holds, by both ways."""
    worker = make_worker("return obs if not isinstance(obs, dict) else {**obs, 'images': []}", observation=None)
    return worker, attend(worker)


def test_parameters_of_the_start_hold_here_too(make_worker, attend):
    """What the worker was started with is the default of every act."""
    worker = make_worker()
    attend(worker, params={"gain": 3.0}).line().ask({"inputs": 1, "seed": 5, "episode_id": "e"})
    assert worker.policy.calls == [(5, "e", 3.0)]


@pytest.mark.parametrize(
    "sent",
    [
        frame(b"another-secret"),
        frame(b""),
        frame(SECRET.encode()[:-1]),
        frame(b"x" * 5000),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 10_000,
        frame(packed({"inputs": 1})),
        frame(SECRET.encode()) + (2**32 - 1).to_bytes(4, "big") + b"x" * 100,
        frame(SECRET.encode()) + ((1 << 30) + 1).to_bytes(4, "big"),
    ],
)
def test_who_does_not_show_the_secret_or_sends_too_much_is_closed(make_worker, attend, sent):
    """Nothing is answered and nothing runs; whoever else asks is served."""
    worker = make_worker()
    desk = attend(worker)
    line = desk.raw(sent)
    assert desk.line().ask({"inputs": 1})["outputs"] == 1
    with contextlib.suppress(ConnectionResetError):  # where what it sent last was never read
        assert line.recv(100) == b""
    assert worker.policy.calls == [(None, None, 1.0)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.lists(st.binary(max_size=40) | st.binary(max_size=40).map(frame), max_size=5), known=st.booleans())
def test_no_bytes_harm_a_copy(worker_and_desk, noise, known):
    """Whatever a line brings, in frames or not, the copy serves the next one."""
    _, desk = worker_and_desk
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # closed in the middle of it
        desk.raw(b"".join([frame(SECRET.encode()) if known else b"", *noise])).close()
    line = desk.line()
    assert line.ask({"inputs": 1})["outputs"] == 1
    line.close()


def test_half_a_frame_holds_up_nobody(make_worker, attend):
    """A request that comes byte by byte is answered once it is whole; others are answered meanwhile."""
    desk = attend(make_worker())
    slow, other = desk.raw(), desk.line()
    for byte in frame(SECRET.encode()) + frame(packed({"inputs": "slow"})):
        slow.sendall(bytes([byte]))
        assert other.ask({"inputs": byte})["outputs"] == byte
    size = int.from_bytes(slow.recv(4, socket.MSG_WAITALL), "big")
    assert codec.parse(slow.recv(size, socket.MSG_WAITALL)[1:], "msgpack")["outputs"] == "slow"


@pytest.mark.parametrize("cut", [2, 30, None])
def test_a_client_that_goes_away_is_forgotten(make_worker, attend, cut):
    """In its length, in its body or with its answer under way: the copy goes on."""
    desk = attend(make_worker())
    for _ in range(20):
        desk.raw(frame(SECRET.encode()) + frame(packed({"inputs": "x" * 100}))[:cut]).close()
    assert desk.line().ask({"inputs": 2})["outputs"] == 2


def test_large_bodies_and_answers_pass(make_worker, attend):
    """Twenty megabytes arrive whole, and go back whole, again and again on one line."""
    line = attend(make_worker()).line()
    for size in (20_000_000, 10, 3_000_000, 70_000):
        text = "x" * size
        assert line.ask({"inputs": text})["outputs"] == text


def test_a_client_that_does_not_read_holds_up_nobody(make_worker, attend):
    """Its answer, larger than what the system keeps, waits for it; others are served meanwhile."""
    desk = attend(make_worker())
    slow, other = desk.line(), desk.line()
    for _ in range(3):
        slow.send({"inputs": "x" * 5_000_000})
        assert other.ask({"inputs": 1})["outputs"] == 1
    assert [len(slow.receive()["outputs"]) for _ in range(3)] == [5_000_000] * 3


def test_an_answer_that_is_never_taken_costs_the_line(make_worker, attend, monkeypatch):
    """After a while the connection is closed; the copy goes on."""
    monkeypatch.setattr(connection, "ANSWER_LIMIT_S", 0.1)
    desk = attend(make_worker())
    slow = desk.line()
    slow.send({"inputs": "x" * 5_000_000})
    while len(desk.desk._lines) or not desk.tally.counted().acts:
        assert desk.line().ask({"inputs": 1})["outputs"] == 1
        desk._lines.pop().close()
        time.sleep(0.02)
    with pytest.raises(LineLostError):
        slow.receive()


def test_who_says_nothing_is_closed(make_worker, attend, monkeypatch):
    """A connection on which no secret comes is closed after a while, one that has shown it stays."""
    monkeypatch.setattr(connection, "HELLO_LIMIT_S", 0.1)
    desk = attend(make_worker())
    known = desk.line()
    assert known.ask({"inputs": 1})["outputs"] == 1
    assert desk.raw().recv(1) == b""
    assert known.ask({"inputs": 2})["outputs"] == 2


def test_strangers_are_few(make_worker, attend):
    """Of many that say nothing the oldest are closed, so that they use up no descriptors; who is known stays."""
    desk = attend(make_worker())
    known = desk.line()
    assert known.ask({"inputs": 1})["outputs"] == 1
    strangers = [desk.raw() for _ in range(MOST_STRANGERS + 10)]
    assert [stranger.recv(1) for stranger in strangers[:10]] == [b""] * 10
    assert known.ask({"inputs": 2})["outputs"] == 2
    assert len(desk.desk._lines) == MOST_STRANGERS + 1


BUSY = "obs == 'hello' or GATE.wait(); return obs"


def send_while_busy(worker, lines, order):
    """One act on each of these lines, one after the other, while the copy works on the first of them."""
    for line in lines:
        line.ask({"inputs": "hello"})
    worker.policy.calls.clear()
    for number in order:
        lines[number].send({"inputs": number, "seed": number})
        while not worker.policy.calls:
            time.sleep(0.001)


def test_acts_of_several_are_taken_in_order_of_arrival(make_worker, attend):
    """While one runs others wait in one line."""
    worker = make_worker(BUSY)
    desk = attend(worker)
    lines = [desk.line() for _ in range(8)]
    send_while_busy(worker, lines, (3, 1, 7, 0, 2, 6, 4, 5))
    worker.module.GATE.set()
    assert [line.receive()["outputs"] for line in lines] == list(range(8))
    assert [seed for seed, _, _ in worker.policy.calls] == [3, 1, 7, 0, 2, 6, 4, 5]


def test_a_line_is_answered_in_its_order(make_worker, attend):
    """Acts, refused ones and ends of episodes sent together are done one after the other."""
    worker = make_worker("policy.ended.append(obs); return obs")
    line = attend(worker).line()
    line.send({"inputs": 1, "episode_id": "e"})
    line.send({"inputs": 2, "params": {"nobody": 1}})
    line.end_episode("e")
    line.send({"inputs": 3})
    line.end_episode("never seen")
    line.end_episode("e")
    assert line.receive()["outputs"] == 1
    with pytest.raises(ActRefusedError, match="nobody") as refused:
        line.receive()
    assert (refused.value.code, refused.value.details) == ("invalid_request", {"reason": "params"})
    assert line.receive()["outputs"] == 3
    assert line.ask({"inputs": 4})["outputs"] == 4
    assert worker.policy.ended == [1, "e", 3, 4]


def test_more_acts_than_may_be_under_way_wait_in_the_line(make_worker, attend):
    """A thousand acts sent without a look at an answer are all answered, in order."""
    line = attend(make_worker()).line()
    sending = threading.Thread(target=lambda: [line.send({"inputs": number}) for number in range(1000)])
    sending.start()
    assert [line.receive()["outputs"] for _ in range(1000)] == list(range(1000))
    sending.join()


def test_an_act_of_somebody_gone_is_not_run(make_worker, attend):
    """What still waited for the copy when its client's end was found costs no inference."""
    worker = make_worker(BUSY)
    desk = attend(worker)
    lines = [desk.line() for _ in range(4)]
    send_while_busy(worker, lines, range(4))
    lines[2].close()
    worker.module.GATE.set()
    assert [lines[number].receive()["outputs"] for number in (0, 1, 3)] == [0, 1, 3]
    assert [seed for seed, _, _ in worker.policy.calls] == [0, 1, 3]


def test_a_draining_desk_answers_what_it_has_and_refuses_more(make_worker, attend):
    """Acts that are here are run; later ones are told to go elsewhere, as at the door."""
    worker = make_worker("GATE.wait(); return obs")
    desk = attend(worker)
    line, other = desk.line(), desk.line()
    line.send({"inputs": 1})
    line.send({"inputs": 2})
    while not desk.tally.counted().busy:  # the second may lie in the socket until the first is done
        time.sleep(0.001)
    desk.order(Order("drain"))
    worker.module.GATE.set()
    assert [line.receive()["outputs"] for _ in range(2)] == [1, 2]
    with pytest.raises(ActRefusedError) as refused:
        asked_until_refused(other)
    worker.service.draining = True
    assert at_the_desk(desk, packed({"inputs": 1})) == at_the_door(worker, packed({"inputs": 1}))
    assert (refused.value.code, refused.value.retryable, refused.value.details) == (
        "unavailable",
        True,
        {"reason": "draining"},
    )


def asked_until_refused(line):
    """Acts until the copy has heard that it is to take none."""
    while True:
        line.ask({"inputs": 3})


def test_every_episode_ends_when_the_copy_shuts_down(make_worker, attend):
    """Those that were seen on the socket and have not ended are told to the policy."""
    worker = make_worker()
    desk = attend(worker)
    line = desk.line()
    for episode in ("e1", "e2", "e1"):
        line.ask({"inputs": 1, "episode_id": episode})
    line.end_episode("e2")
    line.ask({"inputs": 1})
    desk.shut_down()
    assert worker.policy.ended == ["e2", "e1"]


def test_an_episode_without_acts_ends_by_itself(make_worker, attend, monkeypatch):
    """Idle for too long, what the policy keeps for it is freed, though its client is still there or gone."""
    monkeypatch.setattr(assign, "IDLE_LIMIT_S", 0.05)
    worker = make_worker()
    line = attend(worker).line()
    line.ask({"inputs": 1, "episode_id": "e1"})
    while worker.policy.ended != ["e1"]:
        time.sleep(0.01)
    line.end_episode("e1")
    line.ask({"inputs": 1})
    assert worker.policy.ended == ["e1"]


def test_an_inference_that_took_too_long_is_refused(make_worker, attend):
    """Over the limit its value is not told; the next act is answered."""
    worker = make_worker("import time; time.sleep(obs); return obs")
    line = attend(worker, limit_s=0.25).line()
    with pytest.raises(ActRefusedError, match=r"infer took over 0.25 s \(timeouts.request\)") as refused:
        line.ask({"inputs": 0.3})
    assert (refused.value.code, refused.value.retryable) == ("timeout", True)
    assert line.ask({"inputs": 0})["outputs"] == 0


def test_what_is_counted(make_worker, attend):
    """Acts that ran, those of them that failed, and how many wait; what was refused before it ran is none."""
    worker = make_worker("GATE.wait(); return 1 / obs")
    desk = attend(worker)
    lines = [desk.line() for _ in range(3)]
    for line, number in zip(lines, (1, 0, 2), strict=True):
        line.send({"inputs": number})
    while desk.tally.counted().busy == 0 or not worker.policy.calls:
        time.sleep(0.001)
    assert desk.tally.overdue(0.0)
    assert not desk.tally.overdue(60.0)
    worker.module.GATE.set()
    assert lines[0].receive()["outputs"] == 1.0
    with pytest.raises(ActRefusedError, match="division by zero"):
        lines[1].receive()
    assert lines[2].receive()["outputs"] == 0.5
    with pytest.raises(ActRefusedError):
        lines[0].ask({})
    counted = desk.tally.counted()
    assert (counted.acts, counted.errors, counted.busy) == (3, 1, 0)
    assert 0 < counted.used <= time.monotonic()
    assert not desk.tally.overdue(0.0)


def test_the_wait_for_a_busy_copy_is_told(make_worker, attend):
    """An act that lay in the socket while another ran says for how long, beside what it took itself."""
    worker = make_worker("GATE.wait(); return obs")
    desk = attend(worker)
    first, second = desk.line(), desk.line()
    first.send({"inputs": 1})
    while not worker.policy.calls:
        time.sleep(0.001)
    second.send({"inputs": 2})
    time.sleep(0.05)
    worker.module.GATE.set()
    perf = (first.receive()["perf"], second.receive()["perf"])
    assert perf[0]["inference_ms"] >= 50
    assert perf[1]["queue_ms"] >= 50
    assert perf[1]["handler_ms"] >= perf[1]["queue_ms"] + perf[1]["inference_ms"]


def test_a_clock_of_another_kind_harms_nobody(make_worker, attend):
    """What a client says of when it sent an act is bounded by what the copy knows."""
    desk = attend(make_worker())
    for sent in (-1e300, 1e300, "now", None, 10**19, [1]):
        raw = frame(SECRET.encode()) + frame(packed({"inputs": 1, "sent_s": sent}))
        with desk.raw(raw) as line:
            size = int.from_bytes(line.recv(4, socket.MSG_WAITALL), "big")
            assert 0 <= codec.parse(line.recv(size, socket.MSG_WAITALL)[1:], "msgpack")["perf"]["queue_ms"] < 60_000
