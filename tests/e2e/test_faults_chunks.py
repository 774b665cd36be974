"""Faults of others in how chunks are played, on a clock moved by hand: seams, slow first answers, ticks, and sizes."""

import statistics
import time

import httpx
import pytest

import sequence_ai
from runner.main import KEEP_ALIVE_S as GATEWAY_KEEP_ALIVE_S
from runner.worker.server import KEEP_ALIVE_S as WORKER_KEEP_ALIVE_S
from sequence_ai import InvalidRequest
from sequence_ai._transport import _LIMITS
from sequence_ai.testing import FakePlatform, FakeRobot, chunk, error

HZ = 10.0


def driven(infer, *, lag_s=0.0, space="joint_absolute", first_s=0.0, **options):
    """A run on a clock moved by hand: robot, platform and outcome. The first answer takes `first_s` more."""
    platform = FakePlatform(infer=infer)
    robot = FakeRobot(platform.clock)
    platform.clock.lag_s = lag_s + first_s

    def usual_from_now_on():
        platform.clock.lag_s = lag_s

    robot.plan("on_chunk", 1, usual_from_now_on)
    platform.connect["action"] = {**platform.connect["action"], "action_space": space}
    with platform.in_place(), sequence_ai.connect("toy", base_url=platform.url, api_key=platform.key) as policy:
        outcome = policy.run(**{**robot.callables, "progress": False, "max_actions": 30, **options})
    return robot, platform, outcome


def ramp(space, *, step=0.1, rows=10, offset=0.0):
    """A policy that goes on from where the robot stood when it looked, `step` a row; `offset` more in each chunk."""
    count = iter(range(1000))

    def infer(body):
        here = body["observation"]["proprioception"]["joint_positions"][0] + offset * next(count)
        values = [[here + step * (row + 1), 0.0] if space == "joint_absolute" else [step, 0.0] for row in range(rows)]
        return {"action_chunk": {**chunk(values, hz=HZ), "action_space": space}}

    return infer


class Arm(FakeRobot):
    """A robot that moves as its rows say."""

    def __init__(self, clock, space):
        super().__init__(clock, look=lambda _: _looked(self.position))
        self.space = space
        self.position = 0.0
        self.path = []

    def act(self, row):
        """Move."""
        super().act(row)
        self.position = row[0] if self.space == "joint_absolute" else self.position + row[0]
        self.path.append(round(self.position, 6))


def _looked(position):
    return sequence_ai.Observation([], sequence_ai.Proprioception([position]), "go")


@pytest.mark.parametrize("smooth_seam", [0, 3])
@pytest.mark.parametrize("space", ["joint_absolute", "joint_delta"])
def test_absolute_and_delta_actions_make_one_path(space, smooth_seam):
    """The same ramp in two spaces moves the arm alike across boundaries; smoothing leaves increments as they are."""
    platform = FakePlatform(infer=ramp(space))
    arm = Arm(platform.clock, space)
    with platform.in_place(), sequence_ai.connect("toy", base_url=platform.url, api_key=platform.key) as policy:
        told = {**arm.callables, "max_actions": 30, "progress": False, "prefetch": False, "smooth_seam": smooth_seam}
        policy.run(**told)
    straight = [round(0.1 * (step + 1), 6) for step in range(30)]
    if space == "joint_delta":
        assert arm.path == straight
    elif not smooth_seam:
        assert arm.path == pytest.approx(straight)
    assert arm.path[-1] == pytest.approx(3.0)


@pytest.mark.parametrize("lag_s", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("first_s", [0.0, 5.0])
def test_a_slow_first_answer_costs_no_row_and_no_estimate(lag_s, first_s):
    """Every row of every chunk is played, the first chunk's too; the cold answer makes no later request come early."""

    def labelled(body):
        look = body["observation"]["proprioception"]["joint_positions"][0]
        return {"action_chunk": chunk([[look, float(row)] for row in range(10)], hz=HZ)}

    robot, _, outcome = driven(labelled, lag_s=lag_s, first_s=first_s)
    assert [row[1] for row in robot.rows] == [float(row) for row in range(10)] * 3
    assert outcome.underruns <= 1  # the second chunk is asked for on what one answer taught
    third_look, third_chunk = robot.calls("observe")[2].when, robot.played[20].when
    assert third_chunk - third_look <= 1.25 * max(lag_s, 0.01) + 2 / HZ + 0.3


@pytest.mark.parametrize("step", [0.0, 0.4, 2.5])
def test_the_seam_is_measured_as_it_is(step):
    """Chunks that disagree by a known step say exactly that, smoothed or not; no row is averaged unless asked."""
    count = iter(range(10))

    def infer(_):
        level = step * next(count)
        return {"action_chunk": chunk([[level, -level]] * 10, hz=HZ)}

    robot, _, outcome = driven(infer, max_actions=20)
    assert outcome.max_seam_jump == pytest.approx(step)
    assert set(robot.rows) == {(0.0, 0.0), (step, -step)}
    count = iter(range(10))
    blended, _, smoothed = driven(infer, max_actions=20, smooth_seam=4)
    assert smoothed.max_seam_jump == pytest.approx(step)
    assert [row[0] for row in blended.rows[10:14]] == pytest.approx([step * (row + 1) / 5 for row in range(4)])
    assert blended.rows[:10] == robot.rows[:10]
    assert blended.rows[14:] == robot.rows[14:]


def test_ticks_do_not_depend_on_the_round_trip():
    """With prefetching the robot is commanded at the same moments whether the server is near or far."""
    near, _, _ = driven(ramp("joint_absolute"), lag_s=0.0)
    far, _, outcome = driven(ramp("joint_absolute"), lag_s=0.4)
    ticks = [[played.when - robot.played[0].when for played in robot.played] for robot in (near, far)]
    assert ticks[0] == pytest.approx([tick / HZ for tick in range(30)])
    assert ticks[1] == pytest.approx(ticks[0])
    assert outcome.underruns == 0
    assert outcome.max_observation_age_s >= 0.4
    assert outcome.max_observation_age_rows >= 4


def test_a_front_door_that_caps_messages_is_told():
    """A proxy of somebody's that refuses large bodies with a page of its own: InvalidRequest, and no web page in it."""
    page = httpx.Response(413, html="<html><h1>Request Entity Too Large</h1></html>")
    platform = FakePlatform()
    robot = FakeRobot(platform.clock)
    platform.answer_next("/act", page)
    with platform.in_place():
        policy = sequence_ai.connect("toy", base_url=platform.url, api_key=platform.key)
        with policy, pytest.raises(InvalidRequest) as raised:
            policy.run(**robot.callables, max_actions=10, progress=False)
    assert raised.value.code == "payload_too_large"
    assert "<" not in str(raised.value)
    assert len(robot.calls("hold")) == 1


def test_a_refusal_says_why_and_when_to_come_back():
    """A 503 that is waited for carries its reason and its time into the error."""
    platform = FakePlatform()
    busy = error(503, "unavailable", "no card is free", retry_after_s=7, details={"reason": "gpu_busy"})
    platform.answer_next("/v1/act/connect", busy)
    with platform.in_place():
        policy = sequence_ai.connect("toy", base_url=platform.url, api_key=platform.key)
        with policy, pytest.raises(sequence_ai.Unavailable) as raised:
            policy.predict(1)
    assert (raised.value.retry_after_s, raised.value.details["reason"]) == (7, "gpu_busy")


def test_a_buffered_action_is_handed_out_at_once():
    """With actions left nothing is sent and no picture is touched; half of all pops take under 0.2 ms."""
    platform = FakePlatform(infer=lambda _: {"action_chunk": chunk([[0.0] * 2] * 5000, hz=HZ)})
    with platform.in_place(), sequence_ai.connect("toy", base_url=platform.url, api_key=platform.key) as policy:
        seen = _looked(0.0)
        policy.next_action(seen)
        sent, took = len(platform.to("/act")), []
        for _ in range(4000):
            began = time.perf_counter()
            policy.next_action(seen)
            took.append(time.perf_counter() - began)
    assert len(platform.to("/act")) == sent == 1
    assert statistics.median(took) < 0.0002


def test_the_client_lets_idle_connections_go_before_a_server_does():
    """No request meets a connection that a server of ours has just closed for being idle."""
    assert _LIMITS.keepalive_expiry < min(WORKER_KEEP_ALIVE_S, GATEWAY_KEEP_ALIVE_S)
