"""Asking the policy from inside an environment process: one line for each slot, whoever answers at its other end."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from runner.worker.acts import ActRefusedError, Acts, LineLostError

LOST_TOO_OFTEN = 2
_GONE = ("unavailable", "warming")


class Lines(Protocol):
    """Where lines come from: the instance, which waits for a worker that is not there."""

    def open(self, slots: list[int], reason: str | None) -> list[socket.socket]:
        """A line for each slot; `reason` is why one that was there is lost. Raises NoLineError."""


class NoLineError(Exception):
    """No worker answered for as long as may be waited; the message says so."""


@dataclass(frozen=True)
class Ask:
    """An act of one slot: the body without its seed and episode, which stand beside it."""

    body: Mapping[str, Any]
    seed: int
    episode_id: str


@dataclass(frozen=True)
class Answer:
    """What the policy answered (`outputs`), and what the act took in s, beside the wait for a worker."""

    outputs: Any
    act_s: float
    infer_s: float
    waited_s: float = 0.0


@dataclass(frozen=True)
class Failed:
    """The policy, or the worker on its behalf, refused or failed this act; the episode cannot go on."""

    message: str
    traceback: str | None = None


@dataclass(frozen=True)
class Anew:
    """The copy that held the episode's state is gone: a streaming policy's episode begins anew."""

    reason: str


Result = Answer | Failed | Anew


class Policy:
    """Called by the player's thread alone. `params` go with every act; a `streaming` policy's state is its copy's."""

    def __init__(self, lines: Lines, model: str, params: Mapping[str, Any], *, streaming: bool) -> None:
        self._from = lines
        self._common: dict[str, Any] = {"model": model, **({"params": dict(params)} if params else {})}
        self._streaming = streaming
        self._lines: dict[int, Acts] = {}

    def ask(self, asks: Mapping[int, Ask], meanwhile: Callable[[], None]) -> dict[int, Result]:
        """One act of each slot, all under way at once; `meanwhile` is called while they are."""
        waited = self._connect([slot for slot in asks if slot not in self._lines], None)
        if isinstance(waited, Failed):
            return dict.fromkeys(asks, waited)
        sent: dict[int, float] = {}
        results: dict[int, Result] = {}
        for slot, ask in asks.items():
            sent[slot] = time.perf_counter()
            try:
                self._lines[slot].send(self._whole(ask), plain=True)
            except LineLostError:
                continue  # its answer is not there either
            except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
                results[slot] = Failed(f"the observation cannot be sent to the policy: {wrong}")
        meanwhile()
        for slot, ask in asks.items():
            if slot not in results:
                results[slot] = self._answered(slot, ask, sent[slot], waited)
        return results

    def end_episode(self, slot: int, episode_id: str) -> None:
        """Tell the policy; a line that is gone took what was kept for the episode with it."""
        line = self._lines.get(slot)
        if line is not None:
            try:
                line.end_episode(episode_id)
            except LineLostError:
                self._drop(slot)

    def _answered(self, slot: int, ask: Ask, sent: float, waited_s: float) -> Result:
        lost = 0
        while True:
            try:
                body = self._lines[slot].receive()
            except LineLostError as gone:
                reason = str(gone)
            except ActRefusedError as refused:
                if refused.code not in _GONE:
                    return _failure(refused)
                reason = refused.detail
            else:
                took = time.perf_counter() - sent
                return Answer(body["outputs"], took, _infer_s(body.get("perf") or {}, took), waited_s)
            self._drop(slot)
            lost += 1
            if lost >= LOST_TOO_OFTEN and not self._streaming:
                return Failed(f"{lost} model copies were lost while they ran this act, so it was given up: {reason}")
            waited = self._connect([slot], reason)
            if isinstance(waited, Failed):
                return waited
            if self._streaming:
                return Anew(reason)
            waited_s += waited
            sent = time.perf_counter()
            try:
                self._lines[slot].send(self._whole(ask), plain=True)
            except LineLostError:
                continue

    def _connect(self, slots: list[int], reason: str | None) -> float | Failed:
        """Get a line for each slot; the seconds that took."""
        if not slots:
            return 0.0
        begun = time.perf_counter()
        try:
            for slot, made in zip(slots, self._from.open(slots, reason), strict=True):
                self._lines[slot] = Acts.over(made)
        except NoLineError as none:
            return Failed(str(none))
        return time.perf_counter() - begun

    def _drop(self, slot: int) -> None:
        line = self._lines.pop(slot, None)
        if line is not None:
            line.close()

    def _whole(self, ask: Ask) -> dict[str, Any]:
        return {**self._common, **ask.body, "seed": ask.seed, "episode_id": ask.episode_id}


def _failure(refused: ActRefusedError) -> Failed:
    if refused.code == "timeout":
        return Failed(f"the policy did not answer: {refused.detail}")
    if refused.code != "policy_error":
        return Failed(f"the worker refused the act: {refused.detail}")
    told = refused.details.get("exception") or {}
    kind, text = told.get("type"), " ".join(str(told.get("message") or refused.detail).split())
    message = f"{kind}: {text}" if kind and not text.startswith(str(kind)) else text
    return Failed(f"the policy failed: {message}", told.get("traceback"))


def _infer_s(perf: Mapping[str, Any], otherwise: float) -> float:
    for name in ("inference_cpu_ms", "inference_ms"):
        value = perf.get(name)
        if isinstance(value, (int, float)):
            return float(value) / 1000
    return otherwise
