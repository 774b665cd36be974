"""Answers of a gateway or a worker that are broken or hostile: each is one typed error, and none is a Python error."""

import copy
import json
import math

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sequence_ai
from sequence_ai import InternalError, PolicyError, SequencesError, _wire, from_response
from sequence_ai._buffer import limited
from sequence_ai._contract import mismatches
from sequence_ai.testing import FakePlatform, chunk

CONNECT = {
    "worker_url": "http://worker.test",
    "cert_fingerprint": "ab" * 32,
    "direct_secret": "worker-secret",
    "lease": {"ttl_s": 300, "epoch": 1},
    "action": {
        "robot": "fake_arm",
        "action_space": "joint_absolute",
        "action_dim": 2,
        "control_frequency_hz": 10,
        "bounds": [[-1, 1], [-1, 1]],
        "max_delta": 0.5,
    },
    "observation": {
        "cameras": {"front": {"width": 8, "height": 8, "depth": False}},
        "history": 1,
        "proprio": {"joint_positions": 1},
        "state": {"goal": 3},
        "instruction": True,
    },
    "embodiment": "left",
    "params": {},
    "rotate": None,
    "encodings": ["json"],
}
ANSWER = {"id": "r-1", "model": "m", "perf": {}, "usage": {}, "warnings": [], "action_chunk": chunk([[0.0, 0.0]] * 3)}
HUGE = 10**400
ARRAY = {"__nd__": ["<f8", [2], "AAAAAAAA8D8AAAAAAAAAQA=="]}
DEEP = b'{"action_chunk":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def altered(body, path, value):
    """The body with another value at a dotted path."""
    changed = copy.deepcopy(body)
    *above, last = path.split(".")
    place = changed
    for name in above:
        place = place[name]
    place[last] = value
    return changed


def answered(platform, path, body, status=200):
    """The next answer at a path, as bytes: what no well-behaved server could write."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    platform.answer_next(path, httpx.Response(status, content=content, headers=headers))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("direct_secret", ["line\nbreak", "\ud800"]),
        ("lease", [5, True, [1], "x"]),
        ("lease.ttl_s", ["300", True, math.nan, math.inf, HUGE, []]),
        ("lease.epoch", [ARRAY]),
        ("action", [5, True, [1], "x"]),
        ("action.action_dim", ["2", True, 0, 2.5]),
        ("action.bounds", [5, "ab", {}, [], [[-1, 1]], [[-1, 1], None], [[-1, 1], [0]], [[-1, 1], [0, "1"]]]),
        ("action.max_delta", ["x", True, 0, -1, math.nan, HUGE, {}, [0.5], [0.5, 0], [0.5, None]]),
        ("observation", [5, "x", [1]]),
        ("observation.cameras", [5, ["front"], {"front": 8}, {"front": {"depth": ARRAY}}]),
        ("observation.history", [0, -1, "2", True, 1.5]),
        ("observation.proprio", [5, ["gripper"], {"gripper": "one"}, {"gripper": -1}, {"gripper": True}]),
        ("observation.state", [5, ["goal"], {"goal": None}, {"goal": 1.5}]),
        ("observation.instruction", ["yes", 1, ARRAY]),
        ("embodiment", [5, True, ["left"], {}]),
        ("params", [5, True, "x", [1]]),
        ("rotate", [ARRAY]),
        ("encodings", [5, True, "json", {}, [1], [["json"]]]),
    ],
)
def test_a_malformed_connect_answer_is_refused_before_anything_moves(platform, connect, seen, path, values):
    """Each field of another kind is a SequencesError that names it, and no act is sent."""
    for value in values:
        answered(platform, "/v1/act/connect", altered(CONNECT, path, value))
        with pytest.raises(SequencesError, match=f"malformed.*{path.rpartition('.')[2]}"):
            connect().predict(seen)
    assert platform.to("/act") == []


@pytest.mark.parametrize("bounds", [[[1, -1], [-1, 1]], [[math.nan, 1], [-1, 1]], [[math.inf] * 2] * 2])
def test_a_limit_that_cannot_be_enforced_is_refused_by_name(bounds):
    """Low above high, NaN, and a range that holds no number: the dimension is named."""
    with pytest.raises(SequencesError, match=r"action\.bounds\[0\].*cannot be enforced"):
        _wire.read_connect(altered(CONNECT, "action.bounds", bounds))


def test_a_secret_that_is_refused_is_not_shown():
    """The sentence about a malformed secret does not hold it."""
    with pytest.raises(SequencesError) as caught:
        _wire.read_connect(altered(CONNECT, "direct_secret", "hush\n"))
    assert "hush" not in repr(caught.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("action.bounds", [[-math.inf, math.inf], [0, 0]]),
        ("action.max_delta", [0.1, 2]),
        ("action.max_delta", None),
        ("action", {}),
        ("observation", None),
        ("observation.cameras", {"front": None}),
        ("observation.proprio", {"gripper": None, "joint_positions": 7}),
        ("lease.epoch", {"any": ["JSON", 1]}),
        ("lease.ttl_s", None),
        ("rotate", {"reason": "new_version"}),
        ("encodings", ["a later one", "json"]),
        ("a_later_field", ARRAY),
    ],
)
def test_what_the_contract_allows_is_read(path, value):
    """Absent, empty, open-ended and later fields are no malformed ones; equal epochs are the same worker."""
    answer = _wire.read_connect(altered(CONNECT, path, value))
    assert answer.same_worker(_wire.read_connect(altered(CONNECT, path, copy.deepcopy(value))))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("steps", [0, True, 1.5, "x", {"a": 1}, [5], [None], [[HUGE, 0.0]], [[True, 0.0]], [["1", 0.0]], [[0.0]]]),
        ("robot", [5, True, ["r"], {}]),
        ("action_space", [5, True, ["joint_absolute"], {}]),
        ("action_dim", ["2", True, 0, 2.5, -2, []]),
        ("control_frequency_hz", ["15", True, 0, -1, math.nan, math.inf, HUGE, 1e300, []]),
        ("covers_seconds", ["1", True, math.nan, HUGE, []]),
        ("open_loop_horizon", ["2", True, 0, -1, 1.5, []]),
        ("sustains_seconds", ["2", True, math.nan, HUGE, []]),
    ],
)
def test_a_malformed_chunk_is_a_policy_error(name, values):
    """Each field of another kind is a PolicyError that names it; of the rows nothing is handed out."""
    for value in values:
        with pytest.raises(PolicyError, match="row 0 of the chunk|steps" if name == "steps" else name):
            _wire.read_chunk({**ANSWER["action_chunk"], name: value})


@pytest.mark.parametrize("name", ["id", "rid", "model", "perf", "usage", "warnings"])
def test_what_comes_beside_a_chunk_is_checked_too(name):
    """A malformed member of the answer is an InternalError that names it."""
    for value in (5, True, np.zeros(2)):
        with pytest.raises(InternalError, match=f"its {name} is"):
            _wire.read_prediction({**ANSWER, "id": None, name: value}, request_id="r", model="m")


@pytest.mark.parametrize("where", ["/act", "/v1/act/connect"])
@pytest.mark.parametrize(("status", "kind"), [(200, InternalError), (404, sequence_ai.NotFound)])
def test_a_body_that_nests_too_deeply_is_a_typed_error(platform, connect, seen, where, status, kind):
    """100,000 levels of nesting are no JSON object, whatever the status."""
    answered(platform, where, DEEP, status)
    with pytest.raises(kind):
        connect().predict(seen)


@pytest.mark.parametrize("charset", ["base64", "idna", "rot13", "nonsense", "utf-16"])
def test_a_charset_that_is_none_hides_no_answer(platform, connect, seen, charset):
    """An answer that is no JSON is shown as text whatever charset it claims."""
    headers = {"Content-Type": f"text/plain; charset={charset}"}
    platform.answer_next("/act", httpx.Response(404, content=b"no such page", headers=headers))
    with pytest.raises(sequence_ai.NotFound, match="no such page"):
        connect().predict(seen)


def test_a_malformed_renewal_leaves_the_robot_acting(platform, connect, seen):
    """A renewal that cannot be read is a failed renewal: the acts go on, and it is not asked for again at each."""
    policy = connect()
    policy.predict(seen)
    platform.connect["lease"] = "soon"
    platform.clock.move(200)
    for _ in range(5):
        policy.predict(seen)
        platform.clock.move(0.1)
    assert len(platform.to("/act")) == 6
    assert len(platform.to("/v1/act/connect")) == 2


SEEN = sequence_ai.observation(images={}, joints=[0.0], instruction="go")
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([HUGE, -HUGE]) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
) | st.just(np.zeros(2))


def paths(body, above=""):
    """Every dotted path in a body."""
    for name, value in body.items():
        yield above + name
        if isinstance(value, dict):
            yield from paths(value, f"{above}{name}.")


ERROR = {
    "detail": "d",
    "code": "warming",
    "status": "x",
    "retry_after_s": 1,
    "request_id": "r",
    "hint": "h",
    "details": {
        **dict.fromkeys(("reason", "queue_position", "eta_s", "job_id", "gpu", "limit", "requested", "in_use"), 1),
        **dict.fromkeys(("short", "max_gpus", "waited_s"), 1),
        "exception": {"type": "ValueError", "message": "m", "traceback": "t"},
    },
}
CODES = ("warming", "busy", "unavailable", "policy_error", "gone", "nonsense")
REASONS = ("gpu_limit_reached", "gpu_busy", "gpu_low_stock", "deployment_full", "queue_timeout", "x")


@given(st.sampled_from(sorted(paths(ERROR))), PLAIN, st.sampled_from(CODES), st.sampled_from(REASONS))
def test_any_error_body_becomes_an_exception(path, value, code, reason):
    """Whatever stands in one field, there is an exception whose parts are what they are said to be."""
    body = altered(altered({**ERROR, "code": code}, "details.reason", reason), path, value)
    error = from_response(503, body)
    assert isinstance(str(error), str)
    if isinstance(error, SequencesError):
        for part in (error.code, error.request_id, error.hint):
            assert part is None or isinstance(part, str)
        assert error.retry_after_s is None or 0 <= error.retry_after_s < math.inf


@given(st.sampled_from(sorted(paths(CONNECT))), PLAIN)
def test_any_connect_answer_is_read_or_refused(path, value):
    """Whatever stands in one field, it is refused with a SequencesError, or what it declares can be applied."""
    try:
        answer = _wire.read_connect(altered(CONNECT, path, value))
    except SequencesError:
        return
    assert isinstance(answer.same_worker(answer), bool)
    assert all(map(math.isfinite, limited([5.0, 5.0], [0.0, 0.0], answer.action)))
    assert isinstance(mismatches(SEEN, answer.observation or {}), list)


@given(st.sampled_from(sorted(paths(ANSWER))), PLAIN)
def test_any_answer_of_a_worker_is_read_or_refused(path, value):
    """Whatever stands in one field, the rows handed out are finite numbers of the chunk's length, or it is refused."""
    try:
        prediction = _wire.read_prediction(altered(ANSWER, path, value), request_id="r", model="m")
    except SequencesError:
        return
    played = prediction.action_chunk
    assert all(len(row) == played.action_dim and all(map(math.isfinite, row)) for row in played.steps)
    assert 0 < played.control_frequency_hz <= _wire.MOST_HZ
    assert repr(played)


def test_the_intact_bodies_are_read():
    """What the tests above alter is itself an answer."""
    assert _wire.read_connect(CONNECT).action == CONNECT["action"]
    assert len(_wire.read_prediction(ANSWER, request_id="r", model="m").action_chunk) == 3
    assert FakePlatform().connect.keys() <= CONNECT.keys()
