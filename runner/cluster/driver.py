"""Ray's driver in a process of its own: `python -m runner.cluster.driver`, spoken to in lines of JSON.

Ray ends a driver's whole process when its raylet or its head is gone. Here that ends this process, which
`runner.cluster.ray` notices and replaces, and not the gateway. Its standard input is its leash.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any, TextIO

import ray
from ray import exceptions

from runner.cluster.base import Command, EngineRun, unit
from runner.cluster.groups import Groups, address_of, in_group
from runner.cluster.hosts import InstanceHost, ProcessHost, TakenError
from runner.cluster.spares import ASK_LIMIT_S, Host, Spares

NAMESPACE = "sequence"
LAUNCH_LIMIT_S = 60.0


class Driver:
    """What can be asked for; every argument and answer is plain JSON."""

    def __init__(self) -> None:
        self._groups = Groups()
        self._spares = Spares(lambda host, name: self._host(host, name, num_cpus=0))

    def join(self, address: str) -> None:
        """Become a driver of the head at this address."""
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        self._groups.find()
        self._spares.find(ray.util.list_named_actors())

    def names(self) -> list[str]:
        """Every name that lives; a group's once."""
        held = self._groups.held()  # before who lives: a group that comes in between is not one that ended
        found = {unit(name) for name in self._living()}
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
        living = self._living()
        parts = _parts(name, living)
        if parts != [name]:
            told = [_placed(living[part]) or [None, None] for part in parts]
            return [*told[0], *(host for host, _ in told[1:])] if told else None
        return _placed(living[name])

    def kill(self, name: str, *, at_once: bool = False) -> None:
        """End a name: a command's host is asked to wind it up, an instance's is killed; of a group all are."""
        living = self._living()
        for part in _parts(name, living):
            _end(living[part], at_once=at_once)

    def _living(self) -> dict[str, str]:
        """The actor of every name that lives."""
        return self._spares.running(ray.util.list_named_actors())

    def _launch(self, host: Host, what: Command | EngineRun) -> list[int | None]:
        if what.name in self._living():
            raise TakenError(f"{what.name} lives")
        if len(self.nodes()) > 1:
            return self._launch_anew(host, what, what.num_cpus)
        try:
            spare = self._spares.take(host)
            if spare is not None:
                with contextlib.suppress(exceptions.RayActorError, TakenError):  # it died, or another driver took it
                    return _started(spare, what)
            # One small machine shares its cores instead of letting work wait for ever.
            return self._launch_anew(host, what, 0)
        finally:
            self._spares.replace(host)

    def _launch_anew(self, host: Host, what: Command | EngineRun, num_cpus: float) -> list[int | None]:
        return _started(self._host(host, what.name, num_cpus=num_cpus), what)

    def _host(self, host: Host, name: str, **where: Any) -> Any:
        lasting = {"lifetime": "detached", "max_restarts": 0, "max_concurrency": 4}
        return ray.remote(host).options(name=name, **lasting, **where).remote()


def _parts(name: str, living: Iterable[str]) -> list[str]:
    """What lives of it, a group's first machine first."""
    return sorted(part for part in living if unit(part) == name)


def _placed(actor: str) -> list[int | None] | None:
    try:
        pids: list[int | None] = list(ray.get(ray.get_actor(actor).placed.remote(), timeout=ASK_LIMIT_S))
    except exceptions.GetTimeoutError:
        return [None, None]
    except (ValueError, exceptions.RayError):
        return None
    return pids


def _end(name: str, *, at_once: bool) -> None:
    try:
        actor = ray.get_actor(name)
    except ValueError:
        return
    pids = _placed(name)
    if pids is None or pids[1] is None:
        ray.kill(actor)
        return
    try:
        ray.get(actor.end.remote(at_once=at_once), timeout=ASK_LIMIT_S)
    except exceptions.RayError:
        ray.kill(actor)


def _started(actor: Any, what: Command | EngineRun) -> list[int | None]:
    try:
        (pids,) = _answers([actor.start.remote(what)])
    except TakenError:
        raise
    except Exception:
        ray.kill(actor)
        raise
    return pids


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
    if isinstance(failed, (TakenError, exceptions.ActorAlreadyExistsError)):
        return "taken"
    return "os" if isinstance(failed, OSError) and not isinstance(failed, TimeoutError) else "lost"


if __name__ == "__main__":
    main()
