"""How long a worker may take to start, and one inference to answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seq._check import known, whole
from seq.errors import PolicyDefinitionError


@dataclass(frozen=True)
class Timeouts:
    """Whole seconds: `startup` from start to ready, `request` for one inference."""

    startup: int = 1800
    request: int = 300

    def __init__(self, *, startup: int = 1800, request: int = 300) -> None:
        object.__setattr__(self, "startup", whole("startup", startup, PolicyDefinitionError, low=1))
        object.__setattr__(self, "request", whole("request", request, PolicyDefinitionError, low=1))

    @classmethod
    def parse(cls, value: Any) -> Timeouts:
        """None, a `Timeouts`, or a dict of its fields."""
        if isinstance(value, Timeouts):
            return value
        if not isinstance(value, (dict, type(None))):
            raise PolicyDefinitionError(f"timeouts= must be a seq.Timeouts(...) or a dict of its fields, got {value!r}")
        known("timeouts=", value or (), ("startup", "request"), PolicyDefinitionError)
        return cls(**(value or {}))
