"""Workers that are groups of machines: the commands that make one, and what is told of its machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.cluster.base import Command
from runner.fleet.door import Address, Door, DoorError
from runner.store.tables import Worker
from seq.contract.deployments import machines

MEMBER = "runner.worker.member"


def members(command: Command, size: int) -> list[Command]:
    """What runs on each machine: the worker itself on the first, and on every other one a member that follows it.

    A member holds no key of the worker's certificate. Its end is told by the first machine, so by no host of its own.
    """
    start = json.dumps({**json.loads(command.stdin), "tls_key": ""})
    module = command.argv.index("-m") + 1
    argv = [*command.argv[:module], MEMBER, *command.argv[module + 1 :]]
    follows = replace(command, argv=argv, stdin=start, exit_url=None, token=None)
    return [command, *(_named(follows, rank) for rank in range(1, size))]


def _named(command: Command, rank: int) -> Command:
    log = Path(command.log_path)
    return replace(
        command, name=f"{command.name}.{rank}", log_path=str(log.with_name(f"{log.stem}.{rank}{log.suffix}"))
    )


def told(row: Worker, address: Address | None, door: Door) -> dict[str, Any] | None:
    """The `group` of a worker in the fleet block; None where it is one machine.

    A worker with an address is asked how its machines do now; while it starts, and where it does not answer, they are
    as its row says. `failure` is why a group ended.
    """
    size = machines(row.cards)
    if size == 1:
        return None
    block: dict[str, Any] = {"size": size, "members": _asked(address, door)}
    if block["members"] is None:
        block["members"] = [{"rank": rank, "state": row.state, "beat_age_s": None} for rank in range(size)]
    if row.state == "failed":
        block["failure"] = row.error
    return block


def _asked(address: Address | None, door: Door) -> list[dict[str, Any]] | None:
    if address is None:
        return None
    try:
        found = door.ping(address).group
    except DoorError:
        return None
    return None if found is None else [one.model_dump() for one in found]
