"""Robots at the door: a worker is wanted, found, kept while it is used, and ended when it is not."""

from __future__ import annotations

import pytest

from runner.cluster.base import Command
from runner.store.queries import accounts, deployments, workers
from runner.store.tables import Arm, BenchmarkVersion, Eval, Version, Worker
from runner.testing import account_of, first_key, make_client
from runner.vault import token_hash
from seq.contract.internal import WorkerPing


def test_a_first_connect_is_told_to_come_back_and_one_worker_starts(fleet):
    """Without a worker the answer is `warming` at once, and for as many robots as it takes one worker is started."""
    fleet.make_ready(concurrency={"target_inputs": 2})
    launched = len(fleet.cluster.launched)
    for session in ("a" * 32, "b" * 32):
        answer = fleet.connect(session=session)
        assert (answer.status_code, answer.json()["code"]) == (503, "warming")
        assert answer.json()["retry_after_s"] >= 1
    fleet.tick(2)
    assert len(fleet.cluster.launched) == launched + 1


def test_a_ready_worker_is_handed_out_with_all_a_robot_needs(fleet):
    """The answer has the worker's address, fingerprint and secret, a lease, and the declared contracts."""
    fleet.make_ready()
    name = fleet.serve()
    _, start = fleet.started()
    answer = fleet.connect().json()
    assert answer["worker_url"].endswith(name)
    assert answer["direct_secret"] == start["secret"]
    assert len(answer["cert_fingerprint"]) == 64
    assert answer["lease"]["ttl_s"] == fleet.ctx.settings.lease_s
    assert answer["action"]["action_dim"] == 2
    assert answer["params"] == {}


def test_a_renewal_is_answered_with_the_same_epoch(fleet):
    """While the worker stays, the epoch does; another worker has another."""
    fleet.make_ready()
    name = fleet.serve()
    first, second = fleet.connect().json(), fleet.connect().json()
    assert first["lease"]["epoch"] == second["lease"]["epoch"]
    fleet.cluster.lose(name)
    fleet.tick()
    fleet.serve()
    assert fleet.connect().json()["lease"]["epoch"] != first["lease"]["epoch"]


@pytest.mark.parametrize(("word", "error"), [("building", None), ("failed", "ValueError: bad")])
def test_a_deployment_without_a_serving_version_is_a_conflict_with_its_state(fleet, word, error):
    """A robot is told whether it is still built or has failed, and with what."""
    fleet.deploy()
    fleet.tick(3)
    if error:
        fleet.report(fleet.started()[0], "failed", error=error)
        fleet.tick()
    body = fleet.connect().json()
    assert (body["code"], body["details"]["state"]) == ("conflict", word)
    assert (error or "being built") in body["detail"]


def test_a_worker_that_cannot_load_is_not_started_over_and_over(fleet):
    """After a failed start connects are `unavailable` with the policy's error, until the pause is over."""
    fleet.make_ready()
    fleet.connect()
    fleet.tick()
    fleet.report(fleet.started()[0], "failed", error="OSError: gone")
    body = fleet.connect().json()
    assert body["code"] == "unavailable"
    assert "OSError: gone" in body["detail"]
    fleet.ctx.clock.sleep(31)
    assert fleet.connect().json()["code"] == "warming"


def test_a_worker_that_served_is_replaced_at_once(fleet):
    """A worker that was killed while it served is no failed start: the next connect starts another, once."""
    fleet.make_ready()
    fleet.report(fleet.serve(), "failed", error="killed by signal 9")
    assert fleet.connect().json()["code"] == "warming"
    fleet.tick()
    again = fleet.started()[0]
    fleet.report(again, "ready", url=f"https://127.0.0.1:1/{again}")
    fleet.report(again, "failed", error="killed by signal 9")
    body = fleet.connect().json()
    assert (body["code"], body["retry_after_s"]) == ("unavailable", 30)
    assert "killed by signal 9" in body["detail"]


def test_an_idle_worker_ends_after_its_window(fleet):
    """Unused for longer than `scaledown_window`, a worker ends; a connect in between keeps it."""
    fleet.make_ready(autoscaler={"scaledown_window": 60})
    name = fleet.serve()
    fleet.ctx.clock.sleep(50)
    fleet.connect()
    fleet.ctx.clock.sleep(50)
    fleet.tick(2)
    assert name in fleet.cluster.living()
    fleet.ctx.clock.sleep(11)
    fleet.tick(2)
    assert fleet.cluster.living() == {}


def test_acts_keep_a_worker_and_are_counted(fleet, door):
    """What the worker's own ping tells moves its last use and its counter."""
    fleet.make_ready(autoscaler={"scaledown_window": 60})
    name = fleet.serve()
    fleet.ctx.clock.sleep(59)
    door.pings[f"https://127.0.0.1:1/{name}"] = WorkerPing(pid=7, acts=12, errors=0, idle_s=1.0)
    fleet.tick()
    fleet.ctx.clock.sleep(50)
    fleet.tick(2)
    assert name in fleet.cluster.living()
    assert fleet.client.get("/v1/deployments/arm/fleet").json()["workers"][0]["acts"] == 12


def test_a_floor_of_workers_stays_up_without_a_robot(fleet):
    """`min_containers` workers live whenever the version serves, and a lost one is replaced."""
    check = fleet.make_ready(autoscaler={"min_containers": 1})
    assert check in fleet.cluster.living()
    fleet.ctx.clock.sleep(10_000)
    fleet.tick(2)
    assert check in fleet.cluster.living()
    fleet.cluster.lose(check)
    fleet.tick(3)
    assert len(fleet.cluster.living()) == 1


def test_ready_starts_a_cold_worker_and_says_when_it_serves(fleet):
    """`/v1/act/ready` goes from building over starting to running."""
    ask = lambda: fleet.client.get("/v1/act/ready?model=arm").json()  # noqa: E731
    fleet.deploy()
    assert ask() == {"ready": False, "status": "building"}
    fleet.load()
    fleet.tick(2)
    assert ask()["status"] == "starting"
    fleet.tick()
    name, _ = fleet.started()
    fleet.report(name, "ready", url="https://127.0.0.1:1")
    assert ask() == {"ready": True, "status": "running"}


def test_an_act_key_opens_its_own_deployment_alone(fleet):
    """An act key connects to the deployment it was made for; any other name is forbidden, and so are reads."""
    fleet.make_ready()
    fleet.deploy(name="other")
    key = fleet.client.post("/v1/keys", json={"name": "arm-7", "deployment": "arm"}).json()["secret"]
    assert fleet.connect(key=key).json()["code"] == "warming"
    assert fleet.connect("other", key=key).json()["code"] == "forbidden"
    assert fleet.connect("none", key=key).json()["code"] == "forbidden"


def test_a_bound_key_learns_nothing_of_other_deployments(fleet):
    """A label for another deployment is answered as for one that does not exist, and no name is told."""
    fleet.make_ready()
    fleet.deploy(name="second")
    key = fleet.client.post("/v1/keys", json={"name": "arm-7", "deployment": "arm"}).json()["secret"]
    client = make_client(fleet.ctx, key, routers=("act",))

    def label(name):
        answer = client.post(f"/v1/deployments/{name}/episodes/e1/label", json={"success": True, "notes": ""})
        told = {part: answer.json().get(part) for part in ("code", "detail", "hint", "details")}
        return answer.status_code, told, str(told).replace(name, "X")

    theirs, missing = label("second"), label("none")
    assert (theirs[0], theirs[1]["code"], theirs[2]) == (403, "forbidden", missing[2])
    assert "arm" not in theirs[2]
    assert label("arm")[0] == 400


def test_unknown_sessions_release_without_an_error(fleet):
    """Release, latency and their like take what they do not know."""
    assert fleet.client.post("/v1/act/release", json={"model": "none", "session": "x"}).json() == {}
    assert fleet.client.post("/v1/latency", json={"records": [{"rid": "r"}]}).json() == {}


def test_a_label_is_refused_in_a_sentence(fleet):
    """Without captures there is nothing a label could belong to."""
    fleet.make_ready()
    answer = fleet.client.post("/v1/deployments/arm/episodes/e1/label", json={"success": True, "notes": ""})
    assert (answer.status_code, "not captured" in answer.json()["detail"]) == (400, True)


def test_an_undeclared_body_is_refused(fleet):
    """Choosing an embodiment that the policy does not declare is refused by name."""
    fleet.make_ready()
    fleet.serve()
    answer = fleet.client.post("/v1/act/connect", json={"model": "arm", "session": "x", "embodiment": "left"})
    assert "'left'" in answer.json()["detail"]


def _eval_key(fleet, count):
    """A running eval of the serving version with `count` wanted workers, and an instance's key."""
    ctx, now = fleet.ctx, fleet.ctx.clock.now()
    account_id, key = account_of(ctx, first_key()), "seq_live_" + ctx.new_secret()
    fleet.client.post("/v1/benchmarks", json=fleet.benchmark())
    with ctx.store.write() as session:
        version = session.query(Version).one()
        row = Eval(
            id="e" * 32, account_id=account_id, status="running", model="arm", version_id=version.id, benchmark="line",
            benchmark_version_id=session.query(BenchmarkVersion).one().id, request={}, plan={}, estimate={}, total=1,
            created_at=now,
        )  # fmt: skip
        session.add(row)
        session.flush()
        session.add(
            Arm(eval_id=row.id, number=0, name="arm", model="arm", version_id=version.id, settings={}, first=0, todo=[],
                planned=0)
        )  # fmt: skip
        for number in range(count):
            workers.want(
                session, worker_id=f"worker-{number}", version_id=version.id, purpose="eval", eval_id=row.id,
                card="cpu", now=now,
            )  # fmt: skip
        new = accounts.NewKey(ctx.new_id(), key, "instance", kind="eval", eval_id=row.id)
        accounts.add_key(session, account_id, new, now)
    return key


def test_an_evals_environments_reach_its_own_workers_alone(fleet):
    """An eval's key gets the eval's workers, the same one for the same session, and `warming` until one is ready."""
    fleet.make_ready()
    serving = fleet.serve()
    key = _eval_key(fleet, 3)
    assert fleet.connect(key=key).json()["code"] == "warming"
    fleet.tick()
    for number in range(3):
        fleet.report(f"worker-{number}", "ready", url=f"https://127.0.0.1:1/worker-{number}")
    sessions = [f"{number:032d}" for number in range(30)]
    urls = [fleet.connect(session=session, key=key).json()["worker_url"] for session in sessions]
    assert set(urls) == {f"https://127.0.0.1:1/worker-{number}" for number in range(3)}
    assert not any(serving in url for url in urls)
    fleet.cluster.lose("worker-1")
    fleet.tick()
    again = [fleet.connect(session=session, key=key).json()["worker_url"] for session in sessions]
    assert all(new == old for new, old in zip(again, urls, strict=True) if not old.endswith("worker-1"))
    assert not any(url.endswith("worker-1") for url in again)


def test_an_evals_environments_take_the_copies_of_all_workers_in_turn(fleet):
    """By the number before the dot of their session: workers first, then each one's copies, told by their sockets."""
    fleet.make_ready()
    key = _eval_key(fleet, 2)
    fleet.tick()
    for number in range(2):
        told = {"url": f"https://127.0.0.1:1/worker-{number}", "sockets": [f"seq-{number}a", f"seq-{number}b"]}
        fleet.report(f"worker-{number}", "ready", **told)

    def reached(session):
        answer = fleet.connect(session=session, key=key).json()
        return answer["worker_url"][-1], answer.get("acts_socket")

    turns = [("0", "seq-0a"), ("1", "seq-1a"), ("0", "seq-0b"), ("1", "seq-1b")]
    assert [reached(f"{number}.{'s' * 28}") for number in range(6)] == [*turns, *turns[:2]]
    assert reached("s" * 32)[1] is None
    assert "acts_socket" not in fleet.connect().json()


def test_a_worker_that_tells_no_socket_is_reached_at_its_door(fleet):
    """An older worker, a group, or a system without such sockets: acts go over the worker's own address."""
    fleet.make_ready()
    key = _eval_key(fleet, 1)
    fleet.tick()
    fleet.report("worker-0", "ready", url="https://127.0.0.1:1/worker-0", facts={"python": "3.11.7"})
    assert "acts_socket" not in fleet.connect(session="3.name", key=key).json()
    with fleet.ctx.store.read() as session:
        assert workers.get(session, "worker-0").facts == {"python": "3.11.7"}


def test_an_eval_of_two_policies_keeps_their_workers_apart(fleet):
    """One key of the eval opens both models; each is answered by workers of its own version."""
    fleet.make_ready()
    key = _eval_key(fleet, 1)
    fleet.make_ready(name="leg", policy={"handler_ref": "policy:Leg"})
    with fleet.ctx.store.write() as session:
        leg = deployments.serving(session, account_of(fleet.ctx, first_key()), "leg")[1]
        session.add(
            Arm(eval_id="e" * 32, number=1, name="leg", model="leg", version_id=leg.id, settings={}, first=0, todo=[],
                planned=0)
        )  # fmt: skip
        named = {"worker_id": "worker-leg", "version_id": leg.id, "purpose": "eval", "eval_id": "e" * 32}
        workers.want(session, card="cpu", now=fleet.ctx.clock.now(), **named)
    fleet.tick()
    fleet.report("worker-0", "ready", url="https://127.0.0.1:1/worker-0")
    assert fleet.connect("leg", key=key).json()["code"] == "warming"
    fleet.report("worker-leg", "ready", url="https://127.0.0.1:1/worker-leg")
    urls = [fleet.connect(model, session="0.n", key=key).json()["worker_url"] for model in ("arm", "leg")]
    assert urls == ["https://127.0.0.1:1/worker-0", "https://127.0.0.1:1/worker-leg"]


def test_an_evals_key_is_bound_to_the_model_of_its_eval(fleet):
    """Connect and ready answer for the eval's own model alone, from its own workers; any other name is forbidden."""
    fleet.make_ready()
    key = _eval_key(fleet, 1)
    fleet.deploy(name="second")
    client = make_client(fleet.ctx, key, routers=("act",))
    for name in ("second", "none"):
        told = [fleet.connect(name, key=key).json(), client.get(f"/v1/act/ready?model={name}").json()]
        assert [(body["code"], name in body["detail"]) for body in told] == [("forbidden", True)] * 2
        assert "arm" not in str(told)
    assert client.get("/v1/act/ready?model=arm").json() == {"ready": False, "status": "starting"}
    fleet.tick()
    fleet.report("worker-0", "ready", url="https://127.0.0.1:1/worker-0")
    assert client.get("/v1/act/ready?model=arm").json() == {"ready": True, "status": "running"}
    with fleet.ctx.store.read() as session:
        assert session.query(Worker).filter_by(purpose="serve").count() == 0


def test_retired_workers_leave_no_trace_in_the_pings(fleet):
    """When each was last asked is kept of open workers alone, however they went."""
    fleet.make_ready(autoscaler={"scaledown_window": 60})
    name = fleet.serve()
    fleet.tick()
    assert list(fleet.controller._pinged) == [name]
    fleet.ctx.clock.sleep(61)
    fleet.tick(3)
    assert name not in fleet.cluster.living()
    assert fleet.controller._pinged == {}


def test_a_lost_worker_is_told_apart_from_a_failed_one(fleet):
    """A worker whose process is gone without a word is `lost`."""
    fleet.make_ready()
    name = fleet.serve()
    fleet.cluster.lose(name)
    fleet.tick()
    with fleet.ctx.store.read() as session:
        assert (workers.get(session, name).state, workers.get(session, name).reason) == ("failed", "lost")


def test_strays_are_killed_and_other_parts_processes_left_alone(fleet):
    """What lives under the fleet's names without an open row ends; instances are not the fleet's."""
    for name in ("worker-stray", "check-stray", "instance-1"):
        fleet.cluster.launch_command(Command(name, [], {}, "", "", ""))
    fleet.tick()
    assert sorted(fleet.cluster.living()) == ["instance-1"]


def test_tokens_are_kept_as_hashes(fleet):
    """A worker's report token is found by its hash alone."""
    fleet.make_ready()
    fleet.serve()
    _, start = fleet.started()
    with fleet.ctx.store.read() as session:
        hashes = [row.token_hash for row in session.query(Worker)]
    assert token_hash(start["token"]) in hashes
