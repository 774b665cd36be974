"""The log file of a version's build: written line by line, read while it grows."""

from __future__ import annotations

from pathlib import Path

from runner.settings import Settings

READ_BYTES = 200_000
TAIL_LINES = 60


def path_of(settings: Settings, version_id: str) -> Path:
    """Where a version's build is logged."""
    return settings.logs / f"build-{version_id}.log"


def process_path(settings: Settings, name: str) -> Path:
    """Where the output of a named process goes."""
    return settings.logs / f"{name}.log"


class BuildLog:
    """Appends lines; `fresh` starts the file anew, as a build that starts over does."""

    def __init__(self, settings: Settings, version_id: str, *, fresh: bool = False) -> None:
        self._path = path_of(settings, version_id)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            self._path.write_text("")

    def __call__(self, line: str) -> None:
        """One more line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def add_output(self, path: Path) -> str:
        """Add the end of what a process printed; its last line, empty where there is none."""
        lines = [line for line in read(path).splitlines() if line.strip()][-TAIL_LINES:]
        for line in lines:
            self(f"| {line}")
        return lines[-1].strip() if lines else ""


def read(path: Path) -> str:
    """The end of a log file, whole lines; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return text if size <= READ_BYTES else text.partition("\n")[2]
