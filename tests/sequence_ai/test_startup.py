"""Waiting before the first answer: what is waited out, for how long, and who is told."""

import httpx
import pytest

import sequence_ai
from sequence_ai import Conflict, Unavailable
from sequence_ai.testing import error


def warming(retry_after_s=174):
    return error(503, "warming", "loading", retry_after_s=retry_after_s)


def queued(position=2, **details):
    return error(503, "unavailable", "full", retry_after_s=4, details={"queue_position": position, **details})


pytestmark = pytest.mark.filterwarnings("ignore:toy does not act yet")


@pytest.fixture(autouse=True)
def _echo(platform):
    platform.infer = lambda body: {"outputs": body["inputs"]}


def test_a_starting_worker_is_waited_out_before_the_first_answer(platform, connect):
    """Each wait is as long as the platform says, at least 1 s, 5 where it says nothing; the callback hears of it."""
    platform.answer_next("/v1/act/connect", warming(7), warming(0.2), warming(None))
    told = []
    assert connect(on_warming=lambda waited, retry: told.append((waited, retry))).predict(1) == 1
    assert told == [(0, 7), (7, 1), (8, 5)]
    assert platform.clock.waited == [7, 1, 5]
    assert len({sent.body["session"] for sent in platform.to("/v1/act/connect")}) == 1


def test_by_default_one_line_on_stderr_says_that_it_starts(platform, connect, capsys):
    """Without callbacks each wait is a line on stderr, and stdout stays untouched."""
    platform.answer_next("/v1/act/connect", warming(7), queued(2, eta_s=30, reason="gpu_busy"))
    connect().predict(1)
    printed = capsys.readouterr()
    assert "[sequences] toy is starting: waited 0s" in printed.err
    assert "[sequences] queued for a GPU slot: position 2, about 30s …" in printed.err
    assert printed.out == ""


def test_a_place_in_line_is_waited_out(platform, connect):
    """A queued robot polls every 2 to 30 s with up to a fifth of jitter; its callback hears place, guess, reason."""
    platform.answer_next("/v1/act/connect", queued(2, eta_s=30, reason="deployment_full"), queued(1))
    told = []
    connect(on_queue=lambda *facts: told.append(facts)).predict(1)
    assert [facts[:2] + facts[3:] for facts in told] == [(2, 30, "deployment_full"), (1, None, None)]
    assert all(4 <= pause <= 4.8 for pause in platform.clock.waited)


def test_a_gateway_that_holds_the_question_does_the_waiting(platform, connect):
    """Asked again at once, with how long it may hold; the first question and those after a slot are never held."""
    holds = {"details": {"queue_position": 1, "holds_s": 2.5}, "retry_after_s": 4}
    platform.answer_next("/v1/act/connect", *[error(503, "unavailable", "full", **holds)] * 3)
    told = []
    policy = connect(on_queue=lambda *facts: told.append(facts))
    assert (policy.predict(1), len(told)) == (1, 3)
    assert sum(platform.clock.waited) < 0.2
    assert [sent.body.get("wait_s") for sent in platform.to("/v1/act/connect")] == [None, 2.5, 2.5, 2.5]
    platform.clock.sleep(200)  # past half of the lease
    policy.predict(1)
    platform.clock.sleep(1)
    assert "wait_s" not in platform.to("/v1/act/connect")[4].body


def test_a_platform_that_goes_away_is_waited_for_by_those_who_wait_already(platform, connect):
    """A place in line outlives a gateway that is started again; one that was never there is told at once."""
    refused = [httpx.ConnectError("refused") for _ in range(3)]
    platform.answer_next("/v1/act/connect", queued(2), *refused[:2], queued(1))
    assert connect(on_queue=lambda *_: None).predict(1) == 1
    assert platform.clock.waited[1:3] == [1, 1]
    platform.answer_next("/v1/act/connect", refused[2])
    with pytest.raises(Unavailable, match="not reachable"):
        connect().predict(1)


def test_a_spent_budget_is_told(platform, connect):
    """Past startup_timeout_s the error names it, and still tells that the model is starting and when to ask."""
    platform.answer_next("/v1/act/connect", *[warming(40)] * 9)
    with pytest.raises(Unavailable, match="startup_timeout_s=100") as caught:
        connect(startup_timeout_s=100, on_warming=lambda *_: None).predict(1)
    assert (caught.value.warming, caught.value.retry_after_s) == (True, 40)
    assert platform.clock.waited == [40, 40, 20]


def test_no_budget_is_no_wait(platform, connect):
    """With startup_timeout_s=0 the platform's own answer is raised at once."""
    platform.answer_next("/v1/act/connect", warming(174))
    with pytest.raises(Unavailable, match=r"^loading$") as caught:
        connect(startup_timeout_s=0).predict(1)
    assert (caught.value.warming, caught.value.retry_after_s, platform.clock.waited) == (True, 174, [])


def test_after_the_first_answer_nothing_is_waited_out(platform, connect):
    """Once a policy has answered, a worker that starts anew is raised, for an arm may be in motion."""
    policy = connect()
    policy.predict(1)
    platform.answer_next("/act", warming(7))
    with pytest.raises(Unavailable) as caught:
        policy.predict(1)
    assert caught.value.warming
    assert platform.clock.waited == []


def test_a_worker_that_warms_up_is_waited_out_too(platform, connect):
    """A warming answer from the worker itself counts like one from the gateway."""
    platform.answer_next("/act", warming(3))
    assert connect(on_warming=lambda *_: None).predict(1) == 1
    assert platform.clock.waited == [3]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (lambda: error(429, "busy"), Unavailable),
        (lambda: error(503, "unavailable"), Unavailable),
        (lambda: error(503, "unavailable", details={"reason": "queue_timeout", "waited_s": 120}), Unavailable),
        (lambda: error(409, "conflict", details={"state": "stopped"}), Conflict),
    ],
)
def test_anything_else_is_raised_at_once(platform, connect, reply, kind):
    """A rate limit, a full deployment, a spent queue and a stopped deployment are not waited out."""
    platform.answer_next("/v1/act/connect", reply())
    with pytest.raises(kind):
        connect().predict(1)
    assert platform.clock.waited == []


def test_a_connection_that_breaks_during_warm_up_is_made_again(platform, connect):
    """A gateway that drops the connection before the first answer is asked again within the budget."""
    dropped = [httpx.RemoteProtocolError("server disconnected")] * 3
    platform.answer_next("/v1/act/connect", *dropped)
    assert connect(on_warming=lambda *_: None).predict(1) == 1
    assert len(platform.to("/v1/act/connect")) == 4


def test_a_gateway_that_is_not_there_is_told_at_once(platform, connect):
    """Nothing listening at the address is an error with the address, not a wait of half an hour."""
    platform.answer_next("/v1/act/connect", httpx.ConnectError("connection refused"))
    with pytest.raises(Unavailable, match=r"http://gateway\.test is not reachable: connection refused$"):
        connect().predict(1)
    assert platform.clock.waited == []


def test_a_local_platform_that_is_not_running_is_told_with_the_remedy(platform):
    """At an address of this machine the error says how to see what runs and how to start a platform."""
    platform.answer_next("/v1/act/connect", httpx.ConnectError("connection refused"))
    policy = sequence_ai.connect("toy", base_url="http://127.0.0.1:8800", api_key=platform.key)
    with pytest.raises(Unavailable, match="seq up"):
        policy.predict(1)
