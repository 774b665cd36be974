"""panda-tabletop with its cameras left out: one task, many starts, episodes that all last `STEPS` control steps.

The file is run beside a copy of the shipped one, `panda_tabletop.py`, and `tabletop_values.py`: how many steps and
starts there are, and the folder where each episode notes when its first and its last step were done, whoever plays it.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import panda_tabletop as shipped
from tabletop_values import NOTES, STARTS, STEPS

import seq
from seq.benchmark import declaration_of

TASK = "push"
DECLARED = declaration_of(shipped.PandaTabletop)


@dataclass
class Episode(shipped.Episode):
    """One episode of the shipped benchmark, which knows its number of steps."""

    seed: int = -1
    steps: int = 0
    first: float = 0.0

    def observe(self) -> dict[str, Any]:
        """Everything but the frames."""
        return {name: value for name, value in super().observe().items() if value is not None}

    def step(self, action: Any) -> None:
        """The shipped one's; the first and the last are noted, in seconds of the machine's monotonic clock."""
        super().step(action)
        self.steps += 1
        if self.steps == 1:
            self.first = time.monotonic()
        if self.steps == STEPS:
            self._note({"seed": self.seed, "first": self.first, "last": time.monotonic()})

    def _note(self, line: dict[str, float]) -> None:
        with Path(NOTES, str(os.getpid())).open("a", encoding="utf-8") as notes:
            notes.write(json.dumps(line) + "\n")


@seq.benchmark(
    name="tabletop-state",
    gpu="cpu",
    cpu=1,
    image=DECLARED.image.uv_pip_install("gymnasium==1.4.0").add_local_python_source(
        "panda_tabletop", "tabletop_values"
    ),
    conditions=seq.conditions([TASK], range(STARTS)),
    max_steps=STEPS,
    action_contract=DECLARED.action_contract,
)
class TabletopState(shipped.PandaTabletop):
    """The shipped scene, rules and physics; nothing is drawn."""

    @seq.reset
    def reset(self, seed: int, variant: seq.Condition) -> Episode:
        """The shipped start."""
        return Episode(**vars(super().reset(seed, variant)), seed=seed)

    def _draw(self, data: Any, camera: str, size: int) -> None:
        """No frame."""
