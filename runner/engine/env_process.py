"""The process that hosts environments, in the benchmark's own Python: `python -m runner.engine.env_process`.

Its arguments are two inherited descriptors: the link to the instance, and the leash. Messages are answered one by one:

    start  {"start": EnvironmentStart}        -> {"ready": setup seconds} | {"error", "traceback"}
    reset  {"reset": {slot: LeasedEpisode}}   -> {"asks": {slot: body}, "ended": {slot: EpisodeOutcome}}
    play   {"play": {slot: answer}}           -> the same
    fail   {"fail": {slot: [error, traceback]}} -> the same
"""

from __future__ import annotations

import faulthandler
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from runner import leash
from runner.engine.bridge import Bridge
from runner.engine.link import Link, LinkClosedError
from runner.engine.player import Player, Recording, Turn
from runner.engine.usercode import UserCodeError, frames, load_adapter, load_class, sentence
from runner.engine.worlds import make_world
from seq.contract._model import Strict
from seq.contract.benchmarks import RenderSpec
from seq.contract.internal import AdapterRef, LeasedEpisode


class EnvironmentStart(Strict):
    """What an environment process is told once: the benchmark, the adapter, and where recordings go."""

    code_dir: str
    handler_ref: str
    batched: bool
    slots: int
    setup_params: dict[str, Any]
    adapter: AdapterRef | None = None
    action_dim: int | None = None
    steps_per_query: int | None = None
    render: RenderSpec | None = None
    blob_dir: str
    ffmpeg: str


def main() -> None:
    """Serve until the instance is gone."""
    link_fd, leash_fd = int(sys.argv[1]), int(sys.argv[2])
    leash.hold(leash_fd)
    leash.go_first()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    link = Link(socket.socket(fileno=link_fd))
    try:
        player = _started(link, EnvironmentStart.model_validate(link.receive()["start"]))
        while player is not None:
            link.send(_turn_body(_handle(player, link.receive())))
    except LinkClosedError:
        return


def _started(link: Link, start: EnvironmentStart) -> Player | None:
    begun = time.monotonic()
    try:
        player = make_player(start)
    except UserCodeError as failed:
        link.send({"error": str(failed), "traceback": failed.traceback})
        return None
    except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's, and told
        link.send(
            {"error": f"the benchmark's setup failed: {sentence(failed)}", "traceback": frames(failed, start.code_dir)}
        )
        return None
    link.send({"ready": time.monotonic() - begun})
    return player


def make_player(start: EnvironmentStart) -> Player:
    """The benchmark loaded and set up, with its bridge; raises what the user's code raises, or UserCodeError."""
    cls = load_class(start.code_dir, start.handler_ref)
    adapter = load_adapter(start.adapter) if start.adapter is not None else None
    bridge = Bridge(
        adapter=adapter,
        policy_io=start.adapter.policy_io if start.adapter is not None else "robot_arm",
        action_dim=start.action_dim,
        steps_per_query=start.steps_per_query,
    )
    recording = Recording(start.render, Path(start.blob_dir), start.ffmpeg) if start.render is not None else None
    world = make_world(cls, batched=start.batched, slots=start.slots, setup_params=start.setup_params)
    return Player(world, bridge, recording, start.code_dir)


def _handle(player: Player, message: dict[str, Any]) -> Turn:
    if "reset" in message:
        return player.reset({int(slot): LeasedEpisode.model_validate(body) for slot, body in message["reset"].items()})
    if "fail" in message:
        ended = {int(slot): player.fail(int(slot), *told) for slot, told in message["fail"].items()}
        return Turn(ended=ended)
    return player.play({int(slot): answer for slot, answer in message["play"].items()})


def _turn_body(turn: Turn) -> dict[str, Any]:
    return {
        "asks": {str(slot): body for slot, body in turn.asks.items()},
        "ended": {str(slot): outcome.wire() for slot, outcome in turn.ended.items()},
    }


if __name__ == "__main__":
    main()
