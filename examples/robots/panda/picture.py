"""The picture of a run: what the joints were told and what they did, with everything that interrupted them marked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from journal import Log

if TYPE_CHECKING:
    from drive import Story
    from matplotlib.axes import Axes

mpl.use("Agg")

from matplotlib import pyplot as plt

MODES = {"watchdog": "#f5a623", "estop": "#d0021b", "holding": "#9b9b9b"}
MARKS = {"hold": ("black", "hold"), "success": ("#417505", "task done"), "estop": ("#d0021b", "e-stop pressed")}
NAMES = [*(f"joint {number} (rad)" for number in range(1, 8)), "gripper (m)"]


def draw(log: Log, story: Story, path: Path, *, title: str) -> None:
    """Write a PNG: one panel a joint and one for the gripper, over the time since the task began, in seconds."""
    began = log.states[0]["at"]
    figure, panels = plt.subplots(4, 2, figsize=(16, 13), sharex=True, layout="constrained")
    times = np.array([state["at"] for state in log.states]) - began
    for number, panel in enumerate(panels.T.flat):
        _lines(panel, log, times, began, number)
        _marks(panel, log, story, times, began)
        panel.set_ylabel(NAMES[number])
        panel.grid(alpha=0.2)
    for panel in panels[-1]:
        panel.set_xlabel("s since the task began")
    seen = {text: line for panel in panels.flat for line, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(seen.values(), seen.keys(), loc="outside lower center", ncols=5)
    figure.suptitle(title, fontsize=10, wrap=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _lines(panel: Axes, log: Log, times: np.ndarray, began: float, number: int) -> None:
    rows = np.array([[row["at"] - began, row["row"][number]] for row in log.rows]).reshape(-1, 2)
    panel.plot(rows[:, 0], rows[:, 1], ".", color="#4a90e2", markersize=4, label="commanded rows")
    setpoints = [state["setpoint"][number] for state in log.states]
    panel.plot(times, setpoints, color="#4a90e2", linewidth=0.8, label="setpoint of the motors")
    measured = [[*state["qpos"][:7], state["opening"]][number] for state in log.states]
    panel.plot(times, measured, color="#d0451b", linewidth=1.2, label="measured")


def _marks(panel: Axes, log: Log, story: Story, times: np.ndarray, began: float) -> None:
    for at in story.chunks[1:]:
        panel.axvline(at - began, color="#7b5cd6", linewidth=0.6, alpha=0.6, label="seam: next chunk")
    for at, seconds in story.underruns:
        panel.axvspan(at - began - seconds, at - began, color="#7b5cd6", alpha=0.12, label="underrun: nothing to play")
    for mode, (start, end) in _stretches(log.states, times):
        if mode in MODES:
            label = {"watchdog": "watchdog stopped the arm", "estop": "emergency stop", "holding": "holding"}[mode]
            panel.axvspan(start, end, ymax=0.06, color=MODES[mode], alpha=0.9, label=label)
    for event, (colour, label) in MARKS.items():
        for at in log.when(event):
            panel.axvline(at - began, color=colour, linewidth=1.2, linestyle="--", label=label)


def _stretches(states: list[dict[str, Any]], times: np.ndarray) -> list[tuple[str, tuple[float, float]]]:
    """For how long the arm was in which mode, in order."""
    found: list[tuple[str, tuple[float, float]]] = []
    for state, time in zip(states, times.tolist(), strict=True):
        if found and found[-1][0] == state["mode"]:
            found[-1] = (state["mode"], (found[-1][1][0], time))
        else:
            found.append((state["mode"], (time, time)))
    return found
