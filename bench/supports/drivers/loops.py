"""Plays the bench's tabletop without a platform: in a bare loop, in that loop forked, or in Gymnasium's AsyncVectorEnv.

The policy of all of them is in this process: it waits, and then its answer is the same rows every time. A start is an
episode by its seed. Every command answers with what it took and what each episode came to.

Each process that steps is a session of its own, as every environment of ours is: a system that shares its processors
between sessions first (Linux's autogroup) then treats all alike on a busy machine.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import lines
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from tabletop_state import STEPS, TASK, TabletopState

import seq
from bench.supports.cores import held

Played = tuple[int, int, dict[str, float]]
"""An episode: its seed, its steps and its metrics."""


class Loops:
    """The simulator, set up once: what is forked later has it already."""

    def open(self, rows: list[list[float]], think_s: float) -> int:
        """`rows` is the policy's answer, (n, 8), given after `think_s` seconds."""
        self.rows, self.think_s = np.asarray(rows), think_s
        self.benchmark = TabletopState()
        self.benchmark.setup()
        return os.getpid()

    def alone(self, seeds: list[int], cores: list[int]) -> dict[str, Any]:
        """One after the other."""
        return _timed(lambda: [self._episode(seed) for seed in seeds], cores)

    def forked(self, seeds: list[int], cores: list[int], processes: int) -> dict[str, Any]:
        """Every process its share, each waiting for the policy by itself."""
        return _timed(lambda: self._forked(seeds, processes), cores)

    def vector(self, seeds: list[int], cores: list[int], processes: int) -> dict[str, Any]:
        """All environments step together, and one wait serves them all. Making them is not timed."""
        with held(cores):
            shares = [seeds[number::processes] for number in range(processes)]
            envs = AsyncVectorEnv(
                [lambda share=share: self._env(share) for share in shares],
                autoreset_mode=AutoresetMode.SAME_STEP,  # none of its steps is lost to a reset
            )
            try:
                return _timed(lambda: self._stepped(envs, len(seeds)), cores)
            finally:
                envs.close()

    def _episode(self, seed: int) -> Played:
        env = self.benchmark.reset(seed, seq.Condition(TASK, seed, max_steps=STEPS))
        while True:
            env.observe()
            time.sleep(self.think_s)
            for row in self.rows:
                env.step(row)
                checked = self.benchmark.check(env)
                if checked.done or env.steps == STEPS:
                    return _played(seed, env.steps, checked)

    def _forked(self, seeds: list[int], processes: int) -> list[Played]:
        context = multiprocessing.get_context("fork")
        ends = [context.Pipe(duplex=False) for _ in range(processes)]
        children = [
            context.Process(target=self._share, args=(seeds[number::processes], ends[number][1]))
            for number in range(processes)
        ]
        for child, (_, sender) in zip(children, ends, strict=True):
            child.start()
            sender.close()
        played = [episode for receiver, _ in ends for episode in receiver.recv()]
        for child in children:
            child.join()
        return played

    def _env(self, seeds: Sequence[int]) -> TabletopEnv:
        if multiprocessing.parent_process() is not None:  # the first is made here, to be asked for its spaces
            os.setsid()
        return TabletopEnv(self.benchmark, seeds)

    def _share(self, seeds: Sequence[int], sender: Any) -> None:
        os.setsid()
        sender.send([self._episode(seed) for seed in seeds])

    def _stepped(self, envs: AsyncVectorEnv, count: int) -> list[Played]:
        played: list[Played] = []
        envs.reset()
        while len(played) < count:
            time.sleep(self.think_s)
            for row in self.rows:
                *_, over, capped, info = envs.step(np.tile(row, (envs.num_envs, 1)))
                ended = over | capped
                if ended.any():
                    if not ended.all():
                        raise RuntimeError("the episodes of a batch did not end together: its policy would answer more")
                    played += info["final_info"]["played"].tolist()
                    break
        return played


class TabletopEnv(gymnasium.Env[dict[str, Any], Any]):
    """The tabletop as Gymnasium has it; each reset begins the next of `seeds`, the last one again past the end."""

    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (8,), np.float64)

    def __init__(self, benchmark: TabletopState, seeds: Sequence[int]) -> None:
        self._benchmark, self._seeds = benchmark, list(seeds)
        self._begin(seeds[0])
        self.observation_space = gymnasium.spaces.Dict(
            {
                name: gymnasium.spaces.Box(-np.inf, np.inf, value.shape, np.float64)
                for name, value in self._observed().items()
            }
        )

    def reset(self, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The next start, whatever seed is given."""
        self._begin(self._seeds.pop(0) if len(self._seeds) > 1 else self._seeds[0])
        return self._observed(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """One control step; what the episode came to stands in the last one's info."""
        self._env.step(action)
        checked, capped = self._benchmark.check(self._env), self._env.steps == STEPS
        info = {"played": _played(self._seed, self._env.steps, checked)} if checked.done or capped else {}
        return self._observed(), 0.0, checked.done, capped, info

    def _begin(self, seed: int) -> None:
        self._seed = seed
        self._env = self._benchmark.reset(seed, seq.Condition(TASK, seed, max_steps=STEPS))

    def _observed(self) -> dict[str, Any]:
        return {name: value for name, value in self._env.observe().items() if isinstance(value, np.ndarray)}


def _played(seed: int, steps: int, checked: seq.Step) -> Played:
    return seed, steps, dict(checked.metrics)


def _timed(play: Callable[[], list[Played]], cores: Sequence[int]) -> dict[str, Any]:
    with held(cores):
        begun = time.perf_counter()
        episodes = play()
        return {"s": time.perf_counter() - begun, "episodes": episodes}


if __name__ == "__main__":
    loops = Loops()
    lines.serve({name: getattr(loops, name) for name in ("open", "alone", "forked", "vector")})
