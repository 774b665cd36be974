"""The line to a worker of another machine: acts go through the robot's own door, and come back as a copy's would."""

from __future__ import annotations

import threading
import types
from typing import Any

import pytest
from typing_extensions import Self

import sequence_ai
from runner.engine import relay
from runner.engine.relay import Door, Relay
from runner.worker.acts import ActRefusedError, Acts

ACT_S = 2.0
DOOR = Door("m", "http://gateway", "key", 1000.0)


class Clock:
    """Time, moved by hand; also the event that a relay waits on between two tries."""

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

    def __init__(self, clock: Clock, starting: int = 0, raises: Exception | None = None) -> None:
        self.clock = clock
        self.starting = starting
        self.raises = raises
        self.asked: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def predict(self, observation: Any, **options: Any) -> Any:
        if self.starting:
            self.starting -= 1
            raise sequence_ai.Unavailable("starting", code="warming")
        if self.raises is not None:
            raise self.raises
        self.clock.now += ACT_S
        self.asked.append(options)
        return observation


def line(monkeypatch: pytest.MonkeyPatch, clock: Clock, handle: Handle) -> Acts:
    monkeypatch.setattr(relay, "time", types.SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(Relay, "_open", lambda _: handle)
    stop: Any = clock
    return Acts.over(Relay(DOOR, "0.x", stop).start())


@pytest.mark.parametrize("starting", [0, 1, 3])
def test_a_worker_that_starts_is_waited_for_and_that_is_no_part_of_the_act(
    monkeypatch: pytest.MonkeyPatch, starting: int
) -> None:
    """What the policy took is the inference's; how long there was no worker is not."""
    clock = Clock()
    handle = Handle(clock, starting)
    acts = line(monkeypatch, clock, handle)
    acts.send({"inputs": [1.0], "seed": 7, "episode_id": "e", "params": {"n": 2}, "model": "m"})
    answer = acts.receive()
    assert answer["outputs"] == [1.0]
    assert answer["perf"]["inference_ms"] == 1000 * ACT_S
    assert len(clock.waits) == starting
    assert handle.asked == [{"seed": 7, "episode_id": "e", "params": {"n": 2}}]
    acts.close()


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (ValueError("bad row"), "policy_error", "bad row"),
        (sequence_ai.InvalidRequest("no such camera", code="invalid_request"), "invalid_request", "no such camera"),
        (sequence_ai.Unavailable("it took too long", code="timeout"), "timeout", "it took too long"),
    ],
)
def test_what_the_door_says_is_said(monkeypatch: pytest.MonkeyPatch, raised: Exception, code: str, says: str) -> None:
    """A policy's own exception, a refusal, a timeout: each with its code, as a copy on this machine would say it."""
    clock = Clock()
    acts = line(monkeypatch, clock, Handle(clock, raises=raised))
    acts.send({"inputs": 1})
    with pytest.raises(ActRefusedError, match=says) as refused:
        acts.receive()
    assert refused.value.code == code
    acts.close()


def test_the_end_of_an_episode_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not answered, and the next act is."""
    clock = Clock()
    acts = line(monkeypatch, clock, Handle(clock))
    acts.end_episode("e")
    acts.send({"inputs": 2})
    assert acts.receive()["outputs"] == 2
    acts.close()


def test_the_thread_ends_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of a line that was closed."""
    clock = Clock()
    acts = line(monkeypatch, clock, Handle(clock))
    acts.close()
    for thread in threading.enumerate():
        if thread.name == "relay":
            thread.join(10)
            assert not thread.is_alive()
