"""The platform's heartbeat: on every wake, and at least once a tick, each controller takes one step."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

import structlog

from runner.cluster.base import ClusterLostError
from runner.context import Context

log = structlog.get_logger()

STOP_LIMIT_S = 5.0


class Controller(Protocol):
    """Compares what is wanted with what lives and takes one step; safe to repeat after any failure."""

    def tick(self) -> None:
        """One step."""


class Loop:
    """A thread that keeps the cluster up and ticks the controllers in order. One that fails stops no other."""

    def __init__(self, ctx: Context, controllers: Sequence[Controller]) -> None:
        self._ctx = ctx
        self._controllers = controllers
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconcile", daemon=True)

    def start(self) -> None:
        """Begin; the first step is taken at once."""
        self._ctx.wake.set()
        self._thread.start()

    def stop(self) -> None:
        """Take no further step; waits for the running one, at most STOP_LIMIT_S."""
        self._stopping.set()
        self._ctx.wake.set()
        self._thread.join(STOP_LIMIT_S)

    def step(self) -> None:
        """One round: the cluster, then every controller. Without a cluster nothing can be compared."""
        try:
            if self._ctx.cluster.ensure():
                log.info("a new cluster head was started")
        except Exception:
            log.exception("the cluster cannot be reached")
            return
        for controller in self._controllers:
            self._tick(controller)

    def _tick(self, controller: Controller) -> None:
        try:
            controller.tick()
        except ClusterLostError as lost:
            log.warning("the cluster was lost during a step", controller=type(controller).__name__, reason=str(lost))
        except Exception:
            log.exception("a step failed", controller=type(controller).__name__)

    def _run(self) -> None:
        while True:
            self._ctx.wake.wait(self._ctx.settings.tick_s)
            if self._stopping.is_set():
                return
            self._ctx.wake.clear()
            self.step()
