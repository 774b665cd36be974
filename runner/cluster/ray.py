"""The real cluster: a Ray head of the platform's own, reached through a driver process. Every call has a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from runner.cluster import head as heads
from runner.cluster.base import LEAST, Capacity, ClusterLostError, Command, EngineRun, Placed
from runner.cluster.link import DriverLink
from runner.settings import Settings

JOIN_LIMIT_S = 45.0
PROBE_LIMIT_S = 20.0
LAUNCH_LIMIT_S = 65.0
GROUP_LIMIT_S = 120.0
CALL_LIMIT_S = 15.0
COUNTED_S = 5.0
NO_CARD = {"CUDA_VISIBLE_DEVICES": ""}


class RayCluster:
    """A head on this machine, joined through a driver. What runs in it outlives this process.

    A head that is lost (a process of it dead, or no answer within PROBE_LIMIT_S) is ended and started anew by `ensure`;
    a driver that is lost is replaced, and nothing else. Commands see no card where `settings` declare pretend ones.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._head: heads.Head | None = None
        self._driver: DriverLink | None = None
        self._known: dict[str, Placed] = {}
        self._counted: tuple[float, Capacity] | None = None
        self._ensuring = threading.Lock()

    def ensure(self) -> bool:
        """Join the running head or start one; True when everything that ran before is gone."""
        with self._ensuring:
            if self._answers():
                return False
            self._leave()
            before = heads.recorded(self._settings)
            if before is not None and self._joins(before):
                return False
            self._start_anew(before)
            return True

    def stop(self) -> None:
        """End the head and all that runs in it; returns when nothing of it lives."""
        with self._ensuring:
            self._leave()
            head = heads.recorded(self._settings)
            if head is not None:
                heads.end(self._settings, head)

    def launch_command(self, command: Command) -> None:
        """Start a command; returns once its host lives. Raises OSError when it cannot be started."""
        self._launched(command.name, self._call("command", LAUNCH_LIMIT_S, fields=self._seeing(command)))

    def launch_group(self, commands: Sequence[Command], card: str, cards: int) -> None:
        """Start commands as one unit, each on a machine of its own with so many of that card; returns once all live.

        Pretend cards are on every machine, and machines may be short then. Raises OSError where there are none such.
        """
        machine = {} if self._settings.pretend else {"GPU": cards, f"accelerator_type:{card}": LEAST}
        asked = {"commands": [self._seeing(command) for command in commands], "machine": machine}
        pids = self._call("group", GROUP_LIMIT_S, share=bool(self._settings.pretend), **asked)
        self._launched(commands[0].name, pids)

    def launch_engine(self, run: EngineRun) -> None:
        """Start a benchmark instance; returns once its host lives."""
        self._launched(run.name, self._call("engine", LAUNCH_LIMIT_S, fields=asdict(run)))

    def kill(self, name: str, *, at_once: bool = False) -> None:
        """End a named process and its children. A command is asked first, and lives on while it winds up."""
        self._call("kill", CALL_LIMIT_S, name=name, at_once=at_once)

    def living(self) -> dict[str, Placed]:
        """What lives, by name."""
        names = self._call("names", CALL_LIMIT_S)
        found = {name: self._known.get(name) or self._ask(name) for name in names}
        living = {name: placed for name, placed in found.items() if placed is not None}
        self._known = {name: placed for name, placed in living.items() if placed.host_pid}
        return living

    def capacity(self) -> Capacity:
        """Cores and cards of all nodes that live, or the pretend cards; counted anew every COUNTED_S.

        A robot that connects asks for it, and must not wait for what else the driver does.
        """
        counted, now = self._counted, time.monotonic()
        if counted is not None and now - counted[0] < COUNTED_S:
            return counted[1]
        nodes, pretend = self._call("nodes", CALL_LIMIT_S), self._settings.pretend
        cores = int(sum(node.get("CPU", 0) for node in nodes))
        capacity = Capacity(cores, dict(pretend) or _cards(nodes), bool(pretend))
        self._counted = (now, capacity)
        return capacity

    def real_cards(self) -> dict[str, int]:
        """Cards that the nodes truly have, whatever was declared."""
        return _cards(self._call("nodes", CALL_LIMIT_S))

    def head_pids(self) -> list[int]:
        """Every process of the head's session that hosts nothing, and the driver's."""
        head, driver = self._head, self._driver
        if head is None or driver is None:
            return []
        hosts = {pid for placed in self._known.values() for pid in (placed.host_pid, *placed.others)}
        return [*(pid for pid in heads.pids(head) if pid not in hosts), driver.pid]

    def _answers(self) -> bool:
        if self._head is None or not heads.alive(self._head):
            return False
        try:
            self._call("names", PROBE_LIMIT_S)
        except ClusterLostError:
            return False
        return True

    def _joins(self, head: heads.Head) -> bool:
        if not head.address or not heads.alive(head):
            return False
        try:
            self._join(head, self._new_driver())
        except ClusterLostError:
            self._leave()
            return False
        return True

    def _start_anew(self, before: heads.Head | None) -> None:
        driver = self._new_driver()  # it imports Ray while the head comes up
        try:
            if before is not None:
                heads.end(self._settings, before)
            self._join(heads.start(self._settings), driver)
        except ClusterLostError:
            driver.end()
            raise

    def _new_driver(self) -> DriverLink:
        return DriverLink(heads.platform_env(self._settings), self._settings.logs / "ray-driver.log")

    def _join(self, head: heads.Head, driver: DriverLink) -> None:
        self._driver = driver
        driver.call("join", JOIN_LIMIT_S, address=head.address)
        self._head = head

    def _leave(self) -> None:
        driver, self._driver, self._head, self._known, self._counted = self._driver, None, None, {}, None
        if driver is not None:
            driver.end()

    def _call(self, name: str, limit_s: float, /, **args: Any) -> Any:
        if self._driver is None or self._head is None:
            raise ClusterLostError("no head: call ensure() first")
        return self._driver.call(name, limit_s, **args)

    def _seeing(self, command: Command) -> dict[str, Any]:
        """The command's fields; it sees no card where cards are pretend."""
        hidden = replace(command, env={**command.env, **NO_CARD}) if self._settings.pretend else command
        return asdict(hidden)

    def _launched(self, name: str, pids: list[Any]) -> None:
        self._known[name] = _placed(name, pids)

    def _ask(self, name: str) -> Placed | None:
        """Who hosts a name that this process did not launch; None when it has just ended."""
        pids = self._call("placed", CALL_LIMIT_S, name=name)
        return None if pids is None else _placed(name, pids)


def _placed(name: str, pids: list[Any]) -> Placed:
    host_pid, pid, *others = pids
    return Placed(name, host_pid, pid, tuple(others))


def _cards(nodes: list[dict[str, float]]) -> dict[str, int]:
    """Cards by name over all nodes; a node has one kind."""
    cards: dict[str, int] = {}
    for resources in nodes:
        for key in resources:
            if key.startswith("accelerator_type:"):
                name = key.removeprefix("accelerator_type:")
                cards[name] = cards.get(name, 0) + int(resources.get("GPU", 0))
    return cards
