"""The seam to whatever places work: start and find named processes. Real part: `ray`; shipped fake: `fake`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

LEAST = 0.001
"""So little of a resource that a machine which has it has enough: asks where, not how much."""


@dataclass(frozen=True)
class Command:
    """A process to run under a name: it gets `stdin` as its first line, then an open pipe that ends with its host.

    `env` is the whole environment. Output goes to `log_path`. When it ends, its host posts a WorkerReport with phase
    `exited` to `exit_url` (bearer `token`) once, and ends too. `num_cpus` is what it asks of a many-machine cluster.
    """

    name: str
    argv: list[str]
    env: dict[str, str]
    stdin: str
    log_path: str
    cwd: str
    num_cpus: float = 0.0
    exit_url: str | None = None
    token: str | None = None


@dataclass(frozen=True)
class EngineRun:
    """A benchmark instance to run under a name: `start` is an `seq.contract.internal.InstanceStart` body."""

    name: str
    start: dict[str, Any]
    log_path: str
    num_cpus: float = 0.0


@dataclass(frozen=True)
class Capacity:
    """What the cluster has: processor cores, and cards by name; `pretend` where they are declared and not there."""

    cores: int
    cards: dict[str, int] = field(default_factory=dict)
    pretend: bool = False


@dataclass(frozen=True)
class Placed:
    """A live named process: its host's pid, and for a command the pid it started (both None while unknown).

    Of a group they are its first machine's; `others` are the pids of the other hosts.
    """

    name: str
    host_pid: int | None
    pid: int | None = None
    others: tuple[int, ...] = ()


def unit(name: str) -> str:
    """The name under which a command is listed and ended: its own, or for `worker-x.1` that of its group."""
    return name.partition(".")[0]


def caveat(cards: Mapping[str, int]) -> str:
    """What everything that rests on pretend cards says of itself."""
    there = ", ".join(f"{count} x {name}" for name, count in sorted(cards.items()))
    return f"this platform's cards are pretend ({there}): what asks for one runs on the CPU, and no time is a card's"


class ClusterLostError(Exception):
    """The cluster did not answer in time or is gone; `ensure` brings it back."""


class Cluster(Protocol):
    """All methods may block; each has a deadline of its own and raises ClusterLostError past it.

    Launching a name that lives is an error of the caller's; killing a name that does not live is not.
    """

    def ensure(self) -> bool:
        """Join the running head or start one; True when everything that ran before is gone."""

    def stop(self) -> None:
        """End the head and all that runs in it."""

    def launch_command(self, command: Command) -> None:
        """Start a command; returns once its host lives."""

    def launch_group(self, commands: Sequence[Command], card: str, cards: int) -> None:
        """Start commands as one unit, each on a machine of its own with so many of that card; returns once all live.

        It is listed and ended under the first one's name; the others are called after it, `NAME.1` and so on. Each
        finds RANK, WORLD_SIZE, LOCAL_RANK (0), MASTER_ADDR and MASTER_PORT in its environment, and in SEQ_GROUP_PORT
        another free port of the first machine. Raises OSError where there are no such machines.
        """

    def launch_engine(self, run: EngineRun) -> None:
        """Start a benchmark instance; returns once its host lives."""

    def kill(self, name: str, *, at_once: bool = False) -> None:
        """End a named process and its children; `at_once` leaves a command no time to wind up."""

    def living(self) -> dict[str, Placed]:
        """What lives, by name."""

    def capacity(self) -> Capacity:
        """Cores and cards of the whole cluster."""

    def head_pids(self) -> list[int]:
        """The processes of the head itself."""
