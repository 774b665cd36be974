"""The service over copies that the test plays itself: deaths, lost episodes, batches."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from runner.worker.app import create_app
from runner.worker.batching import Batching
from runner.worker.calls import Call, Done
from runner.worker.parse import Act, Declared
from runner.worker.pool import ANEW, Pool
from runner.worker.service import Service
from seq.contract import codec
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart
from tests.runner.worker.conftest import SECRET, Client


class Played:
    """A copy that answers at once with its number, or dies of the act "die"."""

    def __init__(self, number):
        self.number = number
        self.pool = None
        self.acts = []
        self.ended = []

    def ask(self, calls):
        self.acts += [call.act.observation for call in calls]
        if "die" in self.acts[-len(calls) :]:
            self.pool.down(self.number)
            self.pool.died(self.number, "was killed by signal 9 (SIGKILL)")
            return
        self.pool.answered(self.number, [self._done(call, len(calls)) for call in calls])

    def end_episode(self, episode_id):
        self.ended.append(episode_id)

    def _done(self, call, size):
        body = {"outputs": self.number} | ({"warnings": list(call.notes)} if call.notes else {})
        return Done(0.0, 0.0, 0.0, size, {name: codec.dumps(value) for name, value in body.items()})


class Two:
    """A service over two played copies, and a client of it."""

    def __init__(self, *, streaming):
        start = WorkerStart(
            worker_id="w",
            gateway_url="http://127.0.0.1:1",
            token="t",
            secret=SECRET,
            tls_cert="",
            tls_key="",
            code_dir="/",
            policy=PolicyDecl(handler_ref="p:P", streaming=streaming),
            timeouts=Timeouts(),
        )
        self.copies = [Played(0), Played(1)]
        self.pool = Pool(dict(enumerate(self.copies)), sticky=streaming)
        for copy in self.copies:
            copy.pool = self.pool
        self.client = Client(create_app(Service(start, self.pool, Declared(start.policy))))

    def act(self, what, request_id=None, **body):
        headers = {} if request_id is None else {"X-Seq-Request-Id": request_id}
        return self.client.post("/act", json={"inputs": what, **body}, headers=headers)


@pytest.fixture
def played():
    made = []

    def make(*, streaming=False):
        made.append(Two(streaming=streaming))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


def test_an_act_whose_copy_died_is_refused_and_never_runs_again(played):
    """It is answered 503 with the reason and how the copy ended, again and again for the same id; others go on."""
    worker = played()
    answers = [worker.act("die", "r-1") for _ in range(3)]
    assert {answer.status_code for answer in answers} == {503}
    body = answers[-1].json()
    assert (body["code"], body["retryable"], body["details"]["reason"]) == ("unavailable", True, "crashed")
    assert "was killed by signal 9 (SIGKILL)" in body["detail"]
    assert [copy.acts for copy in worker.copies] == [["die"], []]
    assert worker.act("on", "r-2").json()["outputs"] == 1
    ping = worker.client.get("/ping").json()
    assert (ping["copies"], ping["restarts"], ping["acts"], ping["busy"]) == (1, 0, 1, 0)


def test_a_copy_that_is_back_counts_as_restarted(played):
    """Once it serves again it takes acts, and the ping says so."""
    worker = played()
    worker.act("die")
    worker.pool.back(0, worker.copies[0])
    assert [worker.act("on").json()["outputs"] for _ in range(2)] == [1, 0]
    ping = worker.client.get("/ping").json()
    assert (ping["copies"], ping["restarts"]) == (2, 1)


def test_a_lost_streaming_episode_is_sent_away_once_and_told(played):
    """Its next act is refused as by a draining worker and not run; asked again, it runs and says what is lost."""
    worker = played(streaming=True)
    worker.act("on", episode_id="e1")
    worker.act("die", episode_id="e1")
    refused = worker.act("on", "r-1", episode_id="e1")
    assert (refused.status_code, refused.json()["details"]["reason"]) == (503, "draining")
    answer = worker.act("on", "r-1", episode_id="e1").json()
    assert (answer["outputs"], answer["warnings"]) == (1, [ANEW])
    assert "warnings" not in worker.act("on", episode_id="e1").json()


def test_the_end_of_an_episode_is_told_where_it_was(played):
    """Every copy that saw the episode hears of its end, and no other."""
    worker = played()
    worker.act("on", episode_id="e1")
    worker.act("on")
    worker.client.post("/act/episode_end", json={"episode_id": "e1"})
    assert [copy.ended for copy in worker.copies] == [["e1"], []]


def test_a_batch_goes_though_its_time_comes_while_the_clock_is_looked_at(monkeypatch):
    """What was not due at one look and is past at the next is not forgotten, whatever lies between the two."""
    looks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(looks) * 0.01)
    copy = Played(0)
    copy.pool = Pool({0: copy}, Batching(2, 0.015, 0.015))
    act = Act(observation="x", keywords={}, opaque=True)

    async def scene():
        return await asyncio.wait_for(copy.pool.run(Call(act, "r-1", codec.JSON), lambda _: None), 5)

    assert asyncio.run(scene()).done.members["outputs"] == b"0"
