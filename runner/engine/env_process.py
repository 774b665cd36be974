"""The process that hosts environments, in the benchmark's own Python: `python -m runner.engine.env_process`.

Its arguments are four inherited descriptors: the link to the instance, the socket over which lines to the policy are
handed to it, the memory that tells where it stands, and the leash. What is said on the link:

    instance -> process   {"start": EnvironmentStart}
                          {"episodes": [LeasedEpisode]}    to be played next
                          {"over": true}                   none is left
                          {"lines": n} | {"no_line": why}  n lines come over the other socket, as was asked
    process -> instance   {"ready": setup seconds, "facts": {...}} | {"error", "traceback"}
                          {"ended": [EpisodeOutcome], "facts"?: {...}}
                          {"open": [slot], "reason"?: why the lines that were there are lost}
"""

from __future__ import annotations

import faulthandler
import signal
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from pydantic import Field

from runner import leash
from runner.engine.bridge import Bridge
from runner.engine.facts import facts
from runner.engine.link import Link, LinkClosedError
from runner.engine.player import EvalBrokenError, Files, Player
from runner.engine.policy import NoLineError, Policy
from runner.engine.progress import Progress
from runner.engine.usercode import UserCodeError, frames, load_adapter, load_class, sentence
from runner.engine.worlds import World, make_world
from seq.contract._model import Strict
from seq.contract.benchmarks import RenderSpec
from seq.contract.internal import AdapterRef, EpisodeOutcome, LeasedEpisode


class EnvironmentStart(Strict):
    """What an environment process is told once: the benchmark, the adapter, the policy, and where files go."""

    code_dir: str
    handler_ref: str
    batched: bool
    slots: int
    setup_params: dict[str, Any]
    has_score: bool = False
    adapter: AdapterRef | None = None
    action_dim: int | None = None
    steps_per_query: int | None = None
    model: str = ""
    policy_params: dict[str, Any] = Field(default_factory=dict)
    streaming: bool = False
    render: RenderSpec | None = None
    blob_dir: str
    ffmpeg: str


class Instance:
    """The instance as this process sees it: where episodes and lines come from and outcomes go."""

    def __init__(self, link: Link, handed: socket.socket) -> None:
        self._link = link
        self._handed = handed
        self._waiting: deque[LeasedEpisode] = deque()
        self._over = False
        self._told: dict[str, str] = {}

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode] | None:
        """Up to `free` episodes; with `wait` at least one, or None when none is left."""
        while self._link.has_message() or (wait and not self._waiting and not self._over):
            self._hear()
        if not self._waiting and self._over:
            return None
        return [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]

    def ended(self, outcomes: list[EpisodeOutcome]) -> None:
        """Hand in finished episodes, and with the first what could be told of the drawing by then."""
        message: dict[str, Any] = {"ended": [outcome.wire() for outcome in outcomes]}
        now = facts()
        if now != self._told:
            self._told = message["facts"] = now
        self._link.send(message)

    def open(self, slots: list[int], reason: str | None) -> list[socket.socket]:
        """A line to the policy for each slot; raises NoLineError."""
        self._link.send({"open": slots, "reason": reason})
        while True:
            answer = self._hear()
            if "no_line" in answer:
                raise NoLineError(answer["no_line"])
            if "lines" in answer:
                return self._take_lines(answer["lines"])

    def ready(self, setup_s: float) -> None:
        """The benchmark is set up."""
        self._told = facts()
        self._link.send({"ready": setup_s, "facts": self._told})

    def broken(self, error: str, traceback: str | None) -> None:
        """The benchmark cannot be set up."""
        self._link.send({"error": error, "traceback": traceback})

    def _hear(self) -> dict[str, Any]:
        message = self._link.receive()
        for body in message.get("episodes", ()):
            self._waiting.append(LeasedEpisode.model_validate(body))
        self._over = self._over or "over" in message
        return message

    def _take_lines(self, count: int) -> list[socket.socket]:
        descriptors: list[int] = []
        while len(descriptors) < count:
            _, found, _, _ = socket.recv_fds(self._handed, 1, count)
            if not found:
                raise LinkClosedError("the instance is gone")
            descriptors += found
        return [socket.socket(fileno=descriptor) for descriptor in descriptors]


def main() -> None:
    """Serve until the instance is gone, or nothing is left to play."""
    link_fd, handed_fd, progress_fd, leash_fd = map(int, sys.argv[1:5])
    leash.hold(leash_fd)
    leash.go_first()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    link = Link(socket.socket(fileno=link_fd))
    instance = Instance(link, socket.socket(fileno=handed_fd))
    try:
        start = EnvironmentStart.model_validate(link.receive()["start"])
        player = _started(instance, start, Progress(progress_fd, start.slots))
        if player is not None:
            _play(instance, player)
            link.wait_closed()
    except LinkClosedError:
        return


def _play(instance: Instance, player: Player) -> None:
    try:
        player.run()
    except EvalBrokenError as broken:
        instance.broken(str(broken), None)


def _started(instance: Instance, start: EnvironmentStart, progress: Progress) -> Player | None:
    begun = time.monotonic()
    try:
        world = set_up(start)
        bridge = bridge_of(start)
    except UserCodeError as failed:
        instance.broken(str(failed), failed.traceback)
        return None
    except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's, and told
        instance.broken(f"the benchmark's setup failed: {sentence(failed)}", frames(failed, start.code_dir))
        return None
    instance.ready(time.monotonic() - begun)
    return Player(
        world,
        bridge,
        Policy(instance, start.model, start.policy_params, streaming=start.streaming),
        instance,
        Files(Path(start.blob_dir), start.render, start.ffmpeg),
        progress,
        start.code_dir,
        slots=start.slots,
        has_score=start.has_score,
    )


def set_up(start: EnvironmentStart) -> World:
    """The benchmark loaded and set up; raises what the user's code raises, or UserCodeError."""
    cls = load_class(start.code_dir, start.handler_ref)
    return make_world(cls, batched=start.batched, slots=start.slots, setup_params=start.setup_params)


def bridge_of(start: EnvironmentStart) -> Bridge:
    """The adapter of the eval, loaded and made; raises UserCodeError."""
    return Bridge(
        adapter=load_adapter(start.adapter) if start.adapter is not None else None,
        policy_io=start.adapter.policy_io if start.adapter is not None else "robot_arm",
        action_dim=start.action_dim,
        steps_per_query=start.steps_per_query,
    )


if __name__ == "__main__":
    main()
