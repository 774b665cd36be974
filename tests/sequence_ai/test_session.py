"""The lease and the recovery table: what happens between a robot and its worker when something gives way."""

import logging
import re

import httpx
import pytest

from sequence_ai import AuthError, CertPinError, InternalError, SequencesError, Unavailable
from sequence_ai._transport import transport_to
from sequence_ai.testing import chunk, error

GONE = httpx.ConnectError("connection refused")


@pytest.fixture(autouse=True)
def _echo(platform):
    platform.infer = lambda body: {"outputs": body["inputs"], "action_chunk": chunk([[0.0, 0.0]])}


@pytest.fixture
def policy(connect):
    """A handle that has had its first answer."""
    handle = connect()
    handle.predict(0)
    return handle


def connects(platform):
    return len(platform.to("/v1/act/connect"))


def acts(platform):
    return platform.to("/act")


def request_ids(platform):
    return [sent.headers["x-seq-request-id"] for sent in acts(platform)]


def new_worker(platform, epoch=2, **changes):
    platform.connect = {
        **platform.connect,
        "direct_secret": f"secret-{epoch}",
        "lease": {"ttl_s": 300, "epoch": epoch},
        **changes,
    }


def test_keys_go_only_where_they_belong(platform, policy):
    """The account key goes to the gateway alone, the worker's secret to the worker alone."""
    policy.ready()
    for sent in platform.sent:
        assert (
            sent.headers["authorization"] == f"Bearer {platform.key if sent.server == 'gateway' else 'worker-secret'}"
        )


def test_each_act_has_its_own_request_id(platform, policy):
    """A request id is r- and 8 hex digits, and new for each act."""
    policy.predict(1)
    assert all(re.fullmatch(r"r-[0-9a-f]{8}", rid) for rid in request_ids(platform))
    assert len(set(request_ids(platform))) == 2


def test_a_stale_secret_is_renewed_and_the_act_replayed(platform, policy):
    """A 401 of the worker means a new connect and the same act again, at once, under the same request id."""
    new_worker(platform)
    assert policy.predict(1) == 1
    assert connects(platform) == 2
    assert len(set(request_ids(platform)[1:])) == 1
    assert platform.clock.slept == []


def test_a_worker_that_refuses_for_good_is_an_auth_error(platform, policy):
    """After five reconnects a 401 is raised."""
    platform.answer_next("/act", *[error(401, "unauthenticated")] * 9)
    with pytest.raises(AuthError):
        policy.predict(1)
    assert connects(platform) == 6


@pytest.mark.parametrize(
    "fault",
    [
        GONE,
        httpx.ReadTimeout("slow"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("cut"),
        httpx.PoolTimeout("full"),
    ],
)
def test_a_lost_worker_is_looked_for_and_the_act_replayed(platform, policy, fault):
    """However a worker is lost, the gateway is asked for another after a short pause, and the act goes there."""
    platform.answer_next("/act", fault, fault)
    assert policy.predict(1) == 1
    assert platform.clock.slept == [0.1, 0.2]
    assert (connects(platform), len(set(request_ids(platform)[1:]))) == (3, 1)


def test_a_worker_that_stays_lost_is_unavailable(platform, policy):
    """Five reconnects, with pauses that double, and then the error says that the worker is unreachable."""
    platform.answer_next("/act", *[GONE] * 9)
    with pytest.raises(Unavailable, match="worker unreachable") as caught:
        policy.predict(1)
    assert platform.clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert (caught.value.retryable, caught.value.warming) == (True, False)


def test_looking_for_a_worker_may_use_up_the_time(platform, connect):
    """When the gateway's answer leaves no time for a replay, the worker is unreachable: not a time-out below zero."""
    platform.answer_next("/act", GONE)
    policy = connect(timeout_s=1, startup_timeout_s=1)
    policy.ready()

    def slowly(_):
        raise AssertionError("no time was left to ask")

    platform.infer = slowly
    connect_answer = platform._gateway

    def slow_gateway(request, path):
        platform.clock.move(0.95)
        return connect_answer(request, path)

    platform._gateway = slow_gateway
    with pytest.raises(Unavailable, match="worker unreachable"):
        policy.predict(1)


@pytest.mark.parametrize("retry_after_s", [0.001, 0, None, -1])
def test_a_busy_worker_that_names_no_time_is_not_asked_in_a_rush(platform, policy, retry_after_s):
    """However short a wait the worker names, at least 25 ms lie between two requests; in the end the 429 is raised."""
    platform.answer_next("/act", *[error(429, "busy", retry_after_s=retry_after_s) for _ in range(2000)])
    with pytest.raises(Unavailable) as caught:
        policy.predict(1)
    assert caught.value.code == "busy"
    assert min(platform.clock.slept) >= 0.025


def test_what_a_model_copy_died_of_is_asked_again_under_another_id(platform, policy):
    """The worker has other copies, so no other worker is looked for; an act that kills two of them is given up."""
    crashed = [error(503, "unavailable", "the copy died", details={"reason": "crashed"}) for _ in range(9)]
    platform.sent.clear()
    platform.answer_next("/act", crashed[0])
    policy.predict(1)
    ids = [sent.headers["x-seq-request-id"] for sent in platform.to("/act")]
    assert (len(ids), len(set(ids)), platform.to("/v1/act/connect")) == (2, 2, [])
    platform.answer_next("/act", *crashed[1:])
    with pytest.raises(Unavailable, match="2 model copies died of this act: the copy died"):
        policy.predict(1)
    assert len(platform.to("/act")) == 2 + 2


@pytest.mark.parametrize("reason", ["crashed", "draining"])
def test_an_episode_whose_copy_died_begins_anew_at_its_worker(platform, policy, reason):
    """The worker is the same, what its policy remembered is gone: a new id, and a warning, as for another worker."""
    platform.sent.clear()
    policy.predict(1, episode_id="e1")
    platform.answer_next("/act", error(503, "unavailable", "the copy died", details={"reason": reason}))
    with pytest.warns(UserWarning, match="changed in the middle of episode e1"):
        policy.predict(1, episode_id="e1")
    policy.predict(1, episode_id="e1")
    ids = [sent.body["episode_id"] for sent in acts(platform)]
    assert ids[:2] == ["e1", "e1"]
    assert (len(set(ids[2:])), ids[2] == "e1") == (1, False)


def test_a_draining_worker_is_left(platform, policy):
    """A worker that shuts down is replaced like a lost one; when none comes its own answer is raised."""
    draining = [error(503, "unavailable", "shutting down", details={"reason": "draining"}) for _ in range(9)]
    platform.answer_next("/act", draining[0])
    assert policy.predict(1) == 1
    platform.answer_next("/act", *draining[1:])
    with pytest.raises(Unavailable, match="shutting down"):
        policy.predict(1)


def test_a_busy_worker_is_asked_again_until_the_timeout(platform, connect):
    """A 429 is tried again at the same worker with growing, jittered pauses, for as long as one request may take."""
    policy = connect(timeout_s=2)
    platform.answer_next("/act", *[error(429, "busy", retry_after_s=0.4) for _ in range(3)])
    assert policy.predict(1) == 1
    for pause, most in zip(platform.clock.slept, [0.05, 0.1, 0.2], strict=True):
        assert most / 2 <= pause <= most
    platform.answer_next("/act", *[error(429, "busy") for _ in range(99)])
    with pytest.raises(Unavailable) as caught:
        policy.predict(1)
    assert (caught.value.code, connects(platform)) == ("busy", 1)


@pytest.mark.parametrize(("status", "code"), [(500, "internal"), (504, "timeout"), (502, "upstream_error"), (400, "x")])
def test_other_answers_are_raised_as_they_are(platform, policy, status, code):
    """What the recovery table does not name is not replayed."""
    platform.answer_next("/act", error(status, code))
    with pytest.raises(SequencesError):
        policy.predict(1)
    assert (connects(platform), len(acts(platform))) == (1, 2)


def test_a_policy_that_raises_is_raised_here(platform, policy):
    """The policy's own ValueError arrives as one and is not replayed."""
    details = {"exception": {"type": "ValueError", "message": "bad", "traceback": "T"}}
    platform.answer_next("/act", error(500, "policy_error", details=details))
    with pytest.raises(ValueError, match="bad"):
        policy.predict(1)
    assert len(acts(platform)) == 2


def test_a_gateway_that_is_down_stops_no_robot(platform, policy):
    """When worker and gateway both drop the connection, the worker that is known is asked again and serves on."""
    platform.answer_next("/act", httpx.RemoteProtocolError("idle connection closed"))
    platform.answer_next("/v1/act/connect", GONE)
    assert policy.predict(1) == 1


def test_what_the_gateway_says_during_a_reconnect_is_raised(platform, policy):
    """An error of the gateway during a reconnect is the act's error, unchanged."""
    platform.answer_next("/act", GONE)
    platform.answer_next("/v1/act/connect", error(402, "insufficient_credit", "no credit"))
    with pytest.raises(SequencesError, match=r"^no credit$"):
        policy.predict(1)


def test_the_lease_is_renewed_beside_an_act_once_half_of_it_is_over(platform, policy):
    """Acts in the first half of the lease renew nothing; the next one goes to the worker at once, renewed beside it."""
    platform.clock.move(149)
    policy.predict(1)
    assert connects(platform) == 1
    platform.clock.move(2)
    policy.predict(1)
    policy.predict(1)
    assert (connects(platform), len(acts(platform))) == (1, 4)
    platform.clock.move(0)
    policy.predict(1)
    assert connects(platform) == 2
    assert len({sent.body["session"] for sent in platform.to("/v1/act/connect")}) == 1


@pytest.mark.parametrize("lease", [None, {}, {"ttl_s": 0, "epoch": 1}])
def test_without_a_lease_nothing_is_renewed(platform, connect, lease):
    """A connect answer without a lease is good for ever."""
    platform.connect["lease"] = lease
    policy = connect()
    policy.predict(1)
    platform.clock.move(1e6)
    policy.predict(1)
    assert connects(platform) == 1


@pytest.mark.parametrize("fault", [GONE, httpx.ReadTimeout("slow"), error(500, "internal"), error(409, "conflict")])
def test_a_renewal_that_fails_fails_no_act(platform, policy, fault, caplog):
    """While the worker answers, a failing renewal is logged, not raised, and not tried again at once."""
    platform.clock.move(200)
    platform.answer_next("/v1/act/connect", fault)
    with caplog.at_level(logging.WARNING, "sequence_ai"):
        assert policy.predict(1) == 1
        platform.clock.move(0)
        assert policy.predict(2) == 2
    assert "not renewed" in caplog.text
    asked = connects(platform)
    platform.clock.move(6)
    policy.predict(3)
    platform.clock.move(0)
    assert connects(platform) == asked + 1


def test_a_robot_that_rested_past_its_lease_does_not_drive_beside_another(platform, policy):
    """The gateway is asked first, and has no slot for it any more: it is not sent, and it stands in line to drive."""
    taken = error(503, "unavailable", "in line", retry_after_s=2, details={"queue_position": 3})
    platform.answer_next("/v1/act/connect", taken, taken)
    assert policy.predict(1) == 1
    platform.clock.sleep(301)
    sent = len(platform.to("/act"))
    for told in ("its slot is gone: in line", "in line"):
        with pytest.raises(Unavailable, match=told) as caught:
            policy.predict(1)
        assert caught.value.queue_position == 3
    assert len(platform.to("/act")) == sent
    assert policy.predict(1) == 1


def test_a_robot_that_rested_acts_on_where_the_gateway_is_gone(platform, policy):
    """Nobody can have been given its slot meanwhile."""
    platform.clock.sleep(301)
    platform.answer_next("/v1/act/connect", GONE)
    assert policy.predict(1) == 1
    assert connects(platform) == 2


def test_a_robot_that_drives_past_its_lease_waits_for_no_gateway(platform, policy):
    """Its renewals fail, one after another, beside its acts."""
    platform.answer_next("/v1/act/connect", *[GONE] * 99)
    for _ in range(100):
        platform.clock.move(4)
        asked = connects(platform)
        assert policy.predict(1) == 1
        assert connects(platform) == asked
    assert connects(platform) > 10


def test_a_renewal_at_the_same_worker_keeps_the_episode(platform, connect):
    """The same coordinates and epoch are the same worker: its episode goes on under its own id, without a warning."""
    policy = connect()
    policy.predict(1, episode_id="e1")
    platform.clock.move(200)
    policy.predict(1, episode_id="e1")
    platform.clock.move(0)
    policy.predict(1, episode_id="e1")
    assert connects(platform) == 2
    assert [sent.body["episode_id"] for sent in acts(platform)] == ["e1"] * 3


def test_a_new_worker_in_the_middle_of_an_episode_gets_a_new_episode_id(platform, connect):
    """Another worker never saw the episode's beginning: it goes on there under an id of its own, with a warning."""
    policy = connect()
    policy.predict(1, episode_id="e1")
    new_worker(platform)
    with pytest.warns(UserWarning, match="episode e1") as caught:
        policy.predict(1, episode_id="e1")
    assert caught[0].filename == __file__
    policy.predict(1, episode_id="e1")
    policy.predict(1, episode_id="e2")
    ids = [sent.body["episode_id"] for sent in acts(platform)]
    assert (ids[0], ids[1], ids[-1]) == ("e1", "e1", "e2")  # the second is the one that was refused
    assert ids[2] == ids[3]
    assert re.fullmatch(r"[0-9a-f]{32}", ids[2])


def test_a_new_worker_between_episodes_is_no_event(platform, connect):
    """At an episode's first act a change of worker costs nothing and says nothing."""
    policy = connect()
    policy.predict(1, episode_id="e1")
    new_worker(platform)
    policy.predict(1, episode_id="e2")
    assert acts(platform)[-1].body["episode_id"] == "e2"


def test_a_worker_that_is_leaving_is_left_between_episodes(platform, connect):
    """A rotate in the connect answer is followed at an episode's first act, by asking to move; never inside one."""
    platform.connect["rotate"] = {"reason": "new version"}
    policy = connect()
    policy.predict(1, episode_id="e1")
    assert [sent.body.get("move") for sent in platform.to("/v1/act/connect")] == [None, True]
    platform.clock.move(200)
    policy.predict(1, episode_id="e1")
    platform.clock.move(0)
    assert connects(platform) == 3
    policy.predict(1, episode_id="e2")
    policy.predict(1, episode_id="e3")
    assert [sent.body.get("move") for sent in platform.to("/v1/act/connect")] == [None, True, None, True]
    platform.clock.move(6)
    policy.predict(1, episode_id="e4")
    assert connects(platform) == 5


def test_parameters_change_between_episodes_only(platform, connect):
    """What the platform changed meanwhile counts from the next episode's first act."""
    platform.connect["params"] = {"steps": 4}
    policy = connect()
    policy.predict(1, episode_id="e1")
    platform.connect = {**platform.connect, "params": {"steps": 8}}
    platform.clock.move(200)
    policy.predict(1, episode_id="e1")
    platform.clock.move(0)
    policy.predict(1, episode_id="e1")
    policy.predict(1, episode_id="e2")
    assert [sent.body["params"]["steps"] for sent in acts(platform)] == [4, 4, 4, 8]


@pytest.mark.parametrize("name", ["worker_url", "cert_fingerprint", "direct_secret"])
def test_a_connect_answer_without_coordinates_is_malformed(platform, connect, name):
    """Each of the three coordinates is required, and its absence is named."""
    del platform.connect[name]
    with pytest.raises(SequencesError, match=rf"malformed /v1/act/connect response: {name}"):
        connect().predict(1)


def test_an_answer_to_another_request_is_thrown_away(platform, policy):
    """An answer under another request id, late or sent twice, is nobody's plan: the act is asked for again."""
    late = httpx.Response(200, json={"outputs": "late"}, headers={"X-Seq-Request-Id": "r-other"})
    platform.answer_next("/act", late)
    assert policy.predict(1) == 1
    assert len(set(request_ids(platform)[1:])) == 1


@pytest.mark.parametrize(
    "reply", [httpx.Response(200, text="<html>"), httpx.Response(200, json=[1]), httpx.Response(307, text="")]
)
def test_an_answer_that_is_not_ours_is_an_internal_error(platform, policy, reply):
    """A web page, a list or a redirect is no answer of a worker."""
    platform.answer_next("/act", reply)
    with pytest.raises(InternalError):
        policy.predict(1)


@pytest.mark.parametrize("fingerprint", ["", "ab" * 31, "zz" * 32])
def test_without_a_readable_fingerprint_nothing_is_sent(fingerprint):
    """An unreadable fingerprint is refused before a socket opens, whatever the address; colons and case are free."""
    with pytest.raises(CertPinError, match="fingerprint"):
        transport_to(fingerprint)
    assert transport_to(":".join(["AB"] * 32)) is not None


def test_a_handle_closed_by_another_thread_takes_no_new_slot(platform, policy):
    """Closing in the middle of an act releases the slot, and the act does not connect again."""

    def close_and_fail(_):
        policy.close()
        raise httpx.ReadError("closed under it")

    platform.infer = close_and_fail
    with pytest.raises(SequencesError, match="closed"):
        policy.predict(1)
    asked = [sent.path for sent in platform.sent if sent.server == "gateway" and sent.path != "/v1/latency"]
    assert asked == ["/v1/act/connect", "/v1/act/release"]


def test_a_slot_given_to_a_handle_that_was_closed_meanwhile_goes_back(platform, connect):
    """Closed while the gateway thought about a place: what it then gives is given back, and no worker is spoken to."""
    policy = connect()
    think = platform._gateway

    def gateway(request, path):
        if path == "/v1/act/connect":
            policy.close()
        return think(request, path)

    platform._gateway = gateway
    with pytest.raises(SequencesError, match="closed"):
        policy.predict(1)
    assert len(platform.to("/v1/act/release")) == 2
    assert acts(platform) == []


def test_a_gateway_that_stalls_delays_no_act_again_and_again(platform, connect):
    """Where a move is asked for and the gateway takes its time, the next acts do not wait for it as well."""
    platform.connect["rotate"] = {"reason": "new version"}
    policy = connect()
    policy.predict(1)
    think = platform._gateway

    def slow(request, path):
        if path == "/v1/act/connect":
            platform.clock.move(1.0)
            raise httpx.ReadTimeout("slow")
        return think(request, path)

    platform._gateway = slow
    platform.clock.move(10)
    asked = connects(platform)
    for _ in range(40):
        policy.predict(1)
        platform.clock.move(1)
    assert connects(platform) - asked == 1


def test_a_machine_without_a_thread_to_spare_renews_later(platform, policy, monkeypatch):
    """When no thread can be started for a renewal the act is answered all the same, and a later one renews."""
    later = platform.clock.later

    def no_thread(*_):
        raise RuntimeError("can't start new thread")

    platform.clock.move(200)
    monkeypatch.setattr(platform.clock, "later", no_thread)
    assert policy.predict(1) == 1
    monkeypatch.setattr(platform.clock, "later", later)
    platform.clock.move(10)
    assert policy.predict(2) == 2
    platform.clock.move(0)
    assert connects(platform) == 2


def test_a_malformed_renewal_is_not_asked_for_at_every_act(platform, policy, caplog):
    """What a gateway says that cannot be read fails no act, and is put off like a gateway that does not answer."""
    platform.connect["lease"] = "soon"
    platform.clock.move(200)
    with caplog.at_level(logging.WARNING, "sequence_ai"):
        for _ in range(10):
            policy.predict(1)
            platform.clock.move(0.1)
    assert connects(platform) == 2
    assert "not renewed" in caplog.text


def test_a_link_closes_once_nobody_uses_it(platform, policy):
    """Closing under an act that is under way leaves its connection to it; the next call finds the link closed."""
    link = policy._session._worker.link
    closes = []
    link._close = lambda: closes.append(len(acts(platform)))

    def infer(body):
        link.close()
        assert closes == []
        return {"outputs": body["inputs"]}

    platform.infer = infer
    assert policy.predict(5) == 5
    assert closes == [2]
