"""A parameter one side of an eval (or a robot) may set: its type and its default."""

from __future__ import annotations

from typing import Literal

from seq.contract._model import Strict

Scalar = bool | int | float | str


class InferParam(Strict):
    """A keyword with a default, as declared by `@seq.infer`, an adapter's `__init__` or a benchmark's `@seq.setup`."""

    type: Literal["int", "float", "bool", "str"]
    default: Scalar | None = None
    min: float | None = None
    max: float | None = None
    choices: list[str] | None = None
