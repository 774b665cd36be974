"""The queue of an eval as its instances see it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from runner.errors import Refused
from runner.evals import queue
from runner.store.queries import episodes, evals, instances
from runner.store.queries.episodes import Counts
from seq.contract.internal import EpisodeOutcome, LeaseRequest

from .conftest import outcome


@pytest.fixture
def eval_id(client):
    """A queued eval of six episodes."""
    body = {"model": "arm", "benchmark": "table"}
    return client.post("/v1/eval", json=body).json()["eval_id"]


@pytest.fixture
def instance(ctx, eval_id):
    """Make a running instance of the eval."""

    def make(name):
        with ctx.store.write() as session:
            instances.want(session, instance_id=name, eval_id=eval_id, now=ctx.clock.now()).state = "running"
        return name

    return make


def lease(ctx, name, free):
    return queue.lease(ctx, name, LeaseRequest(free=free)).episodes


def indices(leased):
    return [(episode.condition.index, episode.attempt) for episode in leased]


def kept(ctx, eval_id, index=0):
    """The row of an episode that was handed out."""
    with ctx.store.read() as session:
        return episodes.at(session, eval_id, [index])[index]


def counts(ctx, eval_id):
    with ctx.store.read() as session:
        return episodes.counts(session, evals.get(session, eval_id))


def test_episodes_are_handed_out_by_index(ctx, instance):
    """Whoever asks gets the lowest waiting indices, up to the environments it has free; a heartbeat gets none."""
    one, two = instance("instance-1"), instance("instance-2")
    assert indices(lease(ctx, one, 2)) == [(0, 1), (1, 1)]
    assert indices(lease(ctx, two, 0)) == []
    assert indices(lease(ctx, two, 3)) == [(2, 1), (3, 1), (4, 1)]
    assert indices(lease(ctx, one, 9)) == [(5, 1)]
    assert indices(lease(ctx, one, 9)) == []


def test_a_result_is_taken_once(ctx, instance, eval_id):
    """The same result again, or another of the same episode, is acknowledged and changes nothing."""
    name = instance("instance-1")
    (first,) = lease(ctx, name, 1)
    assert queue.take_results(ctx, name, [outcome(first)]) == 1
    assert queue.take_results(ctx, name, [outcome(first)]) == 0
    assert queue.take_results(ctx, name, [outcome(first, metrics={"success": 0.0})]) == 0
    assert kept(ctx, eval_id).outcome["metrics"] == {"success": 1.0}
    assert counts(ctx, eval_id) == Counts(pending=5, done=1)


def test_a_result_that_many_bring_at_once_is_taken_once(ctx, instance, eval_id):
    """Whoever comes first; the others are acknowledged and nothing is counted twice."""
    one, two = instance("instance-1"), instance("instance-2")
    leased = lease(ctx, one, 6)
    brought = [[outcome(e, metrics={"success": float(number)}) for e in leased] for number in (0, 1)] * 4

    def bring(number):
        return queue.take_results(ctx, (one, two)[number % 2], brought[number])

    with ThreadPoolExecutor(len(brought)) as pool:
        assert sum(pool.map(bring, range(len(brought)))) == 6
    assert counts(ctx, eval_id) == Counts(done=6)
    assert len({kept(ctx, eval_id, index).outcome["metrics"]["success"] for index in range(6)}) == 1


def test_a_successor_hands_in_what_a_dead_instance_left(ctx, instance, eval_id):
    """An outcome counts whoever brings it, also while its episode waits for another attempt."""
    one, two = instance("instance-1"), instance("instance-2")
    (first,) = lease(ctx, one, 1)
    queue.give_back(ctx, one, [(0, 1)], "the environment died")
    assert kept(ctx, eval_id).state == "pending"
    assert queue.take_results(ctx, two, [outcome(first)]) == 1
    assert kept(ctx, eval_id).state == "done"
    assert indices(lease(ctx, two, 1)) == [(1, 1)]


def test_what_is_given_back_runs_again(ctx, instance):
    """A given back episode is the next to be handed out, its attempt counted; another's cannot be given back."""
    one, two = instance("instance-1"), instance("instance-2")
    lease(ctx, one, 2)
    queue.give_back(ctx, two, [(1, 1)], "not its own")
    queue.give_back(ctx, one, [(0, 1), (1, 7)], "the environment died")
    assert indices(lease(ctx, two, 3)) == [(0, 2), (2, 1), (3, 1)]


def test_an_episode_that_never_ends_is_given_up(ctx, instance, eval_id):
    """After its last attempt an episode is an error that says how often it was tried and why it failed."""
    name = instance("instance-1")
    for attempt in range(1, ctx.settings.max_attempts + 1):
        assert indices(lease(ctx, name, 1)) == [(0, attempt)]
        queue.give_back(ctx, name, [(0, attempt)], "killed by signal 9")
    row = kept(ctx, eval_id)
    assert (row.state, row.failed) == ("done", True)
    assert row.outcome["error"] == "given up after 5 attempts, none of which ended: killed by signal 9"


def test_drained_means_that_nothing_can_come_back(ctx, instance):
    """While an episode is leased it may come back, so the queue is drained only once all are finished."""
    name = instance("instance-1")
    leased = lease(ctx, name, 6)
    assert not queue.lease(ctx, name, LeaseRequest(free=1)).drained
    queue.take_results(ctx, name, [outcome(episode) for episode in leased])
    answer = queue.lease(ctx, name, LeaseRequest(free=1))
    assert (answer.drained, answer.stop) == (True, False)


def test_an_answer_that_was_lost_is_given_again(ctx, instance):
    """The same request again gets the episodes it got before that have not ended; the next gets more."""
    name = instance("instance-1")
    first = queue.lease(ctx, name, LeaseRequest(free=2, number=1)).episodes
    assert queue.lease(ctx, name, LeaseRequest(free=2, number=1)).episodes == first
    queue.take_results(ctx, name, [outcome(first[0])])
    assert queue.lease(ctx, name, LeaseRequest(free=2, number=1)).episodes == first[1:]
    assert indices(queue.lease(ctx, name, LeaseRequest(free=1, number=2)).episodes) == [(2, 1)]


def test_an_ended_eval_stops_its_instances_and_takes_no_more_results(ctx, client, instance, eval_id):
    """After a cancel nothing is handed out, and a late result changes nothing any more."""
    name = instance("instance-1")
    leased = lease(ctx, name, 2)
    queue.take_results(ctx, name, [outcome(leased[0])])
    client.post(f"/v1/eval/{eval_id}/cancel")
    answer = queue.lease(ctx, name, LeaseRequest(free=2))
    assert (answer.episodes, answer.stop) == ([], True)
    assert queue.take_results(ctx, name, [outcome(leased[1])]) == 0
    assert counts(ctx, eval_id) == Counts(done=1, not_run=5)
    with ctx.store.read() as session:
        assert [(row.index, row.state) for row in episodes.between(session, eval_id, 0, 5)] == [(0, "done")]


def test_an_instance_that_was_given_up_is_stopped(ctx, instance):
    """An instance whose place was taken gets nothing more, even if it comes back to life."""
    name = instance("instance-1")
    with ctx.store.write() as session:
        instances.close(instances.get(session, name), "lost", now=ctx.clock.now())
    assert queue.lease(ctx, name, LeaseRequest(free=2)).stop


def test_an_unknown_episode_is_refused(ctx, instance):
    """A result for an episode the eval does not have is a fault of the instance and said."""
    name = instance("instance-1")
    with pytest.raises(Refused, match="no episode 99"):
        queue.take_results(ctx, name, [EpisodeOutcome(index=99, attempt=1, steps=1, acts=1)])


def test_the_first_lease_starts_the_eval(ctx, instance, eval_id):
    """An eval is pending until an episode is handed out, then running."""
    name = instance("instance-1")
    lease(ctx, name, 0)
    with ctx.store.read() as session:
        assert evals.get(session, eval_id).status == "pending"
    lease(ctx, name, 1)
    with ctx.store.read() as session:
        row = evals.get(session, eval_id)
    assert (row.status, row.started_at) == ("running", ctx.clock.now())
