"""The robot's own log, one JSON object a line: what it was told, what it did, what happened. Kept whoever else dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller import Controller
    from scene import Scene


class Journal:
    """Writes a log; every line is in the file once its call returned. `at` is the machine's monotonic clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", buffering=1)

    def state(self, at: float, scene: Scene, controller: Controller) -> None:
        """What is so: everything's place, the setpoint, the row last taken, the mode."""
        data = scene.data
        self._write(
            {
                "at": at,
                "mode": controller.mode.value,
                "qpos": [round(value, 6) for value in data.qpos.tolist()],
                "mocap": data.mocap_pos.tolist(),
                "opening": round(scene.opening, 6),
                "speed": round(float(abs(data.qvel[:7]).max()), 6),
                "setpoint": [round(value, 6) for value in controller.setpoint.tolist()],
                "target": [round(value, 6) for value in controller.target.tolist()],
            }
        )

    def row(self, at: float, row: list[float]) -> None:
        """A row that was taken."""
        self._write({"at": at, "row": row})

    def event(self, at: float, event: str, why: str) -> None:
        """Something that happened once."""
        self._write({"at": at, "event": event, "why": why})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def __enter__(self) -> Journal:  # noqa: PYI034 - nothing derives from this
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


@dataclass(frozen=True)
class Log:
    """A log as it was read: `states`, `rows` and `events` are its lines, each with `at`, oldest first."""

    states: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def when(self, event: str) -> list[float]:
        """The moments of an event."""
        return [one["at"] for one in self.events if one["event"] == event]


def read_log(path: Path) -> Log:
    """The last episode of a log, from its `begin` on. A line under way is left out."""
    lines = list(_lines(path))
    begins = [number for number, line in enumerate(lines) if line.get("event") == "begin"]
    lines = lines[begins[-1] :] if begins else lines
    return Log(*([line for line in lines if kind in line] for kind in ("qpos", "row", "event")))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
