"""Hosts that are up before there is work for them: a process with Ray takes a second to come up."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import ray
from ray import exceptions

PREFIX = "spare-"
AGAIN_AFTER_S = 3.0
"""After so long what was just started is up, and the next host no longer takes its processor time from it."""
ASK_LIMIT_S = 5.0

Host = type[Any]


class Spares:
    """At most one free host of each kind; `make` starts one as an actor of that name.

    A host keeps its name when it is given work, so who runs what is known here, or asked of the hosts themselves.
    """

    def __init__(self, make: Callable[[Host, str], Any]) -> None:
        self._make = make
        self._free: dict[str, str] = {}  # by kind
        self._runs: dict[str, str] = {}
        self._lock = threading.Lock()

    def find(self, actors: Iterable[str]) -> None:
        """Take over the hosts that wait and were another driver's; a second one of a kind is ended."""
        for actor in filter(_is_spare, actors):
            with contextlib.suppress(exceptions.GetTimeoutError, ValueError):  # busy, and asked again later; or gone
                kind, runs = _standing(actor)
                if kind and runs is None and self._free.setdefault(kind, actor) != actor:
                    ray.kill(ray.get_actor(actor))

    def take(self, host: Host) -> Any | None:
        """The free host of that kind; None without one."""
        with self._lock:
            actor = self._free.pop(host.__name__, None)
        with contextlib.suppress(ValueError):
            return None if actor is None else ray.get_actor(actor)
        return None

    def replace(self, host: Host) -> None:
        """Have a free one of that kind again, a little later."""
        later = threading.Timer(AGAIN_AFTER_S, self._add, (host,))
        later.daemon = True
        later.start()

    def running(self, actors: Iterable[str]) -> dict[str, str]:
        """The actor of everything that runs, by its name; hosts that wait run nothing.

        Raises GetTimeoutError where one does not say: it may run something, so nobody may take it for ended.
        """
        listed = list(actors)
        with self._lock:
            waiting, before = set(self._free.values()), self._runs
        running: dict[str, str] = {}
        for actor in listed:
            name: str | None = actor
            if _is_spare(actor):
                name = None if actor in waiting else before.get(actor) or _standing(actor)[1]
            if name is not None:
                running[name] = actor
        self._runs = {actor: name for name, actor in running.items() if _is_spare(actor)}
        return running

    def _add(self, host: Host) -> None:
        with self._lock:
            if host.__name__ in self._free:
                return
            self._free[host.__name__] = actor = f"{PREFIX}{uuid.uuid4().hex}"
        try:
            self._make(host, actor).stand_by.remote()
        except exceptions.RayError:
            with self._lock:
                self._free.pop(host.__name__, None)
            raise


def _is_spare(actor: str) -> bool:
    return actor.startswith(PREFIX)


def _standing(actor: str) -> tuple[str, str | None]:
    """A host's kind and what it runs; "" and None of one that has just ended. Raises GetTimeoutError."""
    try:
        kind, runs = ray.get(ray.get_actor(actor).standing.remote(), timeout=ASK_LIMIT_S)
    except exceptions.GetTimeoutError:
        raise
    except (ValueError, exceptions.RayError):
        return "", None
    return kind, runs
