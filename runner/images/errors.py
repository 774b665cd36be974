"""How making an environment fails."""

from __future__ import annotations


class BuildError(Exception):
    """A sentence for the author: which step failed and what it said."""
