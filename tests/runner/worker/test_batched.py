"""A copy of a `@seq.batched` policy, asked in this process."""

from __future__ import annotations

import json
import sys

import pytest

from runner.worker.calls import Call
from runner.worker.copy import Copy
from runner.worker.parse import Act
from seq.contract.deployments import PolicyDecl

POLICY = """
import numpy as np
import seq

@seq.policy(name="toy", gpu="cpu")
class Toy:
    @seq.infer
    @seq.batched(max_batch_size=4)
    def infer(self, obs, *, seed=None, gain: float = 1.0):
        if "raise" in obs:
            raise ValueError("mine")
        if "short" in obs:
            return [0]
        if "dict" in obs:
            return {"a": 1, "b": 2}
        if "array" in obs:
            return np.arange(len(obs))
        return [[item, seed[i], gain[i], len(gain)] for i, item in enumerate(obs)]
"""


@pytest.fixture
def copy(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "batched_toy.py").write_text(POLICY)
    made = Copy(str(tmp_path), PolicyDecl(handler_ref="batched_toy:Toy"))
    assert made.create().batching.max_batch_size == 4
    yield made
    del sys.modules["batched_toy"]


def run(copy, *acts):
    """The answers to one turn of (observation, keywords)."""
    return copy.run([Call(Act(obs, keywords, True), f"r-{obs}", "json") for obs, keywords in acts])


def test_every_argument_is_a_list_and_so_is_the_answer(copy):
    """One item for each request, in order, with the default where a request does not say; each is answered its own."""
    done = run(copy, ("a", {"seed": 7}), ("b", {"gain": 2.0}), ("c", {}))
    assert [json.loads(one.members["outputs"]) for one in done] == [
        ["a", 7, 1.0, 3],
        ["b", None, 2.0, 3],
        ["c", None, 1.0, 3],
    ]
    assert [json.loads(one.members["id"]) for one in done] == ["r-a", "r-b", "r-c"]
    assert {one.batch_size for one in done} == {3}


def test_one_request_is_a_batch_of_one(copy):
    """Alone an act arrives in lists too."""
    assert json.loads(run(copy, ("a", {}))[0].members["outputs"]) == ["a", None, 1.0, 1]


def test_an_array_holds_one_row_for_each_request(copy):
    """What has a length and an order may be returned instead of a list."""
    assert [json.loads(one.members["outputs"]) for one in run(copy, ("array", {}), ("b", {}))] == [0, 1]


@pytest.mark.parametrize(
    ("what", "says"),
    [("short", "1 answers for 2 requests"), ("dict", "a dict; it must return a list"), ("raise", "ValueError: mine")],
)
def test_a_batch_that_fails_fails_for_all(copy, what, says):
    """A wrong number of answers, no list, and an exception are told to every request of the batch."""
    done = run(copy, (what, {}), ("b", {}))
    assert all(says in one.refused for one in done)
    assert all(one.refused.endswith("(in a batch of 2 acts, all refused for it)") for one in done)
