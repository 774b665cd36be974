"""Episodes for the drivers of one instance, leased from the gateway a few at a time."""

from __future__ import annotations

import threading
import time
from collections import deque

import psutil

from runner.engine.gateway import Gateway
from seq.contract.internal import LeaseAnswer, LeasedEpisode, LeaseRequest

_ASK_AGAIN_S = 1.0
AHEAD_S = 1.0
"""While there is plenty, as many are leased beforehand as were taken in this time, so that short ones ask seldom."""


class GatewayLeases:
    """Thread-safe. `pids` collects the environment processes that were started; the living are told with every call."""

    def __init__(self, gateway: Gateway, stop: threading.Event) -> None:
        self._gateway = gateway
        self._stop = stop
        self._none_before = 0.0
        self._asking = threading.Lock()
        self._number = 0
        self._stock: deque[LeasedEpisode] = deque()
        self._taken: deque[float] = deque()
        self._ample = False
        self.pids: set[int] = set()

    @property
    def ample(self) -> bool:
        """Whether, as the gateway last said, more wait than all environments of the arm can begin."""
        return self._ample

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode]:
        """Up to `free` episodes. With `wait`, the empty list means that the eval has nothing left to lease.

        An eval with leased but unfinished episodes is not drained: one of them may come back.
        """
        while free and not self._stop.is_set():
            with self._asking:
                if len(self._stock) < free and (wait or time.monotonic() >= self._none_before):
                    answer = self._ask_numbered(free - len(self._stock) + self._beforehand())
                    self._stock += answer.episodes
                    self._ample = answer.ample
                    if not answer.episodes:
                        self._none_before = time.monotonic() + _ASK_AGAIN_S
                    if not self._stock and (answer.drained or answer.stop):
                        return []
                given = [self._stock.popleft() for _ in range(min(free, len(self._stock)))]
                self._taken += [time.monotonic()] * len(given)
            if given or not wait:
                return given
            self._stop.wait(_ASK_AGAIN_S)
        return []

    def give_back(self, episodes: list[LeasedEpisode], reason: str) -> None:
        """Episodes that must run again."""
        self._gateway.requeue([(episode.condition.index, episode.attempt) for episode in episodes], reason)

    def beat(self) -> bool:
        """Tell that this instance lives; whether it must stop."""
        return self._ask(0).stop

    def _beforehand(self) -> int:
        since = time.monotonic() - AHEAD_S
        while self._taken and self._taken[0] < since:
            self._taken.popleft()
        return len(self._taken) if self._ample else 0

    def _ask_numbered(self, free: int) -> LeaseAnswer:
        # One at a time: the gateway remembers the answer to the last number alone.
        self._number += 1
        return self._ask(free, self._number)

    def _ask(self, free: int, number: int = 0) -> LeaseAnswer:
        living = sorted(pid for pid in list(self.pids) if psutil.pid_exists(pid))
        return self._gateway.lease(LeaseRequest(free=free, number=number, pids=living))
