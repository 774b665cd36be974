"""Ray's driver in a process of its own: `python -m runner.cluster.driver`, spoken to in lines of JSON.

Ray ends a driver's whole process when its raylet or its head is gone. Here that ends this process, which
`runner.cluster.ray` notices and replaces, and not the gateway. Its standard input is its leash.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, TextIO

import ray
from ray import exceptions

from runner.cluster.base import Command, EngineRun, unit
from runner.cluster.groups import Groups, address_of, in_group
from runner.cluster.hosts import InstanceHost, ProcessHost

NAMESPACE = "sequence"
LAUNCH_LIMIT_S = 60.0
ASK_LIMIT_S = 5.0


class Driver:
    """What can be asked for; every argument and answer is plain JSON."""

    def __init__(self) -> None:
        self._groups = Groups()

    def join(self, address: str) -> None:
        """Become a driver of the head at this address."""
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        self._groups.find()

    def names(self) -> list[str]:
        """Every name that lives; a group's once."""
        held = self._groups.held()  # before who lives: a group that comes in between is not one that ended
        found = {unit(name) for name in ray.util.list_named_actors()}
        self._groups.free(held - found)
        return sorted(found)

    def nodes(self) -> list[dict[str, float]]:
        """The resources of every node that lives."""
        return [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def command(self, fields: dict[str, Any]) -> list[int | None]:
        """Launch a Command; its host's pid and its own."""
        return self._launch(ProcessHost, Command(**fields))

    def engine(self, fields: dict[str, Any]) -> list[int | None]:
        """Launch an EngineRun; its host's pid."""
        return self._launch(InstanceHost, EngineRun(**fields))

    def group(self, commands: list[dict[str, Any]], machine: dict[str, float], *, share: bool) -> list[int | None]:
        """Launch Commands as one, each on a machine that has `machine`, or where they `share`; as `placed` answers."""
        members = [Command(**fields) for fields in commands]
        with self._groups.reserved(members, machine, share=share) as places:
            hosts = [
                self._host(ProcessHost, member.name, num_cpus=0, scheduling_strategy=place)
                for member, place in zip(members, places, strict=True)
            ]
            address = address_of(places[0])
            ports = ray.get(hosts[0].free_ports.remote(address, 2), timeout=LAUNCH_LIMIT_S)
            told = [
                host.start.remote(in_group(member, rank, len(members), address, ports))
                for rank, (host, member) in enumerate(zip(hosts, members, strict=True))
            ]
            (first, pid), *others = _answers(told)
        return [first, pid, *(host for host, _ in others)]

    def placed(self, name: str) -> list[int | None] | None:
        """The pids of a name launched by whomever; None when it has just ended, pids of None while unknown.

        Its host's, its own, and those of the hosts of a group's other machines.
        """
        parts = self._parts(name)
        if parts != [name]:
            told = [self._placed(part) or [None, None] for part in parts]
            return [*told[0], *(host for host, _ in told[1:])] if told else None
        return self._placed(name)

    def kill(self, name: str, *, at_once: bool = False) -> None:
        """End a name: a command's host is asked to wind it up, an instance's is killed; of a group all are."""
        for part in self._parts(name):
            self._end(part, at_once=at_once)

    def _placed(self, name: str) -> list[int | None] | None:
        try:
            pids: list[int | None] = list(ray.get(ray.get_actor(name).placed.remote(), timeout=ASK_LIMIT_S))
        except exceptions.GetTimeoutError:
            return [None, None]
        except (ValueError, exceptions.RayError):
            return None
        return pids

    def _parts(self, name: str) -> list[str]:
        """What lives of it, a group's first machine first."""
        return sorted(part for part in ray.util.list_named_actors() if unit(part) == name)

    def _end(self, name: str, *, at_once: bool) -> None:
        try:
            actor = ray.get_actor(name)
        except ValueError:
            return
        pids = self._placed(name)
        if pids is None or pids[1] is None:
            ray.kill(actor)
            return
        try:
            ray.get(actor.end.remote(at_once=at_once), timeout=ASK_LIMIT_S)
        except exceptions.RayError:
            ray.kill(actor)

    def _launch(self, host: type[Any], what: Command | EngineRun) -> list[int | None]:
        shared = len(self.nodes()) == 1  # one small machine shares its cores instead of letting work wait for ever
        actor = self._host(host, what.name, num_cpus=0 if shared else what.num_cpus)
        try:
            (pids,) = _answers([actor.start.remote(what)])
        except Exception:
            ray.kill(actor)
            raise
        return pids

    def _host(self, host: type[Any], name: str, **where: Any) -> Any:
        lasting = {"lifetime": "detached", "max_restarts": 0, "max_concurrency": 4}
        return ray.remote(host).options(name=name, **lasting, **where).remote()


def _answers(told: list[Any]) -> list[list[int | None]]:
    """What hosts answered to `start`; raises what one of them raised."""
    try:
        return [list(pids) for pids in ray.get(told, timeout=LAUNCH_LIMIT_S)]
    except exceptions.RayTaskError as failed:
        raise failed.cause from None


def main() -> None:
    """Answer requests, each in a thread, until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what Ray prints must not get between the answers
    driver, writing = Driver(), threading.Lock()
    for line in sys.stdin:
        threading.Thread(target=_answer, args=(driver, json.loads(line), answers, writing), daemon=True).start()
    os._exit(0)


def _answer(driver: Driver, request: dict[str, Any], answers: TextIO, writing: threading.Lock) -> None:
    answer: dict[str, Any] = {"id": request["id"]}
    try:
        answer["value"] = getattr(driver, request["call"])(**request["args"])
    except Exception as failed:  # noqa: BLE001  it is raised again by whoever asked
        answer["failed"] = _kind(failed)
        answer["text"] = " ".join(f"{type(failed).__name__}: {failed}".split())[:500]
    with writing:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _kind(failed: Exception) -> str:
    if isinstance(failed, exceptions.ActorAlreadyExistsError):
        return "taken"
    return "os" if isinstance(failed, OSError) and not isinstance(failed, TimeoutError) else "lost"


if __name__ == "__main__":
    main()
