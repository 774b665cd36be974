"""A Panda that lives in a process of its own, in real time: `python simulator.py --task lift --seed 0`.

It prints one line of JSON once it listens, `{"port": ...}`, then answers any number of drivers until its standard input
ends. One loop does it all: steps physics to where the wall clock is, answers what arrived, sleeps to the next
millisecond that is due. Only drawing is elsewhere, in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cameras import Cameras
from controller import Controller, Mode, RefusedError, limits
from journal import Journal
from pace import Pace
from scene import BENCHMARK, TIMESTEP_S, Scene
from wire import Inbox, pack

BURST_S = 0.002  # physics is stepped this often, two steps at a time
MOST_STEPS = 20  # at once, while it catches up: drivers are answered in between
MODEL_INSTALL = "pip install --no-deps gym-hil==0.1.14"
PACKAGES_INSTALL = 'pip install -e ".[dev]"'
LOG_EVERY = 20  # milliseconds


class Simulator:
    """The robot, its world and its drivers. Time is the machine's monotonic clock, which other processes share."""

    def __init__(self, scene: Scene, cameras: Cameras, journal: Journal, watchdog_s: float) -> None:
        self._scene = scene
        self._cameras = cameras
        self._journal = journal
        self._watchdog_s = watchdog_s
        self._bounds = limits(scene.bounds)
        self._selector = selectors.DefaultSelector()
        self._ended = False

    def begin(self, task: str, seed: int, *, stopped: str = "") -> None:
        """Put everything at a start; the arm holds. Frames drawn before this are not shown again."""
        self._scene.begin(task, seed)
        start = [*self._scene.data.qpos[:7], self._scene.bounds[7][1]]
        self._controller = Controller(
            start,
            self._bounds,
            period_s=self._scene.period_s,
            watchdog_s=self._watchdog_s,
            told=lambda event, why: self._journal.event(time.monotonic(), event, why),
        )
        self._told_of_success = False
        self._began = time.monotonic()
        self._pace = Pace(TIMESTEP_S, self._began)
        self._journal.event(self._began, "begin", f"{task}, seed {seed}")
        if stopped:
            self._controller.estop(stopped)

    def listen(self) -> int:
        """Be there for drivers and for the end of standard input; the port."""
        server = socket.create_server(("127.0.0.1", 0))
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ, self._welcome)
        self._selector.register(self._cameras.fileno(), selectors.EVENT_READ, lambda _: self._cameras.collect())
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._leash)
        return int(server.getsockname()[1])

    def run(self) -> None:
        """Live until standard input ends."""
        while not self._ended:
            for _ in range(min(self._pace.due(time.monotonic()), MOST_STEPS)):
                self._step()
            now = time.monotonic()
            self._cameras.offer(now, self._scene.data.qpos, self._scene.data.mocap_pos)
            behind = self._pace.due(now) > 0
            for key, _ in self._selector.select(0 if behind else BURST_S):
                key.data(key.fileobj)

    def _step(self) -> None:
        self._pace.stepped()
        self._scene.step(self._controller.tick(TIMESTEP_S, self._pace.simulated_s))
        if self._scene.success and not self._told_of_success:
            self._told_of_success = True
            self._journal.event(time.monotonic(), "success", "")
        if self._scene.steps % LOG_EVERY == 0:
            self._journal.state(time.monotonic(), self._scene, self._controller)

    # --- drivers

    def _welcome(self, server: Any) -> None:
        connection, _ = server.accept()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024 * 1024)
        inbox = Inbox()
        self._selector.register(connection, selectors.EVENT_READ, lambda one: self._hear(one, inbox))

    def _hear(self, connection: socket.socket, inbox: Inbox) -> None:
        """Answer what came. A driver that hung up, talks nonsense or does not read is let go."""
        try:
            piece = connection.recv(65536)
            if not piece:
                raise ConnectionResetError("hung up")
            for message in inbox.feed(piece):
                connection.sendall(pack(self.answer(message)))
        except (OSError, ValueError) as gone:
            self._journal.event(time.monotonic(), "driver gone", str(gone))
            self._selector.unregister(connection)
            connection.close()

    def _leash(self, _stdin: Any) -> None:
        self._ended = not os.read(sys.stdin.fileno(), 4096)

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """What is said to one request: `{"wrong": why}` to one that cannot be done, and the driver stays."""
        try:
            return self._done(**message)
        except (TypeError, ValueError) as wrong:
            return {"wrong": str(wrong)}

    def _done(self, do: str = "", **fields: Any) -> dict[str, Any]:
        answers: dict[str, Callable[..., dict[str, Any]]] = {
            "observe": self._observe,
            "row": self._row,
            "hold": self._hold,
            "estop": self._estop,
            "reset": self._reset,
            "begin": self._begin,
            "status": self._status,
        }
        if do not in answers:
            raise ValueError(f"unknown request {do!r}: there are {', '.join(answers)}")
        return answers[do](**fields)

    def _observe(self) -> dict[str, Any]:
        shot = self._cameras.newest
        if shot is None or shot.at < self._began:
            return {"observation": None}
        return {"observation": self._scene.observe(shot), "frames_age_s": time.monotonic() - shot.at}

    def _row(self, row: list[float]) -> dict[str, Any]:
        try:
            self._controller.command(row, self._pace.simulated_s)
        except RefusedError as refused:
            return {"refused": str(refused)}
        self._journal.row(time.monotonic(), row)
        return {"refused": None}

    def _hold(self) -> dict[str, Any]:
        self._journal.event(time.monotonic(), "hold", "")
        self._controller.hold()
        return self._status()

    def _estop(self, why: str) -> dict[str, Any]:
        self._controller.estop(why)
        return self._status()

    def _reset(self) -> dict[str, Any]:
        self._controller.reset()
        return self._status()

    def _begin(self, task: str, seed: int) -> dict[str, Any]:
        latched = self._controller.why if self._controller.mode is Mode.ESTOP else ""
        self.begin(task, seed, stopped=latched)
        return self._status()

    def _status(self) -> dict[str, Any]:
        return {
            "mode": self._controller.mode.value,
            "why": self._controller.why,
            "joints": self._scene.data.qpos[:7].tolist(),
            "success": self._scene.success,
            "lost": self._scene.lost,
            "instruction": self._scene.instruction,
            "log": str(self._journal.path.resolve()),
            **self._pace.report(),
        }


def _scene(benchmark: Path) -> Scene:
    """The world; ends the program with what to install where that is missing."""
    try:
        return Scene(benchmark)
    except ModuleNotFoundError as missing:
        if importlib.util.find_spec("gym_hil") is None:
            sys.exit(f"the Panda's model comes from the package gym-hil: {MODEL_INSTALL} (beside {PACKAGES_INSTALL})")
        sys.exit(f"{missing}: {PACKAGES_INSTALL}")


def _hurry() -> None:
    """Ahead of all ordinary processes, as a robot's controller is, where the machine has and allows that."""
    with suppress(AttributeError, PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def main() -> None:
    """Start it as the command line says."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--task", default="lift")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--watchdog-s", type=float, default=0.5, help="stop the arm when no row came for so long")
    options.add_argument("--camera-hz", type=float, default=5.0)
    options.add_argument("--log", type=Path, default=Path("panda.jsonl"), help="where to write what happened")
    options.add_argument("--benchmark", type=Path, default=BENCHMARK, help="whose scene and tasks to simulate")
    given = options.parse_args()
    scene = _scene(given.benchmark)
    cameras = Cameras(scene.model, size=224, hz=given.camera_hz)
    _hurry()
    with Journal(given.log) as journal:
        simulator = Simulator(scene, cameras, journal, given.watchdog_s)
        simulator.begin(given.task, given.seed)
        cameras.warm_up(scene.data.qpos, scene.data.mocap_pos)
        simulator.begin(given.task, given.seed)
        print(json.dumps({"port": simulator.listen()}), flush=True)
        try:
            simulator.run()
        finally:
            cameras.close()


if __name__ == "__main__":
    main()
