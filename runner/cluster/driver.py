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

from runner.cluster.base import Command, EngineRun
from runner.cluster.hosts import InstanceHost, ProcessHost

NAMESPACE = "sequence"
LAUNCH_LIMIT_S = 60.0
ASK_LIMIT_S = 5.0


class Driver:
    """What can be asked for; every argument and answer is plain JSON."""

    def join(self, address: str) -> None:
        """Become a driver of the head at this address."""
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)

    def names(self) -> list[str]:
        """Every name that lives."""
        found: list[str] = ray.util.list_named_actors()
        return found

    def nodes(self) -> list[dict[str, float]]:
        """The resources of every node that lives."""
        return [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def command(self, fields: dict[str, Any]) -> list[int | None]:
        """Launch a Command; its host's pid and its own."""
        return self._launch(ProcessHost, Command(**fields))

    def engine(self, fields: dict[str, Any]) -> list[int | None]:
        """Launch an EngineRun; its host's pid."""
        return self._launch(InstanceHost, EngineRun(**fields))

    def placed(self, name: str) -> list[int | None] | None:
        """The pids of a name launched by whomever; None when it has just ended, a host's pid of 0 while unknown."""
        try:
            pids: list[int | None] = list(ray.get(ray.get_actor(name).placed.remote(), timeout=ASK_LIMIT_S))
        except exceptions.GetTimeoutError:
            return [0, None]
        except (ValueError, exceptions.RayError):
            return None
        return pids

    def kill(self, name: str) -> None:
        """End a name: a command's host is asked to wind it up, an instance's is killed."""
        try:
            actor = ray.get_actor(name)
        except ValueError:
            return
        pids = self.placed(name)
        if pids is None or pids[1] is None:
            ray.kill(actor)
            return
        try:
            ray.get(actor.end.remote(), timeout=ASK_LIMIT_S)
        except exceptions.RayError:
            ray.kill(actor)

    def _launch(self, host: type[Any], what: Command | EngineRun) -> list[int | None]:
        shared = len(self.nodes()) == 1  # one small machine shares its cores instead of letting work wait for ever
        actor = (
            ray.remote(host)
            .options(
                name=what.name,
                lifetime="detached",
                max_restarts=0,
                max_concurrency=4,
                num_cpus=0 if shared else what.num_cpus,
            )
            .remote()
        )
        try:
            return list(ray.get(actor.start.remote(what), timeout=LAUNCH_LIMIT_S))
        except exceptions.RayTaskError as failed:
            ray.kill(actor)
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
