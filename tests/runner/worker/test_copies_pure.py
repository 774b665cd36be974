"""What a worker decides of its copies: cards, memory, crashes, and what crosses between door and copy."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from runner.worker import calls, output
from runner.worker.cards import seen_by
from runner.worker.child import how_ended
from runner.worker.crashes import SOON_S, Crashes, pause_s
from runner.worker.memory import fitting, reason_of
from runner.worker.parse import Act
from seq.contract.deployments import Concurrency, PolicyDecl


@pytest.mark.parametrize(
    ("declared", "visible", "cards", "seen"),
    [
        ({}, "4,5", 2, [None, None]),
        ({"gpus_per_replica": 2}, "4,5,6,7", 4, ["4,5", "6,7"]),
        ({"replicas_per_gpu": 2}, "4,5", 2, ["4", "4", "5", "5"]),
        ({"replicas_per_gpu": 2}, None, 2, ["0", "0", "1", "1"]),
        ({"replicas_per_gpu": 2}, None, 1, [None, None]),
        ({"gpus_per_replica": 2}, "", 4, [None, None]),
    ],
)
def test_a_copy_sees_its_share_of_the_cards(declared, visible, cards, seen):
    """A declared share is cut from what the worker sees; undeclared, or without cards, nothing is cut."""
    concurrency = Concurrency(**declared)
    copies = range(concurrency.copies(cards))
    assert [seen_by(copy, visible, cards, concurrency) for copy in copies] == seen


class OutOfMemoryError(RuntimeError):
    """As torch names it."""


def chained(outer, inner):
    """`outer`, raised from `inner`."""
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "host_out_of_memory"),
        (OutOfMemoryError("tried to allocate"), "gpu_out_of_memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: out of memory"), "gpu_out_of_memory"),
        (chained(RuntimeError("cannot load"), OutOfMemoryError()), "gpu_out_of_memory"),
        (ValueError("no such weights"), None),
    ],
)
def test_an_error_tells_which_memory_is_full(error, reason):
    """Python's own, torch's and JAX's errors are known, also behind an error of the policy's."""
    assert reason_of(error) == reason


def test_copies_that_do_not_fit_are_told_the_number_that_does():
    """The sentence names how many came up and what to set."""
    two = Concurrency(replicas_per_gpu=4)
    assert fitting(2, 4, 1, two, "gpu_out_of_memory") == "2 of 4 copies came up; lower replicas_per_gpu to 2"
    assert fitting(5, 8, 2, two, "gpu_out_of_memory") == "5 of 8 copies came up; lower replicas_per_gpu to 2"
    assert "0 of 1 copies came up; declare more memory=" in fitting(0, 1, 1, Concurrency(), "host_out_of_memory")
    assert "take a card with more memory" in fitting(1, 4, 2, two, "gpu_out_of_memory")


def test_crashes_soon_after_each_other_are_counted():
    """A copy that was up for a minute begins anew; one that never came up crashed soon; each copy counts for itself."""
    crashes = Crashes()
    assert [crashes.note(0, up_s) for up_s in (SOON_S, 1.0, SOON_S + 1, 1.0, None, 2.0)] == [1, 2, 1, 2, 3, 4]
    assert crashes.note(1, 1.0) == 1


def test_a_copy_that_keeps_crashing_is_left_alone_longer_and_longer():
    """Nothing after the first crash, then seconds, at most a minute."""
    assert [pause_s(crashes) for crashes in (1, 2, 3, 4, 99)] == [0, 2, 4, 8, 60]


def test_how_a_process_ended_is_said_with_its_number():
    """An exit code, a known signal and an unknown one."""
    assert [how_ended(code) for code in (3, -9, -99)] == [
        "ended with exit code 3",
        "was killed by signal 9 (SIGKILL)",
        "was killed by signal 99 (unknown)",
    ]


def test_a_call_crosses_whole():
    """What the door asks is what the copy reads: arrays, bytes, keywords and notes."""
    act = Act({"a": np.arange(3), "raw": b"x"}, {"seed": 7}, True, "left", "toy", "e1")
    asked = calls.Order("run", (calls.Call(act, "r-1", "msgpack", ("note",)),))
    read = calls.read_order(calls.order_to_copy(asked)[calls.LENGTH.size :])
    assert (read.what, read.calls[0][1:]) == ("run", asked.calls[0][1:])
    assert read.calls[0].act.observation["a"].tolist() == [0, 1, 2]
    assert repr(read) == repr(asked)
    start = calls.CopyStart("/code", PolicyDecl(handler_ref="p:P"), None)
    assert calls.read_start(calls.start_to_copy(start)[calls.LENGTH.size :]) == start


def test_answers_cross_whole():
    """Several answers in one message, written and refused, whatever bytes they hold."""
    done = [
        calls.Done(0.5, 0.25, 0.125, 2, {"id": b"\n\x00", "outputs": b""}),
        calls.Done(0.5, 0.25, 0.0, 2, refused="no", details={"exception": {"type": "E"}}),
    ]
    facts, read = calls.read_told(calls.answers_to_door(done)[calls.LENGTH.size :])
    assert (facts["told"], read) == ("answers", done)


def test_a_log_that_cannot_be_written_fails_nothing(monkeypatch):
    """A full disk, or a log that is gone, costs what is printed and nothing else; what can be written is."""
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    full = os.open("/dev/full", os.O_WRONLY)
    read, write = os.pipe()
    print("lost", file=output._text(full), flush=True)
    print("kept", file=output._text(write), flush=True)
    os.close(write)
    assert os.read(read, 100) == b"kept\n"
    for descriptor in (full, read):
        os.close(descriptor)
