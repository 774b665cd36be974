"""A cluster in memory: everything launched lives until it is killed, or until a test lets it die."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

from runner.cluster.base import Capacity, ClusterLostError, Command, EngineRun, Placed

FIRST_PID = 100_000


class FakeCluster:
    """Starts nothing. `launched` records what was asked for, in order; `killed` the names that were ended.

    Of a group `launched` has the first command; `groups` has all, by the first one's name.
    """

    def __init__(self, cores: int = 4, cards: dict[str, int] | None = None, *, pretend: bool = False) -> None:
        self.launched: list[Command | EngineRun] = []
        self.groups: dict[str, list[Command]] = {}
        self.killed: list[str] = []
        self._capacity = Capacity(cores, cards or {}, pretend)
        self._placed: dict[str, Placed] = {}
        self._pids = itertools.count(FIRST_PID)
        self._head: int | None = None
        self._lock = threading.RLock()

    def ensure(self) -> bool:
        """Start a head where there is none; True then."""
        with self._lock:
            if self._head is not None:
                return False
            self._head = next(self._pids)
            return True

    def stop(self) -> None:
        """End everything."""
        self.lose_head()

    def launch_command(self, command: Command) -> None:
        """Record it; it lives under its name."""
        self._launch(command, next(self._pids))

    def launch_group(self, commands: Sequence[Command], card: str, cards: int) -> None:  # noqa: ARG002
        """Record it; it lives under its first command's name."""
        others = tuple(next(self._pids) for _ in commands[1:])
        self._launch(commands[0], next(self._pids), others)
        self.groups[commands[0].name] = list(commands)

    def launch_engine(self, run: EngineRun) -> None:
        """Record it; it lives under its name."""
        self._launch(run, None)

    def kill(self, name: str, *, at_once: bool = False) -> None:
        """Let it end; a name that does not live is left alone. `killed` has those `at_once` with a "!" before them."""
        with self._lock:
            self._joined()
            if self._placed.pop(name, None) is not None:
                self.killed.append(f"!{name}" if at_once else name)

    def living(self) -> dict[str, Placed]:
        """What was launched and has not ended."""
        with self._lock:
            self._joined()
            return dict(self._placed)

    def capacity(self) -> Capacity:
        """What it was made with."""
        with self._lock:
            self._joined()
            return self._capacity

    def head_pids(self) -> list[int]:
        """One made-up process, while the head lives."""
        return [] if self._head is None else [self._head]

    def lose(self, name: str) -> None:
        """Let a named process die on its own; raises KeyError for a name that does not live."""
        with self._lock:
            del self._placed[name]

    def lose_head(self) -> None:
        """Let the head die with all that runs in it: calls raise ClusterLostError until `ensure`."""
        with self._lock:
            self._head = None
            self._placed.clear()

    def _launch(self, what: Command | EngineRun, pid: int | None, others: tuple[int, ...] = ()) -> None:
        with self._lock:
            self._joined()
            if what.name in self._placed:
                raise ValueError(f"{what.name!r} lives already; a name is launched once")
            self.launched.append(what)
            self._placed[what.name] = Placed(what.name, next(self._pids), pid, others)

    def _joined(self) -> None:
        if self._head is None:
            raise ClusterLostError("no head: call ensure() first")
