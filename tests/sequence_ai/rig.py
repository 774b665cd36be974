"""A robot, a policy and a network whose delays a test sets: on a clock moved by hand, and the same on real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import sequence_ai
from sequence_ai.testing import FakePlatform, chunk

HZ = 20.0
ROWS = 4


class Rig:
    """The policy answers request n (from 1) with the rows [n, 0], [n, 1], ...; `log` holds the robot's events in order.

    `delay_s` is what an answer takes, by the number of its request from 1 on; `delays` holds those that differ.
    """

    def __init__(self, *, real: bool, delay_s: float = 0.1, rows: int = ROWS, hz: float = HZ) -> None:
        self.real = real
        self.delay_s = delay_s
        self.delays: dict[int, float] = {}
        self.rows, self.hz = rows, hz
        self.horizon: int | None = None
        self.log: list[tuple[str, Any]] = []
        self.times: list[float] = []
        self.threads: set[int] = set()
        self.observed = 0
        self.platform = FakePlatform(infer=self._infer)
        self.kwargs: dict[str, Any] = {}
        self._answered = 0

    @property
    def now(self) -> float:
        return time.monotonic() if self.real else self.platform.clock.now

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Do `work` from elsewhere, `seconds` from now."""
        if self.real:
            threading.Timer(seconds, work).start()
        else:
            self.platform.clock.at(self.platform.clock.now + seconds, work)

    def spend(self, seconds: float) -> None:
        """Take that long inside a callback."""
        if self.real:
            time.sleep(seconds)
        else:
            self.platform.clock.move(seconds)

    def events(self, *kinds: str) -> list[Any]:
        """What was logged of these kinds, or all of it."""
        return [event for event in self.log if not kinds or event[0] in kinds]

    @property
    def played(self) -> list[list[float]]:
        return [row for _, row in self.events("act")]

    def acts(self) -> list[Any]:
        """The bodies of the acts that the worker got."""
        return [sent.body for sent in self.platform.to("/act")]

    def observe(self) -> sequence_ai.Observation:
        self.observed += 1
        self.threads.add(threading.get_ident())
        self.log.append(("observe", self.observed))
        if not self.real:  # the request that follows is begun at once
            self.platform.clock.lag_s = self.delays.get(self.observed, self.delay_s)
        return sequence_ai.observation(images={}, joints=[float(self.observed)], instruction="seen")

    def act(self, row: list[float]) -> None:
        self.times.append(self.now)
        self.log.append(("act", row))

    def hold(self) -> None:
        self.log.append(("hold", None))

    def replace_worker(self) -> None:
        """From now on another worker serves: the one that was connected to refuses its secret."""
        connect = self.platform.connect
        self.platform.connect = {**connect, "direct_secret": "new", "lease": {"ttl_s": 300, "epoch": 2}}

    def run(self, policy: sequence_ai.Policy, **kwargs: Any) -> sequence_ai.RunOutcome:
        """`policy.run` of this robot; keywords replace its own."""
        mine = {"max_actions": 8, "validate": lambda row: True, "hold": self.hold, "progress": False, **self.kwargs}
        return policy.run(kwargs.pop("observe", self.observe), kwargs.pop("act", self.act), **{**mine, **kwargs})

    @contextmanager
    def connected(self, **options: Any) -> Iterator[sequence_ai.Policy]:
        """A handle on the policy."""
        with ExitStack() as stack:
            url = self.platform.url
            if self.real:
                url = stack.enter_context(self.platform.served()).url
                self.platform.connect["worker_url"] = stack.enter_context(self.platform.served()).url
            else:
                stack.enter_context(self.platform.in_place())
            handle = sequence_ai.connect("toy", base_url=url, api_key=self.platform.key, **options)
            yield stack.enter_context(handle)

    def _infer(self, body: Any) -> dict[str, Any]:
        number = int(body["observation"]["proprioception"]["joint_positions"][0])
        if self.real:
            time.sleep(self.delays.get(number, self.delay_s))
        rows = [[float(number), float(index)] for index in range(self.rows)]
        return {"action_chunk": chunk(rows, horizon=self.horizon, hz=self.hz)}
