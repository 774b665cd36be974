"""What keeps an eval going, on a cluster in memory and with time moved by hand."""

from __future__ import annotations

import pytest

from runner.cluster.base import ClusterLostError, Placed
from runner.evals import instances as told
from runner.evals import queue
from runner.evals.reconcile import EvalController
from runner.store.queries import episodes, evals, workers
from runner.store.queries import instances as rows
from runner.vault import token_hash
from seq.contract.internal import InstanceEvent, LeaseRequest

from .conftest import outcome


@pytest.fixture
def start(client):
    """Queue an eval of six episodes."""

    def begin(**what):
        body = {"model": "arm", "benchmark": "table", **what}
        answer = client.post("/v1/eval", json=body).json()
        return answer["eval_id"]

    return begin


def running(ctx):
    """Names of instances as the store has them open."""
    with ctx.store.read() as session:
        return [row.id for row in rows.every_open(session)]


def workers_of(ctx, eval_id):
    with ctx.store.read() as session:
        return [row.state for row in workers.of_eval(session, eval_id)]


def found(ctx, eval_id):
    with ctx.store.read() as session:
        return evals.get(session, eval_id)


def beat(ctx, name, free=0):
    """An instance asks for its spec's sake and for episodes."""
    with ctx.store.write() as session:
        rows.get(session, name).state = "running"
    return queue.lease(ctx, name, LeaseRequest(free=free)).episodes


def lose_worker(ctx, eval_id, error="it crashed"):
    with ctx.store.write() as session:
        for row in workers.usable(workers.of_eval(session, eval_id)):
            workers.fail(row, reason="crashed", error=error, traceback="Traceback: load", now=ctx.clock.now())


def test_an_eval_gets_its_workers_and_instances_once(ctx, cluster, controller, start):
    """As many as its layout says, and no more on later ticks; workers are left to the fleet."""
    eval_id = start(policy_instances=2, benchmark_instances=3)
    for _ in range(3):
        controller.tick()
    assert workers_of(ctx, eval_id) == ["wanted", "wanted"]
    placed = cluster.living()
    with ctx.store.read() as session:
        assert {row.id: row.pid for row in rows.every_open(session)} == {n: p.host_pid for n, p in placed.items()}
    assert sorted(cluster.living()) == sorted(running(ctx))
    assert len(cluster.launched) == 3
    with ctx.store.read() as session:
        for run in cluster.launched:
            assert rows.get(session, run.name).token_hash == token_hash(run.start["token"])
            assert run.start["eval_id"] == eval_id


def test_a_pid_that_is_not_known_yet_is_asked_for_again(ctx, cluster, controller, start):
    """A host that is too busy to say its own at first is listed with it later."""
    start()
    controller.tick()
    placed = cluster.living()
    cluster.living = lambda: {name: Placed(name, None) for name in placed}
    with ctx.store.write() as session:
        for row in rows.every_open(session):
            row.pid = None
    controller.tick()
    with ctx.store.read() as session:
        assert {row.pid for row in rows.every_open(session)} == {None}
    cluster.living = lambda: placed
    controller.tick()
    with ctx.store.read() as session:
        assert {row.id: row.pid for row in rows.every_open(session)} == {n: p.host_pid for n, p in placed.items()}


def test_a_lost_instance_is_replaced_and_its_episodes_run_again(ctx, cluster, controller, start):
    """Finished episodes stay, those in flight go back with their attempt counted, and the report says so."""
    eval_id = start()
    controller.tick()
    (name,) = running(ctx)
    first, *_ = beat(ctx, name, free=2)
    queue.take_results(ctx, name, [outcome(first)])
    cluster.lose(name)
    controller.tick()
    controller.tick()
    (successor,) = running(ctx)
    assert successor != name
    assert successor in cluster.living()
    assert [(e.condition.index, e.attempt) for e in beat(ctx, successor, free=2)] == [(1, 2), (2, 1)]
    kinds = [event["kind"] for event in found(ctx, eval_id).events]
    assert kinds == ["instance_lost", "run_again"]


def test_a_silent_instance_is_ended_and_replaced(ctx, clock, cluster, controller, start):
    """An instance that lives and says nothing for a minute counts as lost; one that beats does not."""
    start()
    controller.tick()
    (name,) = running(ctx)
    for _ in range(20):
        beat(ctx, name)
        clock.sleep(5)
        controller.tick()
    assert running(ctx) == [name]
    for _ in range(14):
        clock.sleep(5)
        controller.tick()
    assert name in cluster.killed
    assert running(ctx) != [name]


def test_silence_while_the_gateway_was_away_is_not_held_against_anyone(ctx, clock, cluster, controller, start):
    """After a restart running instances are taken up again, and the report says that there was a restart."""
    eval_id = start()
    controller.tick()
    (name,) = running(ctx)
    beat(ctx, name)
    clock.sleep(3600)
    restarted = EvalController(ctx, spawn=lambda work: work())
    restarted.tick()
    assert running(ctx) == [name]
    assert len(cluster.launched) == 1
    assert [event["kind"] for event in found(ctx, eval_id).events] == ["gateway_restarted"]


def test_a_lost_head_takes_everything_and_everything_comes_back(ctx, cluster, controller, start):
    """While the cluster does not answer nothing is judged; once it is back, what ran is replaced."""
    start(benchmark_instances=2)
    controller.tick()
    before = running(ctx)
    cluster.lose_head()
    with pytest.raises(ClusterLostError):
        controller.tick()
    assert running(ctx) == before
    cluster.ensure()
    controller.tick()
    assert len(running(ctx)) == 2
    assert not set(running(ctx)) & set(before)
    assert sorted(cluster.living()) == sorted(running(ctx))


@pytest.mark.parametrize("error", [ClusterLostError("no answer within 30 s"), OSError("too many open files")])
def test_an_instance_that_cannot_be_placed_is_tried_again(ctx, cluster, controller, start, monkeypatch, error):
    """A launch that fails, however, counts as a loss that names the cause, and the next tick launches another."""
    eval_id = start()

    def lost(_run):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "launch_engine", lost)
        controller.tick()
    controller.tick()
    assert len(running(ctx)) == len(cluster.living()) == 1
    assert [event["reason"] for event in found(ctx, eval_id).events] == [f"it could not be started: {error}"]


def test_what_no_eval_claims_is_ended(ctx, cluster, controller, start):
    """A living instance without an open row is killed; other names are none of this controller's business."""
    start()
    controller.tick()
    (name,) = running(ctx)
    with ctx.store.write() as session:
        rows.close(rows.get(session, name), "ended", now=ctx.clock.now())
    cluster.launch_engine(type(cluster.launched[0])(name="worker-x", start={}, log_path=""))
    controller.tick()
    assert name not in cluster.living()
    assert "worker-x" in cluster.living()


def test_losses_without_a_finished_episode_end_the_eval(ctx, clock, cluster, controller, start):
    """Five losses in a row end an eval, saying so; a finished episode starts the count anew."""
    eval_id = start()
    for number in range(1, 8):
        controller.tick()
        assert found(ctx, eval_id).status != "failed"
        (name,) = running(ctx)
        leased = beat(ctx, name, free=1)
        if number == 3:
            queue.take_results(ctx, name, [outcome(leased[0])])
        clock.sleep(1)
        cluster.lose(name)
        controller.tick()
    row = found(ctx, eval_id)
    assert row.status == "failed"
    assert "5 times without an episode between" in row.error
    assert running(ctx) == []


def test_a_policy_that_cannot_load_ends_the_eval_with_its_own_error(ctx, clock, controller, start):
    """Three failed workers in a row: failed, with the policy's words and traceback; nothing is left wanted."""
    eval_id = start()
    for _ in range(3):
        controller.tick()
        clock.sleep(1)
        lose_worker(ctx, eval_id, "RuntimeError: no weights")
    controller.tick()
    row = found(ctx, eval_id)
    assert row.status == "failed"
    assert "RuntimeError: no weights" in row.error
    assert row.traceback == "Traceback: load"
    assert workers_of(ctx, eval_id) == ["failed"] * 3


def test_a_lost_worker_is_wanted_again_and_told(ctx, controller, start):
    """One lost worker is replaced, and the report says so."""
    eval_id = start()
    controller.tick()
    lose_worker(ctx, eval_id)
    controller.tick()
    assert workers_of(ctx, eval_id).count("wanted") == 1
    assert [event["kind"] for event in found(ctx, eval_id).events] == ["worker_replaced"]


def test_a_finished_eval_is_completed_and_cleared_away(ctx, clock, cluster, controller, start):
    """All done: completed, workers ended, keys gone; instances get a moment to leave by themselves."""
    eval_id = start()
    controller.tick()
    (name,) = running(ctx)
    clock.sleep(1)
    leased = beat(ctx, name, free=6)
    clock.sleep(2)
    told.tell(ctx, name, InstanceEvent(kind="started", setup_s=0.5))
    queue.take_results(ctx, name, [outcome(episode) for episode in leased])
    clock.sleep(3)
    controller.tick()
    row = found(ctx, eval_id)
    assert (row.status, row.ended_at) == ("completed", clock.now())
    timed = {key: row.timing[key] for key in ("launch_s", "setup_s", "run_s")}
    assert timed == {"launch_s": 1.0, "setup_s": 2.0, "run_s": 3.0}
    assert workers_of(ctx, eval_id) == ["stopped"]
    assert running(ctx) == [name]
    told.tell(ctx, name, InstanceEvent(kind="ended"))
    assert running(ctx) == []


def test_an_instance_that_does_not_leave_is_ended(ctx, clock, cluster, controller, start):
    """Ten seconds after the end nothing of an eval lives."""
    start()
    controller.tick()
    (name,) = running(ctx)
    queue.take_results(ctx, name, [outcome(episode) for episode in beat(ctx, name, free=6)])
    controller.tick()
    assert name in cluster.living()
    clock.sleep(10)
    controller.tick()
    assert cluster.living() == {}
    assert running(ctx) == []


def test_a_canceled_eval_is_ended_at_once(ctx, client, cluster, controller, start):
    """The next tick after a cancel ends instances and workers; a second cancel changes nothing."""
    eval_id = start()
    controller.tick()
    (name,) = running(ctx)
    queue.take_results(ctx, name, [outcome(episode) for episode in beat(ctx, name, free=1)])
    assert client.post(f"/v1/eval/{eval_id}/cancel").json() == {"eval_id": eval_id, "status": "canceled"}
    ended_at = found(ctx, eval_id).ended_at
    controller.tick()
    assert cluster.living() == {}
    assert workers_of(ctx, eval_id) == ["stopped"]
    assert client.post(f"/v1/eval/{eval_id}/cancel").json() == {"eval_id": eval_id, "status": "canceled"}
    row = found(ctx, eval_id)
    assert (row.stop_reason, row.ended_at) == ("canceled", ended_at)
    with ctx.store.read() as session:
        counts = episodes.counts(session, row)
    assert (counts.done, counts.not_run) == (1, 5)


def test_an_eval_whose_first_episodes_all_fail_ends(ctx, controller, start):
    """When the first ten (or all, if fewer) are errors, running the rest would teach nothing."""
    eval_id = start()
    controller.tick()
    (name,) = running(ctx)
    leased = beat(ctx, name, free=6)
    failing = {"error": "ValueError: wrong shape", "traceback": "Traceback: adapter", "metrics": {}}
    queue.take_results(ctx, name, [outcome(episode, **failing) for episode in leased])
    controller.tick()
    row = found(ctx, eval_id)
    assert row.status == "failed"
    assert "the first 6 episodes all ended in an error" in row.error
    assert "ValueError: wrong shape" in row.error
    assert row.traceback == "Traceback: adapter"


def test_errors_among_successes_do_not_end_an_eval(ctx, controller, start):
    """One scored episode among the first is enough to go on, and the eval completes."""
    eval_id = start()
    controller.tick()
    (name,) = running(ctx)
    leased = beat(ctx, name, free=6)
    results = [outcome(leased[0])] + [outcome(e, error="boom", metrics={}) for e in leased[1:]]
    queue.take_results(ctx, name, results)
    controller.tick()
    assert found(ctx, eval_id).status == "completed"


def test_an_eval_without_any_metric_refuses_to_report(ctx, controller, start):
    """A check that returns no number leaves nothing to score: failed, saying what to return."""
    eval_id = start()
    controller.tick()
    (name,) = running(ctx)
    queue.take_results(ctx, name, [outcome(episode, metrics={}) for episode in beat(ctx, name, free=6)])
    controller.tick()
    row = found(ctx, eval_id)
    assert row.status == "failed"
    assert "no numeric metric" in row.error
    assert "metrics={...}" in row.error


def test_a_benchmark_that_cannot_be_set_up_ends_the_eval(ctx, cluster, controller, start):
    """An instance's final word ends the eval with the author's own error."""
    eval_id = start()
    controller.tick()
    (name,) = running(ctx)
    broken = InstanceEvent(kind="failed", message="setup failed: no such asset", traceback="Traceback: setup")
    told.tell(ctx, name, broken)
    controller.tick()
    row = found(ctx, eval_id)
    assert (row.status, row.error, row.traceback) == ("failed", broken.message, broken.traceback)
    assert cluster.living() == {}


def test_an_instance_that_leaves_too_early_is_replaced(ctx, cluster, controller, start):
    """Saying `ended` with episodes left is a loss like any other."""
    start()
    controller.tick()
    (name,) = running(ctx)
    told.tell(ctx, name, InstanceEvent(kind="ended"))
    cluster.lose(name)
    controller.tick()
    assert running(ctx) != [name]
    assert len(running(ctx)) == 1
