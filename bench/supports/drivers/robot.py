"""Drives a policy through whichever `sequence_ai` this environment has, ours or the published: the same calls."""

import base64
import json
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import lines

import sequence_ai

warnings.simplefilter("ignore")
now = time.perf_counter


class Robot:
    """The observations of one folder, and the handles opened so far by the deployment's name."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, Any]] = {}
        self.handles: dict[str, Any] = {}

    def open(self, model: str, observations: str, control_hz: Any = None, **address: str) -> str:
        """Connect; the first act makes the connection, so that none is timed."""
        for name, parts in json.loads(Path(observations).read_text()).items():
            frames = {view: base64.b64decode(data) for view, data in parts.pop("frames").items()}
            self.parts[name] = {**parts, "images": frames}
        self.handles[model] = sequence_ai.connect(model, control_hz=control_hz, **address)
        return sequence_ai.__version__

    def observation(self, size: str) -> Any:
        """A new one, as a robot makes it: JPEG bytes in, what the client makes of them out."""
        return sequence_ai.observation(**self.parts[size])

    def predict(self, model: str, size: str, calls: int) -> dict[str, list[float]]:
        """Milliseconds of each call, of making its observation before it, and of the worker's own part of it."""
        took: dict[str, list[float]] = {"ms": [], "observation_ms": [], "worker_overhead_ms": []}
        for _ in range(calls):
            began = now()
            observation = self.observation(size)
            asked = now()
            answer = self.handles[model].predict(observation)
            took["ms"].append((now() - asked) * 1000)
            took["observation_ms"].append((asked - began) * 1000)
            took["worker_overhead_ms"].append(answer.perf["overhead_ms"])
        return took

    def acts(self, model: str, size: str, calls: int) -> int:
        """The same calls with nothing kept."""
        for _ in range(calls):
            self.handles[model].predict(self.observation(size))
        return calls

    def run(self, model: str, size: str, max_actions: int, params: Any = None) -> dict[str, Any]:
        """A bounded run: when each act began, and what the client counted."""
        begun: list[float] = []
        outcome = self.handles[model].run(
            lambda: self.observation(size),
            lambda _row: begun.append(now()),
            max_actions=max_actions,
            validate=lambda _row: True,
            progress=False,
            params=params,
        )
        return {"act_s": begun, "underruns": outcome.underruns, "underrun_s": outcome.underrun_s}

    def interrupted(self, model: str, size: str, stage: str, delay_s: float, params: Any) -> dict[str, float]:
        """A run that is interrupted `delay_s` after its first act ("playing") or its first observe ("blocked").

        Answers with milliseconds from the call of `interrupt` to the last act's begin (0: none came) and to `hold`.
        """
        acts: list[float] = []
        seen: dict[str, float] = {}
        policy = self.handles[model]

        def interrupt() -> None:
            seen["interrupt"] = now()
            policy.interrupt()

        timer = threading.Timer(delay_s, interrupt)
        start = {"playing": "act", "blocked": "observe"}[stage]

        def at(event: str) -> None:
            if event == start and "started" not in seen:
                seen["started"] = now()
                timer.start()

        def observe() -> Any:
            at("observe")
            return self.observation(size)

        def act(_row: Any) -> None:
            acts.append(now())
            at("act")

        outcome = policy.run(
            observe,
            act,
            max_actions=100_000,
            validate=lambda _row: True,
            hold=lambda: seen.setdefault("hold", now()),
            progress=False,
            params=params,
        )
        timer.join()
        if outcome.reason != "interrupted":
            raise RuntimeError(f"the run ended by {outcome.reason}, not by its interrupt")
        last = max(acts[-1] - seen["interrupt"], 0.0) if acts else 0.0
        return {"last_act_ms": last * 1000, "hold_ms": (seen["hold"] - seen["interrupt"]) * 1000}

    def close(self) -> None:
        """Give the slots back."""
        for handle in self.handles.values():
            handle.close()


def main() -> None:
    """Serve until the parent lets go."""
    robot = Robot()
    names = ("open", "predict", "acts", "run", "interrupted", "close")
    lines.serve({name: getattr(robot, name) for name in names})
    sys.exit(0)


if __name__ == "__main__":
    main()
