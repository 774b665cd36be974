"""Writing to a path that the user named: what the system refuses becomes one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sequence_ai import InvalidRequest

_REASONS: tuple[tuple[type[OSError], str], ...] = (
    (FileNotFoundError, "no such folder"),
    (IsADirectoryError, "it is a folder"),
    (FileExistsError, "it is a file"),
    (NotADirectoryError, "what it should lie in is a file"),
    (PermissionError, "no permission"),
)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises InvalidRequest, naming `path` and the reason, on an OSError inside."""
    try:
        yield
    except OSError as wrong:
        reason = next((reason for kind, reason in _REASONS if isinstance(wrong, kind)), wrong.strerror or str(wrong))
        raise InvalidRequest(f"cannot write {path}: {reason}", code="invalid_request") from wrong


def check_writable(path: Path) -> None:
    """Raises as `writing` does when a file at `path` could not be written; touches nothing."""
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError
        if not path.parent.is_dir():
            raise FileNotFoundError
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError


def check_folder(folder: Path) -> None:
    """Raises as `writing` does when files could not be written into `folder`; makes and touches nothing."""
    with writing(folder):
        if folder.exists() and not folder.is_dir():
            raise FileExistsError
        there = next(part for part in (folder, *folder.absolute().parents) if part.exists())
        if not there.is_dir():
            raise NotADirectoryError
        if not os.access(there, os.W_OK):
            raise PermissionError
