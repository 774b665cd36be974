"""The arm's own controller: rows of a policy in, one setpoint every millisecond out. Pure: time is an argument.

It trusts nobody. A row is brought to the joints' bounds and followed no faster than their speeds; when rows cease, the
arm is stopped by the watchdog; an emergency stop latches until it is reset by hand. Every stop ramps the speed down and
then holds the place: the motors keep their torque, and the gripper its grip.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

JOINT_SPEEDS = (2.17, 2.17, 2.17, 2.17, 2.6, 2.6, 2.6)  # rad/s, the robot's data sheet


class Mode(str, enum.Enum):
    """What the arm is doing; the values are what is logged and sent."""

    HOLDING = "holding"  # stands still because it was told to, or was never told anything
    MOVING = "moving"  # follows rows
    WATCHDOG = "watchdog"  # stands still because rows ceased; the next row moves it again
    ESTOP = "estop"  # stands still until reset by hand, whatever is sent


class RefusedError(Exception):
    """A command that the arm does not follow; the message says why."""


@dataclass(frozen=True)
class Limits:
    """Lowest and highest value of each number of a row (8,), and the joints' speeds (7,) in rad/s."""

    low: Vector
    high: Vector
    speeds: Vector


def limits(bounds: Sequence[tuple[float, float]], speeds: Sequence[float] = JOINT_SPEEDS) -> Limits:
    """Limits from `(lowest, highest)` of seven joints (rad) and the gripper's opening (m)."""
    low, high = np.transpose(np.asarray(bounds, dtype=float))
    return Limits(low, high, np.asarray(speeds, dtype=float))


class Controller:
    """Turns rows (8,), seven joint targets and the gripper's opening, into setpoints.

    Between two rows the setpoint glides, so that a row is reached one control period after it came. `told` is called
    with `(event, detail)` at each change of mode.
    """

    def __init__(
        self,
        start: Sequence[float],
        bounds: Limits,
        *,
        period_s: float,
        watchdog_s: float,
        ramp_s: float = 0.15,
        told: Callable[[str, str], None] = lambda _event, _detail: None,
    ) -> None:
        self.mode = Mode.HOLDING
        self.why = "no command yet"
        self.target: Vector = np.asarray(start, dtype=float)
        self.watchdog_s = watchdog_s
        self._limits = bounds
        self._period_s = period_s
        self._ramp_s = ramp_s
        self._told = told
        self._setpoint: Vector = self.target.copy()
        self._velocity: Vector = np.zeros(7)
        self._left_s = 0.0  # of a glide to the target, or of a ramp down
        self._last_command = -np.inf

    @property
    def setpoint(self) -> Vector:
        """Where the motors are told to be now (8,)."""
        return self._setpoint

    @property
    def speed(self) -> float:
        """The fastest joint's setpoint speed, rad/s."""
        return float(abs(self._velocity).max())

    def command(self, row: Sequence[float], now: float) -> None:
        """Follow one row from now on; raises RefusedError when it is no row or the emergency stop is in."""
        if self.mode is Mode.ESTOP:
            raise RefusedError(f"emergency stop: {self.why}; reset it at the robot")
        wanted = np.asarray(row, dtype=float)
        if wanted.shape != (8,) or not np.isfinite(wanted).all():
            raise RefusedError(f"a row must be 8 finite numbers, got {list(row)}")
        self.target = wanted.clip(self._limits.low, self._limits.high)
        way = self.target[:7] - self._setpoint[:7]
        self._left_s = max(self._period_s, float((abs(way) / self._limits.speeds).max()))
        self._velocity = way / self._left_s
        self._setpoint[7] = self.target[7]
        self._last_command = now
        self._change(Mode.MOVING, "")

    def hold(self) -> None:
        """Stop and stay. An emergency stop stays one."""
        if self.mode is not Mode.ESTOP:
            self._stop(Mode.HOLDING, "told to hold")

    def estop(self, why: str) -> None:
        """Stop and stay, until `reset`."""
        self._stop(Mode.ESTOP, why)

    def reset(self) -> None:
        """Let go of an emergency stop; the arm stays where it is until the next row."""
        if self.mode is Mode.ESTOP:
            self._change(Mode.HOLDING, "emergency stop reset")

    def tick(self, seconds: float, now: float) -> Vector:
        """The setpoint (8,) `seconds` later, at the time `now`."""
        if self.mode is Mode.MOVING and now - self._last_command > self.watchdog_s:
            self._stop(Mode.WATCHDOG, f"no row for {self.watchdog_s:g} s")
        if self._left_s > 0:
            self._advance(min(seconds, self._left_s))
        return self._setpoint

    def _advance(self, seconds: float) -> None:
        if self.mode is not Mode.MOVING:
            self._velocity *= max(0.0, 1 - seconds / self._left_s)
        place = self._setpoint[:7] + self._velocity * seconds
        self._setpoint[:7] = place.clip(self._limits.low[:7], self._limits.high[:7])
        self._left_s -= seconds
        if self._left_s <= 1e-9:
            self._left_s = 0.0
            self._velocity = np.zeros(7)

    def _stop(self, mode: Mode, why: str) -> None:
        if self._left_s > 0:
            self._left_s = self._ramp_s
        self._change(mode, why)

    def _change(self, mode: Mode, why: str) -> None:
        if mode is not self.mode:
            self.mode, self.why = mode, why
            self._told(mode.value, why)
