"""Evals that run by themselves, on a clock moved by hand: when they begin, and what they tell of the run before."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from runner.errors import Refused
from runner.evals import webhook
from runner.evals.schedules import AGAIN_AFTER_S, TRIES, ScheduleController
from runner.store.queries import deployments, evals
from runner.store.queries import schedules as rows
from runner.testing import first_key, make_client

from .conftest import ADAPTER, BENCHMARK, POLICY, ROUTERS, add_benchmark, add_policy, failing, outcome, run

DAY = 86_400.0
PATH = "/v1/deployments/arm/evals/schedule"
DAILY = {"benchmark": "table", "every": "daily"}


class Listener:
    """A real server on this machine that keeps what is posted to it; answers `status`."""

    def __init__(self):
        self.posts, self.status = [], 200
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.posts.append((self.headers, body))
                self.send_response(listener.status)
                self.end_headers()

            def log_message(self, *_):
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def scheduler(ctx):
    """The controller of schedules; what it tells, it tells in place."""
    return ScheduleController(ctx, spawn=lambda work: work())


def keep(client, **what):
    answer = client.put(PATH, json={**DAILY, **what})
    assert answer.status_code == 200, answer.json()
    return answer.json()


def listed(client):
    return client.get("/v1/deployments/arm/evals").json()


def begun(client):
    """Ids of the evals there are, oldest first."""
    return [row["eval_id"] for row in reversed(listed(client)["history"])]


def scored(*values):
    return lambda leased: outcome(leased, metrics={"success": float(values[leased.condition.index])})


GOOD, WORSE, ALIKE = scored(1, 1, 1, 1, 1, 1), scored(0, 0, 0, 0, 0, 0), scored(1, 1, 1, 1, 1, 0)


@pytest.fixture
def night(ctx, client, clock, controller, scheduler):
    """A day goes by, the run that is due plays as told and is judged; its id."""

    def pass_(result):
        clock.sleep(DAY)
        scheduler.tick()
        eval_id = begun(client)[-1]
        run(ctx, controller, eval_id, result)
        scheduler.tick()
        return eval_id

    return pass_


def test_a_schedule_is_kept_and_listed_before_the_evals(client):
    """With what it runs and when next; nothing runs yet."""
    told = keep(client, trials=2, max_usd=1.5)
    assert told == {
        "benchmark": "table", "every": "daily", "trials": 2, "max_usd": 1.5, "adapter": None,
        "due_at": "1970-01-13T13:46:40.000Z", "webhook": None, "last_eval": None, "last_error": None, "previous": None,
    }  # fmt: skip
    assert (listed(client)["schedules"], listed(client)["history"]) == ([told], [])


def test_a_daily_run_begins_when_it_is_due(ctx, client, clock, controller, scheduler):
    """Once, a day after it was set, with what was asked for; then a day later again."""
    keep(client, trials=1)
    clock.sleep(DAY - 1)
    scheduler.tick()
    assert begun(client) == []
    clock.sleep(1)
    for _ in range(3):
        scheduler.tick()
    (first,) = begun(client)
    line = listed(client)
    assert (line["history"][0]["scheduled"], line["schedules"][0]["last_eval"]) == (True, first)
    assert line["schedules"][0]["due_at"] == "1970-01-14T13:46:40.000Z"
    assert client.get(f"/v1/eval/{first}/details").json()["manifest"]["episodes"] == 2
    run(ctx, controller, first)
    clock.sleep(DAY)
    scheduler.tick()
    assert len(begun(client)) == 2


def test_a_weekly_run_waits_a_week(client, clock, scheduler):
    """Changing how often counts from the change."""
    keep(client)
    clock.sleep(DAY / 2)
    keep(client, every="weekly")
    clock.sleep(6 * DAY)
    scheduler.tick()
    assert begun(client) == []
    clock.sleep(DAY)
    scheduler.tick()
    assert len(begun(client)) == 1


def test_missed_runs_are_not_made_up_for(ctx, client, clock, controller, scheduler):
    """After three and a half days away there is one run, and the next is due at its own time."""
    keep(client)
    clock.sleep(4.5 * DAY)
    scheduler.tick()
    (first,) = begun(client)
    run(ctx, controller, first)
    scheduler.tick()
    assert begun(client) == [first]
    clock.sleep(DAY / 2 - 10)
    scheduler.tick()
    assert len(begun(client)) == 2


def test_a_run_that_still_goes_is_not_joined_by_the_next(ctx, client, clock, controller, scheduler):
    """The next one is left out, the list says so, and the one after it begins again."""
    keep(client)
    clock.sleep(DAY)
    scheduler.tick()
    (first,) = begun(client)
    clock.sleep(DAY)
    scheduler.tick()
    assert begun(client) == [first]
    assert f"eval {first} still ran when the next one was due" in listed(client)["schedules"][0]["last_error"]
    run(ctx, controller, first)
    clock.sleep(DAY)
    scheduler.tick()
    assert len(begun(client)) == 2
    assert listed(client)["schedules"][0]["last_error"] is None


def test_every_deployed_version_is_run_once(ctx, client, account, controller, scheduler):
    """`deploy` begins when another version serves, and not for the one that served when it was set."""
    keep(client, every="deploy")
    assert listed(client)["schedules"][0]["due_at"] is None
    scheduler.tick()
    assert begun(client) == []
    add_policy(ctx, account, POLICY)
    scheduler.tick()
    scheduler.tick()
    (first,) = begun(client)
    assert listed(client)["history"][0]["model_version"] == 2
    run(ctx, controller, first)
    scheduler.tick()
    assert begun(client) == [first]


def test_a_version_deployed_while_one_still_runs_has_its_turn_afterwards(ctx, client, account, controller, scheduler):
    """Of several, the one that serves by then."""
    keep(client, every="deploy")
    add_policy(ctx, account, POLICY)
    scheduler.tick()
    (first,) = begun(client)
    for _ in range(2):
        add_policy(ctx, account, POLICY)
        scheduler.tick()
    assert begun(client) == [first]
    run(ctx, controller, first)
    scheduler.tick()
    assert [row["model_version"] for row in listed(client)["history"]] == [4, 2]


def test_a_worse_policy_is_told_as_a_regression(client, listener, night):
    """In the list, in the details, and to the webhook: once, signed, with the numbers."""
    secret = keep(client, webhook=listener.url)["webhook_secret"]
    first, second = night(GOOD), night(WORSE)
    history = {row["eval_id"]: row["regressed"] for row in listed(client)["history"]}
    assert history == {first: False, second: True}
    previous = client.get(f"/v1/eval/{second}/details").json()["previous"]
    assert (previous["eval_id"], previous["metric"], previous["value"], previous["now"]) == (first, "success", 1.0, 0.0)
    assert (previous["regressed"], previous["difference"]["n"], previous["difference"]["lost"]) == (True, 6, 6)
    assert previous["difference"]["high"] < 0
    assert previous["sentence"].startswith("REGRESSION: success -1.000 over 6 paired episode(s)")
    ((headers, body),) = listener.posts
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    assert headers["X-Seq-Signature"] == f"sha256={expected}"
    told = json.loads(body)
    assert (told["event"], told["deployment"], told["benchmark"]) == ("regressed", "arm", "table")
    assert (told["eval_id"], told["status"]) == (second, "completed")
    assert (told["previous"], told["sentence"]) == (previous, previous["sentence"])
    assert listed(client)["schedules"][0]["previous"] == previous


def test_what_may_be_chance_is_no_regression(client, listener, night):
    """One start of six that was lost lies within the interval: no mark, no post, and the sentence says so."""
    keep(client, webhook=listener.url)
    night(GOOD)
    second = night(ALIKE)
    previous = client.get(f"/v1/eval/{second}/details").json()["previous"]
    assert (previous["regressed"], previous["difference"]["lost"]) == (False, 1)
    assert "no regression that could be told from chance" in previous["sentence"]
    assert listener.posts == []


def test_the_same_fall_of_every_start_is_a_regression(client, listener, night):
    """Equal differences have no interval; that all six lie on one side is beyond chance all the same."""
    keep(client, webhook=listener.url)
    night(scored(0.9, 0.9, 0.9, 0.9, 0.9, 0.9))
    previous = client.get(f"/v1/eval/{night(scored(0.4, 0.4, 0.4, 0.4, 0.4, 0.4))}/details").json()["previous"]
    assert (previous["regressed"], previous["difference"]["high"]) == (True, None)
    assert previous["sentence"].endswith("beyond chance (all differences are equal)")
    assert len(listener.posts) == 1


def test_a_rise_beyond_chance_is_told(client, listener, night):
    """It is no regression; the sentence gives the numbers all the same."""
    keep(client, webhook=listener.url)
    night(WORSE)
    previous = client.get(f"/v1/eval/{night(GOOD)}/details").json()["previous"]
    assert previous["regressed"] is False
    assert previous["sentence"] == (
        "success +1.000 over 6 paired episode(s) since the run before, beyond chance (the 95 % interval lies above 0)"
    )
    assert listener.posts == []


def test_the_first_run_has_none_before_it(client, listener, night):
    """It is judged all the same: nothing to compare with, nothing told."""
    keep(client, webhook=listener.url)
    first = night(WORSE)
    assert "previous" not in client.get(f"/v1/eval/{first}/details").json()
    assert listed(client)["schedules"][0]["previous"]["sentence"] == "there is no earlier run to compare with"
    assert listener.posts == []


def test_a_run_that_fails_is_told(client, listener, night):
    """And the next good one is compared with the last that completed."""
    keep(client, webhook=listener.url)
    first = night(GOOD)
    second = night(lambda leased: outcome(leased, **failing()))
    ((_, body),) = listener.posts
    told = json.loads(body)
    assert (told["event"], told["eval_id"], told["status"]) == ("failed", second, "failed")
    assert "all ended in an error" in told["sentence"]
    third = night(GOOD)
    assert client.get(f"/v1/eval/{third}/details").json()["previous"]["eval_id"] == first
    assert len(listener.posts) == 1


def test_a_run_that_someone_canceled_is_no_news(ctx, client, clock, controller, scheduler, listener):
    """Whoever canceled it knows."""
    keep(client, webhook=listener.url)
    clock.sleep(DAY)
    scheduler.tick()
    client.post(f"/v1/eval/{begun(client)[0]}/cancel")
    scheduler.tick()
    assert listener.posts == []


def test_another_benchmark_version_is_not_compared(ctx, client, account, night, listener):
    """Equal seeds of two versions may be other starts, so a drop is no regression of the policy."""
    keep(client, webhook=listener.url)
    night(GOOD)
    add_benchmark(ctx, account, BENCHMARK)
    second = night(WORSE)
    previous = client.get(f"/v1/eval/{second}/details").json()["previous"]
    assert (previous["regressed"], "difference" in previous) == (False, False)
    assert "the benchmark changed" in previous["sentence"]
    assert "benchmark table: v1 before, v2 now" in previous["differs"]
    assert listener.posts == []


def test_a_webhook_that_does_not_answer_is_tried_again_and_then_noted(client, clock, listener, night, scheduler):
    """A few tries a minute apart, then the list says why nobody was told; a later run is told again."""
    keep(client, webhook=listener.url)
    listener.status = 500
    night(GOOD)
    night(WORSE)
    scheduler.tick()
    assert len(listener.posts) == 1
    for _ in range(5):
        clock.sleep(AGAIN_AFTER_S)
        scheduler.tick()
    assert len(listener.posts) == TRIES
    assert listed(client)["schedules"][0]["last_error"] == "its webhook was not reached: it answered 500"
    listener.status = 204
    night(GOOD)
    night(WORSE)
    assert len(listener.posts) == TRIES + 1
    assert listed(client)["schedules"][0]["last_error"] is None


def test_a_restarted_gateway_tells_nothing_twice(ctx, client, listener, night):
    """What was told is kept in the row."""
    keep(client, webhook=listener.url)
    night(GOOD)
    night(WORSE)
    ScheduleController(ctx, spawn=lambda work: work()).tick()
    assert len(listener.posts) == 1


def test_set_again_it_keeps_what_is_not_said(ctx, client, listener, clock):
    """Its secret is told once and is not changed by another setting; a new webhook has a new one."""
    client.post("/v1/adapters", json=ADAPTER)
    first = keep(client, trials=2, webhook=listener.url, adapter="bridge")
    clock.sleep(100)
    again = client.put(PATH, json={"benchmark": "table", "max_usd": 3}).json()
    kept = {name: first[name] for name in ("every", "trials", "adapter", "due_at", "webhook")}
    assert {name: again[name] for name in kept} == kept
    assert (again["max_usd"], "webhook_secret" in again) == (3, False)
    moved = keep(client, webhook=f"{listener.url}/2")
    assert moved["webhook_secret"] != first["webhook_secret"]
    with ctx.store.read() as session:
        (row,) = rows.every(session)
    assert moved["webhook_secret"] not in str(row.__dict__)


def test_the_adapter_of_the_last_eval_is_taken_where_none_is_named(client):
    """A schedule without one would be refused for contracts that differ."""
    client.post("/v1/adapters", json=ADAPTER)
    client.post("/v1/eval", json={"model": "arm", "benchmark": "table", "adapter": "bridge"})
    assert keep(client)["adapter"] == "bridge"


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ({"every": None}, "invalid_request", "say how often"),
        ({"every": "hourly"}, "invalid_request", "every"),
        ({"benchmark": "chair"}, "not_found", "'chair'"),
        ({"adapter": "none"}, "not_found", "'none'"),
        ({"trials": 0}, "invalid_request", "trials"),
        ({"max_usd": 0}, "invalid_request", "max_usd"),
        ({"webhook": "http://example.com/x"}, "invalid_request", "must be an https address"),
        ({"webhook": "https://user:word@example.com/x"}, "invalid_request", "must not hold a password"),
        ({"webhook": "https://"}, "invalid_request", "webhook"),
        ({"webhook": "https://a\x00b/"}, "invalid_request", "webhook"),
        ({"webhook": "ftp://example.com"}, "invalid_request", "webhook"),
    ],
)
def test_what_could_never_run_is_refused_now(client, what, code, said):
    """A mistake is told when the schedule is set, and nothing is kept."""
    body = {name: value for name, value in {**DAILY, **what}.items() if value is not None}
    refused = client.put(PATH, json=body).json()
    assert (refused["code"], said in refused["detail"]) == (code, True)
    assert listed(client)["schedules"] == []


@pytest.mark.parametrize(
    ("url", "in_the_clear"),
    [
        ("https://example.com/hook", "http://example.com/hook"),
        ("http://localhost:1", "http://localhost.example.com:1"),
        ("http://[::1]:9/x", "http://[::2]:9/x"),
        ("http://127.0.0.1", "http://1.0.0.127"),
    ],
)
def test_https_and_this_machine_may_be_told(url, in_the_clear):
    """Anything else would send what happened, and its signature, for anyone to read."""
    webhook.check(url)
    with pytest.raises(Refused):
        webhook.check(in_the_clear)


def test_off_removes_it_and_leaves_what_ran(client, night, clock, scheduler):
    """Nothing begins any more; one that is not there is answered with those that are."""
    keep(client)
    first = night(GOOD)
    assert client.delete(PATH, params={"benchmark": "table"}).json() == {
        "deployment": "arm",
        "benchmark": "table",
        "deleted": True,
    }
    clock.sleep(3 * DAY)
    scheduler.tick()
    assert (begun(client), listed(client)["schedules"]) == ([first], [])
    assert client.delete(PATH, params={"benchmark": "table"}).json()["code"] == "not_found"


def test_a_run_that_is_refused_is_noted_and_the_next_one_tries(ctx, client, clock, scheduler):
    """A policy that does not serve any more cannot be evaluated; once it does, it is."""
    keep(client)
    with ctx.store.write() as session:
        deployment = deployments.all_serving(session)[0][0]
        deployment.serving = None
    clock.sleep(DAY)
    scheduler.tick()
    assert "was refused" in listed(client)["schedules"][0]["last_error"]
    with ctx.store.write() as session:
        deployments.get(session, deployment.id).serving = 1
    clock.sleep(DAY)
    scheduler.tick()
    assert len(begun(client)) == 1


def test_a_cluster_that_comes_back_takes_the_run_it_was_due(client, clock, cluster, scheduler):
    """A few seconds without a cluster cost no night's run."""
    keep(client)
    clock.sleep(DAY)
    cluster.lose_head()
    scheduler.tick()
    assert (begun(client), listed(client)["schedules"][0]["last_error"]) == ([], None)
    cluster.ensure()
    scheduler.tick()
    assert len(begun(client)) == 1


def test_a_schedule_goes_with_its_benchmark_and_its_deployment(ctx, client):
    """Removing either says so, or takes it along."""
    keep(client)
    whole = make_client(ctx, first_key(), routers=(*ROUTERS, "benchmarks", "deployments"))
    told = whole.delete("/v1/benchmarks/table").json()
    assert told["schedules"] == [{"deployment": "arm", "every": "daily"}]
    assert listed(client)["schedules"] == []


def test_another_accounts_schedule_is_not_there(ctx, client, other, scheduler, clock):
    """It can be neither seen, set nor removed, and its runs are its own account's."""
    keep(client)
    assert other.put(PATH, json=DAILY).json()["code"] == "not_found"
    assert other.delete(PATH, params={"benchmark": "table"}).json()["code"] == "not_found"
    clock.sleep(DAY)
    scheduler.tick()
    with ctx.store.read() as session:
        assert len({row.account_id for row in evals.open_ones(session)}) == 1
