"""Timings told to the gateway beside the acts: what they hold, how many at once, and that they never get in the way."""

import json

import httpx
import pytest

from sequence_ai import Unavailable
from sequence_ai.testing import chunk, error


def records(platform):
    return [record for sent in platform.to("/v1/latency") for record in sent.body["records"]]


def test_each_act_is_told_once(platform, connect, seen):
    """A record has the act's request id, its times in ms, the worker's own block and the rows that will be played."""
    perf = {"handler_ms": 0.0, "inference_ms": 0.0}
    platform.infer = lambda _: {"action_chunk": chunk([[0.0, 0.0]] * 4, horizon=3), "perf": perf}
    policy = connect()
    policy.predict(seen)
    assert records(platform) == []  # not on the way of an act
    platform.clock.move(3)
    [record] = records(platform)
    assert record["rid"] == platform.to("/act")[0].headers["x-seq-request-id"]
    assert (record["model_id"], record["deployment_id"], record["outcome"]) == ("toy", "toy", "served")
    assert (record["frames"], record["perf"], record["network_ms"]) == (3, perf, 0.0)
    assert record["client"]["first_after_connect"] is True
    policy.predict(seen)
    platform.clock.move(3)
    assert records(platform)[1]["client"]["first_after_connect"] is False


def test_failed_acts_are_told_as_such(platform, connect, seen):
    """A worker that starts is "warming", anything else that failed is "error"."""
    platform.answer_next("/act", error(503, "warming"), error(500, "policy_error"))
    policy = connect(startup_timeout_s=0)
    with pytest.raises(Unavailable):
        policy.predict(seen)
    with pytest.raises(Exception, match="said by the test"):
        policy.predict(seen)
    platform.clock.move(3)
    assert [record["outcome"] for record in records(platform)] == ["warming", "error"]


def test_at_most_64_a_call_and_what_is_left_at_the_end(platform, connect, seen):
    """Records go in calls of 64; closing tells the rest."""
    policy = connect()
    for _ in range(100):
        policy.predict(seen)
    platform.clock.move(3)
    assert [len(sent.body["records"]) for sent in platform.to("/v1/latency")] == [64, 36]
    policy.predict(seen)
    policy.close()
    assert len(records(platform)) == 101


def test_a_gateway_that_is_gone_disturbs_no_act(platform, connect, seen):
    """Records that cannot be told are dropped, the oldest first, and nothing is raised."""
    policy = connect()
    policy.predict(seen)
    platform.answer_next("/v1/latency", *[httpx.ConnectError("refused") for _ in range(1000)])
    for _ in range(700):
        policy.predict(seen)
        platform.clock.move(0.01)
    policy.close()
    assert len(platform.to("/act")) == 701


def test_no_image_and_no_secret_is_told(platform, connect, seen):
    """A record holds numbers and ids only."""
    policy = connect()
    policy.predict(seen)
    policy.close()
    told = json.dumps(records(platform))
    for secret in (platform.key, "worker-secret", seen.images[0].data):
        assert secret not in told
