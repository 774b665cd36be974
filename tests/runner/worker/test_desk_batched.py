"""Acts of several connections that go to a `@seq.batched` policy together."""

from __future__ import annotations

import sys
import time

import pytest

from runner.worker.acts import ActRefusedError
from runner.worker.batching import for_evals
from runner.worker.copy import Copy
from seq.contract.deployments import PolicyDecl
from tests.runner.worker.desks import Attended

POLICY = """
import seq

@seq.policy(name="toy", gpu="cpu")
class Toy:
    @seq.infer
    @seq.batched(max_batch_size=4)
    def infer(self, obs, *, seed=None):
        if "raise" in obs:
            raise ValueError("mine")
        return [[item, seed[i], len(obs)] for i, item in enumerate(obs)]
"""


@pytest.fixture
def attended(tmp_path, monkeypatch):
    """A copy that waits 50 ms after an act for others, at most 250 ms in all."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "desk_toy.py").write_text(POLICY)
    copy = Copy(str(tmp_path), PolicyDecl(handler_ref="desk_toy:Toy"))
    created = copy.create()
    made = Attended(copy, created.declared, batching=for_evals(created.batching.max_batch_size, 50))
    yield made
    made.close()
    del sys.modules["desk_toy"]


def test_acts_of_several_connections_are_gathered(attended):
    """What comes at about the same time goes together, no more than declared, each answered its own."""
    lines = [attended.line() for _ in range(8)]
    for number, line in enumerate(lines):
        line.send({"inputs": number, "seed": 10 * number})
    answers = [line.receive() for line in lines]
    assert [answer["outputs"][:2] for answer in answers] == [[number, 10 * number] for number in range(8)]
    sizes = [answer["perf"]["batch_size"] for answer in answers]
    assert sizes == [answer["outputs"][2] for answer in answers]
    assert max(sizes) == 4


def test_acts_of_one_connection_are_gathered(attended):
    """One process of many environments may send all their acts on one line."""
    line = attended.line()
    for number in range(4):
        line.send({"inputs": number})
    assert [line.receive()["outputs"] for _ in range(4)] == [[number, None, 4] for number in range(4)]


def test_a_lone_act_waits_for_others_and_then_goes(attended):
    """The wait for others counts as waiting."""
    perf = attended.line().ask({"inputs": 1})["perf"]
    assert perf["batch_size"] == 1
    assert perf["queue_ms"] >= 50


def test_a_bad_request_is_refused_alone(attended):
    """What is wrong with one is found before the batch; the others run together."""
    lines = [attended.line() for _ in range(4)]
    for number, line in enumerate(lines):
        line.send({"inputs": number, "params": {"nobody": 1}} if number == 2 else {"inputs": number})
    with pytest.raises(ActRefusedError, match="nobody"):
        lines[2].receive()
    assert [lines[number].receive()["outputs"][0] for number in (0, 1, 3)] == [0, 1, 3]


def test_a_batch_that_fails_fails_for_all(attended):
    """Each is told so, and how many there were; the next batch runs."""
    lines = [attended.line() for _ in range(4)]
    for line, told in zip(lines, ("a", "raise", "b", "c"), strict=True):
        line.send({"inputs": told})
    for line in lines:
        with pytest.raises(ActRefusedError, match=r"mine \(in a batch of 4 acts, all refused for it\)") as refused:
            line.receive()
        assert refused.value.details["exception"]["type"] == "ValueError"
    counted = attended.tally.counted()
    assert (counted.acts, counted.errors, counted.busy) == (4, 4, 0)
    assert lines[0].ask({"inputs": "x"})["outputs"] == ["x", None, 1]


def test_whoever_goes_away_leaves_the_others_their_batch(attended):
    """A batch is run without the act of a client that is gone."""
    lines = [attended.line() for _ in range(3)]
    for number, line in enumerate(lines):
        line.send({"inputs": number})
    while attended.tally.counted().busy != 3:
        time.sleep(0.001)
    lines[1].close()
    assert [lines[number].receive()["outputs"] for number in (0, 2)] == [[0, None, 2], [2, None, 2]]
