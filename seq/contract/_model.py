"""What every body shares: who may send unknown keys, and how a body is written."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A body whose unknown keys are refused: a key nobody reads would be a setting without effect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def wire(self) -> dict[str, Any]:
        """The body as JSON values, nulls left out."""
        return self.model_dump(mode="json", exclude_none=True)


class Lenient(BaseModel):
    """A body read from clients of several versions: keys this version does not know are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def wire(self) -> dict[str, Any]:
        """The body as JSON values, nulls left out."""
        return self.model_dump(mode="json", exclude_none=True)
