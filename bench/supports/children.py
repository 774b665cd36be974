"""A driver in a process of its own, asked over its standard input."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

DRIVERS = Path(__file__).parent / "drivers"
END_LIMIT_S = 10


class Child:
    """One driver under one Python. `ask` waits for its answer; `tell` and `answer` are the two halves of it."""

    def __init__(self, python: str, driver: str, log: Path, path: str | None = None, **variables: str) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        env = {**kept, **variables} if path is None else {**kept, **variables, "PYTHONPATH": path}
        self._log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [python, str(DRIVERS / f"{driver}.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=env,
                cwd=log.parent,
            )

    def ask(self, command: str, **arguments: Any) -> Any:
        """The answer to one command; raises RuntimeError with the driver's own trace."""
        self.tell(command, **arguments)
        return self.answer()

    def tell(self, command: str, **arguments: Any) -> None:
        """Start a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """The answer to the command started last."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the driver ended:\n{self._log.read_text()[-4000:]}")
        told = json.loads(line)
        if "error" in told:
            raise RuntimeError(f"the driver failed:\n{told['error']}")
        return told["value"]

    def end(self) -> None:
        """End it: by its input's end, else by force."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
