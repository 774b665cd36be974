"""Warnings that point at the line of the user, whatever the depth of the call inside this package."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.split(".", maxsplit=1)[0]


def warn_caller(text: str) -> None:
    """Emit a UserWarning at the nearest frame outside this package."""
    depth, frame = 1, sys._getframe(0)  # noqa: SLF001  the only way on 3.9; warnings itself walks frames like this
    while frame.f_back is not None and _inside(frame.f_globals.get("__name__", "")):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=depth)


def _inside(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")
