"""Asking the policy: the wait for a worker that is not there yet is told apart from the act."""

from __future__ import annotations

import types
from typing import Any

import pytest

import sequence_ai
from runner.engine import asking
from runner.engine.asking import Asker

ACT_S = 2.0


class Clock:
    """Time, moved by hand; also the event that an asker waits on between two tries."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return False


class Handle:
    """A policy whose worker is starting for the first `starting` tries; each act takes two seconds."""

    def __init__(self, clock: Clock, starting: int) -> None:
        self.clock = clock
        self.starting = starting

    def predict(self, observation: Any, **_: Any) -> Any:
        if self.starting:
            self.starting -= 1
            raise sequence_ai.Unavailable("starting", code="warming")
        self.clock.now += ACT_S
        return observation


@pytest.mark.parametrize("starting", [0, 1, 3])
def test_the_wait_for_a_worker_is_told_apart_from_the_act(monkeypatch: pytest.MonkeyPatch, starting: int) -> None:
    """What the policy took is the act's; how long there was no worker is not."""
    clock = Clock()
    monkeypatch.setattr(asking, "time", types.SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(Asker, "_open", lambda _: Handle(clock, starting))
    asker = Asker("m", "http://gateway", "key", 1000.0, clock)  # type: ignore[arg-type]
    asker.begin(0)
    answer = asker.ask({"inputs": 1})
    assert len(clock.waits) == starting
    assert (answer.act_s, answer.waited_s) == (ACT_S, sum(clock.waits))
    assert asker.ask({"inputs": 1}).waited_s == 0.0
