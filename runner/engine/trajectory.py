"""What an episode saw and did, one JSON line an act, gzipped; whole or not there at all."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.engine.bridge import Rows

NAME = "trajectory.jsonl.gz"
_GZIP, _FAST = 31, 1


@dataclass
class _Act:
    """One act; `written` is what is known once the policy is asked, as the beginning of its line."""

    number: int
    seed: int
    step: int
    observation: Any
    written: str | None = None
    actions: Rows | None = None

    def write(self) -> None:
        """An environment may change the arrays of its observation in place, so they are not kept."""
        if self.written is None:
            told = {"act": self.number, "seed": self.seed, "step": self.step, "observation": self.observation}
            self.written, self.observation = _WRITER.encode(told)[:-1], None

    def line(self) -> str:
        self.write()
        rows = "" if self.actions is None else f',"actions":{_WRITER.encode(self.actions)}'
        return f"{self.written}{rows}}}\n"


class Trajectory:
    """Collects the acts of one episode; no file appears before `finish`.

    A line is `{act, seed, step, observation, actions}`: the act's number and seed, the control step at which the policy
    was asked, what it was sent (images left out), and the rows that were played, (rows, dim), which an act that was
    never answered lacks. The last line is `{end: {steps, terminated, truncated, timed_out, metrics}}`. Writing is done
    where `pack` is called, which is while the policy thinks.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._packer = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
        self._packed: list[bytes] = []
        self._acts: list[_Act] = []

    def asked(self, act: int, seed: int, step: int, observation: Any) -> None:
        """The policy is asked; `observation` is what it is sent, and may change once the environment steps."""
        self._acts.append(_Act(act, seed, step, observation))

    def answered(self, rows: Rows) -> None:
        """The rows that are to be played, (rows, dim) float64."""
        self._acts[-1].write()
        self._acts[-1].actions = rows

    def played(self, steps: int) -> None:
        """So many control steps were made in all: what was left of the last rows was not played."""
        last = self._acts[-1] if self._acts else None
        if last is not None and last.actions is not None:
            last.actions = last.actions[: steps - last.step]

    def pack(self) -> None:
        """Write down what is known; an act's line is whole once its rows are."""
        for act in self._acts:
            act.write()
        ready = [act for act in self._acts if act.actions is not None]
        if ready:
            self._acts = [act for act in self._acts if act.actions is None]
            self._add(act.line() for act in ready)

    def finish(self, end: dict[str, Any]) -> None:
        """The episode is over: the file appears. Raises OSError."""
        self._add([*(act.line() for act in self._acts), _WRITER.encode({"end": end}) + "\n"])
        self._packed.append(self._packer.flush())
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        try:
            part.write_bytes(b"".join(self._packed))
            part.replace(self._path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def _add(self, lines: Iterable[str]) -> None:
        self._packed.append(self._packer.compress("".join(lines).encode()))


def without_images(body: Any) -> Any:
    """What an act sent, but for its frames: those belong into a recording."""
    if isinstance(body, dict):
        return {key: without_images(value) for key, value in body.items() if key != "images"}
    if hasattr(body, "ndim") and body.ndim >= 3:
        return {"array": list(body.shape), "dtype": str(body.dtype)}
    return body


def _plain(value: Any) -> Any:
    """Arrays and numbers of numpy's as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written into a trajectory")


_WRITER = json.JSONEncoder(default=_plain, separators=(",", ":"))
