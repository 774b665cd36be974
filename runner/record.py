"""`platform.json`: where a platform listens, what was declared at its start, and which process it is while it runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil

from runner.settings import Settings
from sequence_ai import __version__

KEPT = ("url", "host", "port", "gpus_per_account")
"""What the next start goes on with; the rest is of one run alone."""


def previous(home: Path) -> dict[str, Any]:
    """What was last noted; empty where there is nothing to read. A `pid` in it is of a platform that was killed."""
    try:
        found = json.loads((home / "platform.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def note_running(settings: Settings, instance: str, *, secure: bool) -> None:
    """This process is the platform of its home."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{'https' if secure else 'http'}://{host}:{settings.port}"
    process = psutil.Process()
    _write(
        settings.home,
        {
            "url": url,
            "host": settings.host,
            "port": settings.port,
            "gpus_per_account": settings.gpus_per_account,
            "pretend": dict(settings.pretend),
            "pid": process.pid,
            "pid_started": process.create_time(),
            "version": __version__,
            "instance": instance,
        },
    )


def note_stopped(settings: Settings) -> None:
    """The platform has ended as it should."""
    _write(settings.home, {key: value for key, value in previous(settings.home).items() if key in KEPT})


def write_private(path: Path, text: str) -> None:
    """A new file for its owner alone; raises FileExistsError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _write(home: Path, record: dict[str, Any]) -> None:
    part = home / "platform.json.part"
    part.unlink(missing_ok=True)
    write_private(part, json.dumps(record))
    part.replace(home / "platform.json")
