"""A real worker driven through networks that fail: what is played stays true, and a loop that cannot go on holds."""

import threading
import time
import warnings

import pytest

from sequence_ai import AuthError, CertPinError, Unavailable
from tests.e2e.driving import EPISODE, HZ, Label, driving, ended, held, labels, seen, sound
from tests.e2e.driving import deployed as deploy

CHUNK = 10
STALL_S = 5.0


@pytest.fixture(scope="module")
def platform(shared):
    return deploy(shared)


@pytest.fixture
def drive(platform):
    with driving(platform) as made:
        made.policy.predict(seen(0))
        yield made


def at_row(drive, number, fault):
    """Let the network fail while row `number` is played."""
    drive.robot.plan("act", number, fault)


def after(seconds, deed):
    """Do it from another thread, later."""
    timer = threading.Timer(seconds, deed)
    timer.daemon = True
    timer.start()
    return timer


def requests_of(drive):
    return sorted({label.request for label in labels(drive.robot)})


@pytest.mark.parametrize("bytes_of_it", [0, 1, 200])
def test_an_answer_broken_off_is_asked_for_again_and_inferred_once(drive, bytes_of_it):
    """A connection reset before or within an answer costs no row: the same request is answered from memory."""
    at_row(drive, 3, lambda: drive.road.workers.reset_answer(after=bytes_of_it))
    outcome = drive.run(40)
    assert (outcome.reason, outcome.actions) == ("completed", 40)
    assert outcome.episode_resets == 0
    sound(drive.robot)
    requests = requests_of(drive)
    assert requests == list(range(requests[0], requests[0] + 4))


def test_a_request_that_was_lost_is_sent_again(drive):
    """A connection reset before the worker has read a byte costs no row, and one inference a chunk is run."""
    at_row(drive, 3, drive.road.workers.reset_request)
    assert drive.run(40).reason == "completed"
    sound(drive.robot)
    requests = requests_of(drive)
    assert requests == list(range(requests[0], requests[0] + 4))


def test_idle_connections_that_were_closed_cost_nothing(drive):
    """A kept connection that a server or a proxy has closed is replaced, fifty times, each act run exactly once."""
    first = drive.asked().request
    for number in range(1, 51):
        drive.road.workers.hang_up()
        assert drive.asked().request == first + number


def test_a_reset_at_any_moment_of_a_run_costs_no_row(drive):
    """Connections reset again and again while chunks come and go: the run completes, each row played once."""
    over = threading.Event()

    def shoot():
        while not over.wait(0.13):
            drive.road.workers.reset()

    gun = threading.Thread(target=shoot)
    gun.start()
    try:
        outcome = drive.run(100)
    finally:
        over.set()
        gun.join()
    assert (outcome.reason, outcome.actions) == ("completed", 100)
    sound(drive.robot)


def test_a_stall_is_an_underrun_and_its_late_answer_is_thrown_away(drive):
    """Five silent seconds: the wait is counted, the robot goes on from a fresh look, and nothing is made up for."""
    at_row(drive, 3, lambda: (drive.road.workers.stall(), after(STALL_S, drive.road.workers.heal)))
    outcome = drive.run(40)
    assert (outcome.reason, outcome.actions) == ("completed", 40)
    assert outcome.underruns >= 1
    assert outcome.underrun_s > STALL_S - 1
    assert outcome.stale_answers >= 1
    sound(drive.robot)
    told = drive.robot.told
    waited = next(index for index, call in enumerate(told) if call.call == "on_underrun")
    following = next(played for played in drive.robot.played if played.when > told[waited].when)
    seen_at = drive.robot.calls("observe")[Label.of(following.row).look - 1].when
    assert told[waited].when - seen_at < 1, "the row after the stall came from a look taken before it"


def test_a_lasting_stall_ends_in_hold_within_the_timeout(platform):
    """A network that never comes back: `hold` no later than timeout_s after the request, then Unavailable."""
    with driving(platform, timeout_s=2) as drive:
        drive.policy.predict(seen(0))
        at_row(drive, 3, drive.road.workers.stall)
        with pytest.raises(Unavailable):
            drive.run(100)
        assert drive.robot.calls("hold")[0].when - drive.robot.played[-1].when < 2 + 1
        held(drive.robot)
        sound(drive.robot)


def test_a_lasting_cut_ends_in_hold_within_the_timeout(platform):
    """Every connection reset and refused: retried for as long as timeout_s at most, then `hold` and Unavailable."""
    with driving(platform, timeout_s=2) as drive:
        drive.policy.predict(seen(0))
        at_row(drive, 3, drive.road.workers.cut)
        with pytest.raises(Unavailable):
            drive.run(100)
        assert drive.robot.calls("hold")[0].when - drive.robot.played[-1].when < 2 + 1
        held(drive.robot)
        sound(drive.robot)


def test_a_short_cut_is_survived(drive):
    """Half a second without any network: the worker is reached again and the run completes."""
    at_row(drive, 3, lambda: (drive.road.workers.cut(), after(0.5, drive.road.workers.heal)))
    outcome = drive.run(60)
    assert (outcome.reason, outcome.actions) == ("completed", 60)
    sound(drive.robot)


def test_a_half_open_connection_is_given_up_and_replaced(drive):
    """Requests arrive and no answer does: asked again under the same id once the network is back, and inferred once."""
    at_row(drive, 3, lambda: (drive.road.workers.half_open(), after(1.0, drive.road.workers.heal)))
    outcome = drive.run(40)
    assert (outcome.reason, outcome.actions) == ("completed", 40)
    sound(drive.robot)


def test_a_connection_that_went_silent_is_not_waited_for_as_long_as_the_timeout(drive):
    """Only the connection in use is dead, new ones work: the run goes on long before timeout_s is over."""
    at_row(drive, 3, drive.road.workers.forget)
    began = time.monotonic()
    outcome = drive.run(40)
    assert (outcome.reason, outcome.actions) == ("completed", 40)
    assert time.monotonic() - began < 30 - 5
    sound(drive.robot)


def test_a_lasting_half_open_network_ends_in_hold_within_the_timeout(platform):
    """No answer on any connection: `hold` within timeout_s."""
    with driving(platform, timeout_s=2) as drive:
        drive.policy.predict(seen(0))
        at_row(drive, 3, drive.road.workers.half_open)
        with pytest.raises(Unavailable):
            drive.run(100)
        assert drive.robot.calls("hold")[0].when - drive.robot.played[-1].when < 2 + 1
        held(drive.robot)


def test_a_frozen_link_lets_no_burst_through(drive):
    """Three frozen seconds while two requests are out: afterwards still at most one row a period."""
    drive.road.workers.delay(0.2)
    at_row(drive, 5, lambda: (drive.road.workers.stall(), after(3.0, drive.road.workers.heal)))
    outcome = drive.run(60, lookahead=2)
    assert (outcome.reason, outcome.actions) == ("completed", 60)
    sound(drive.robot)


def test_a_dead_gateway_stops_no_robot(platform):
    """The gateway is gone while leases of two seconds fall due again and again: nothing happens to the loop."""
    with driving(platform, change=lambda answer: answer["lease"].update(ttl_s=2)) as drive:
        drive.policy.predict(seen(0))
        drive.road.gateway.cut()
        outcome = drive.run(120)
        assert (outcome.reason, outcome.actions, outcome.episode_resets) == ("completed", 120, 0)
        assert outcome.underrun_s < 1, "a row waited for the gateway"
        sound(drive.robot)
        drive.road.gateway.heal()
        assert drive.run(20).reason == "completed"


def test_a_stalled_gateway_stops_no_robot(platform):
    """A gateway that answers nothing while a renewal is due keeps no row waiting."""
    with driving(platform, change=lambda answer: answer["lease"].update(ttl_s=2)) as drive:
        drive.policy.predict(seen(0))
        drive.road.gateway.stall()
        outcome = drive.run(100)
        drive.road.gateway.heal()
        assert outcome.reason == "completed"
        assert outcome.underrun_s < 1, "a row waited for the gateway"
        sound(drive.robot)


def test_a_stale_secret_is_exchanged(platform):
    """A worker that refuses the secret is connected to again at once, and the act is answered."""
    handed = []

    def stale_first(answer):
        handed.append(answer["direct_secret"])
        if len(handed) == 1:
            answer["direct_secret"] = "rotated-away"

    with driving(platform, change=stale_first) as drive:
        outcome = drive.run(20)
        assert (outcome.reason, len(handed)) == ("completed", 2)
        sound(drive.robot)


def test_a_secret_that_is_never_right_is_an_auth_error(platform):
    """After five new connects the refusal is raised, `hold` came and nothing moved."""
    with driving(platform, change=lambda answer: answer.update(direct_secret="wrong")) as drive:
        with pytest.raises(AuthError):
            drive.run(20)
        held(drive.robot)
        assert drive.robot.played == []


def test_a_worker_with_another_certificate_is_refused(platform):
    """A pin that is not the worker's ends in CertPinError and `hold`, and no request is sent."""
    with driving(platform, change=lambda answer: answer.update(cert_fingerprint="ab" * 32)) as drive:
        with pytest.raises(CertPinError, match="nothing was sent"):
            drive.run(20)
        held(drive.robot)
        assert drive.robot.played == []


def test_the_first_answer_may_take_two_broken_connections(platform):
    """A connection dropped twice before the first action is made again, with a warning at most."""
    with driving(platform, startup_timeout_s=30) as drive:
        for number in (1, 2):
            drive.robot.plan("observe", number, drive.road.workers.reset_answer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = drive.run(20)
        assert outcome.reason == "completed"
        sound(drive.robot)


def test_the_worker_hears_of_the_end_after_a_fault(drive):
    """After a run that the network ended, the worker is told that the episode is over as soon as it is reached."""
    at_row(drive, 3, lambda: (drive.road.workers.cut(), after(0.3, drive.road.workers.heal)))
    drive.run(40, episode_id=EPISODE)
    assert ended(drive)


def test_latency_shows_in_the_outcome(drive):
    """The age of the observation behind each chunk is told in seconds and rows, and grows with the round trip."""
    near = drive.run(40)
    drive.road.workers.delay(0.25)
    far = drive.run(40)
    assert far.observation_age_s > near.observation_age_s
    assert far.max_observation_age_rows >= 0.25 * HZ
    assert far.reason == "completed"


@pytest.mark.parametrize("prefetch", [True, False])
def test_a_round_trip_is_hidden_by_prefetching(drive, prefetch):
    """With 100 ms of delay: the arm hardly waits with prefetching; without, at each chunk boundary for the delay."""
    drive.road.workers.delay(0.1)
    drive.run(20)  # so that the usual round trip is known
    outcome = drive.run(40, prefetch=prefetch)
    if prefetch:
        assert outcome.underrun_s < 0.1
    else:
        assert outcome.underruns == outcome.chunks - 1 == 3
        assert outcome.underrun_s / outcome.underruns >= 0.1
    sound(drive.robot)
