"""Everything one run of the bench measured, as one file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.machine import Machine
from bench.rows import Promise, Row


@dataclass(frozen=True)
class Measured:
    """One subject's rows, what they are held to, what the subject is, and how long it took."""

    subject: str
    about: str
    rows: Sequence[Row]
    promises: Sequence[Promise]
    wall_s: float

    def missed(self) -> list[str]:
        """A sentence for each promise that is not kept."""
        told = (promise.missed(self.rows) for promise in self.promises)
        return [f"{self.subject}: {sentence}" for sentence in told if sentence is not None]


@dataclass(frozen=True)
class Results:
    """All subjects of one run, where and when."""

    date: str
    machine: Machine
    versions: Mapping[str, str]
    seed: int
    subjects: Sequence[Measured]

    @property
    def where(self) -> str:
        """Date and machine, as a title."""
        return f"{self.date}, {self.machine}"

    def missed(self) -> list[str]:
        """A sentence for each promise of any subject that is not kept."""
        return [sentence for measured in self.subjects for sentence in measured.missed()]

    def write(self, path: Path) -> None:
        """As JSON; subjects by name."""
        told: dict[str, Any] = asdict(self)
        told["subjects"] = {measured.pop("subject"): measured for measured in told["subjects"]}
        told["missed"] = self.missed()
        path.write_text(json.dumps(told, indent=1) + "\n")
