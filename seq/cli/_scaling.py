"""How a deployment grows and shrinks, as flags say it and as a person reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sequence_ai import InvalidRequest

NO_LIMIT = "none"


@dataclass(frozen=True)
class Knob:
    """A setting by the wire's name, what it means, and what it may be: the least, the most, and what no number says."""

    name: str
    meaning: str
    least: int = 0
    most: int | None = None
    also: str = ""

    def refusal(self, flag: str, value: object) -> InvalidRequest:
        """The error for what it may not be."""
        span = f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"
        return InvalidRequest(f"{flag} {value}: give {span}{self.also}", code="invalid_request")


KNOBS = {
    "--min": Knob("min_workers", "Workers that run with no robot connected.", 0, 256),
    "--buffer": Knob("buffer_workers", "Spare workers while robots are connected.", 0, 256),
    "--max-gpus": Knob("max_gpus", f"Cards it holds at most; {NO_LIMIT}: no limit.", 1, 256, f", or {NO_LIMIT}"),
    "--idle-timeout": Knob("idle_timeout", "Seconds that an idle worker stays.", 1),
    "--on-full": Knob("on_full", "What a robot gets that finds every slot taken."),
    "--queue-timeout": Knob("queue_timeout_s", "Seconds that a robot waits in line at most.", 5, 3600),
}


class OnFull(str, Enum):
    """What a robot gets that finds every slot taken."""

    queue = "queue"
    reject = "reject"


def knobs(given: Mapping[str, Any], max_gpus: str | None) -> dict[str, Any]:
    """What to send for the flags that were `given`; None is a flag that was not. Raises InvalidRequest."""
    return {KNOBS[flag].name: _within(flag, value) for flag, value in given.items() if value is not None} | (
        {} if max_gpus is None else {"max_gpus": _cards(max_gpus)}
    )


def idle(new: int | None, old: int | None) -> int | None:
    """The one of `--idle-timeout` and its old name that was given."""
    if new is not None and old is not None:
        raise InvalidRequest(
            "--scaledown is the old name of --idle-timeout: give only --idle-timeout", code="invalid_request"
        )
    return old if new is None else new


def refuse_unbuilt(given: Mapping[str, object]) -> None:
    """Raises InvalidRequest on flags that this platform has nothing for yet."""
    flags = ", ".join(flag for flag, value in given.items() if value not in (None, False))
    if flags:
        raise InvalidRequest(
            f"{flags}: warm schedules and rotation are not on this platform yet, so nothing was changed",
            code="invalid_request",
        )


def scaling_rows(block: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Each flag, what stands and what it means; a setting that the platform does not name is left out."""
    return [
        (flag, NO_LIMIT if block[knob.name] is None else block[knob.name], knob.meaning)
        for flag, knob in KNOBS.items()
        if knob.name in block
    ]


def _within(flag: str, value: Any) -> Any:
    if isinstance(value, OnFull):
        return value.value
    knob = KNOBS[flag]
    if value < knob.least or (knob.most is not None and value > knob.most):
        raise knob.refusal(flag, value)
    return value


def _cards(text: str) -> int | None:
    if text == NO_LIMIT:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text):
        raise KNOBS["--max-gpus"].refusal("--max-gpus", text)
    return int(_within("--max-gpus", int(text)))
