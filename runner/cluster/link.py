"""The gateway's end of the conversation with Ray's driver process."""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from runner.cluster.base import ClusterLostError

MODULE = "runner.cluster.driver"


class DriverLink:
    """A driver process and the calls in flight to it. Once it has ended, or was ended, every call is lost."""

    def __init__(self, env: dict[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=env
            )
        self._ids = itertools.count()
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._ended = False
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="driver answers", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The driver's process."""
        return self._process.pid

    def call(self, name: str, limit_s: float, /, **args: Any) -> Any:
        """The answer to one call.

        Raises ClusterLostError past the limit or when the driver has ended, ValueError for a name that is taken,
        OSError for a command that cannot be started.
        """
        number, answers = next(self._ids), queue.SimpleQueue[dict[str, Any] | None]()
        self._send(number, answers, {"id": number, "call": name, "args": args})
        try:
            answer = answers.get(timeout=limit_s)
        except queue.Empty:
            raise ClusterLostError(f"Ray did not answer {name} within {limit_s:g} s") from None
        finally:
            self._waiting.pop(number, None)
        if answer is None:
            raise ClusterLostError(f"Ray ended its driver during {name}")
        return _value(answer)

    def end(self) -> None:
        """Kill the driver; what it launched lives on."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        with self._lock:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None and not pipe.closed:
                    _close(pipe)

    def _send(self, number: int, answers: queue.SimpleQueue[dict[str, Any] | None], request: dict[str, Any]) -> None:
        with self._lock:
            if self._ended or self._process.stdin is None:
                raise ClusterLostError("Ray has ended its driver")
            self._waiting[number] = answers
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            except OSError as gone:
                self._waiting.pop(number)
                raise ClusterLostError(f"Ray has ended its driver: {gone}") from None

    def _read(self) -> None:
        for line in self._process.stdout or ():
            answer = json.loads(line)
            if (answers := self._waiting.get(answer["id"])) is not None:
                answers.put(answer)
        with self._lock:
            self._ended = True
            for answers in self._waiting.values():
                answers.put(None)


def _value(answer: dict[str, Any]) -> Any:
    match answer.get("failed"):
        case None:
            return answer["value"]
        case "taken":
            raise ValueError("that name lives already; a name is launched once")
        case "os":
            raise OSError(answer["text"])
        case _:
            raise ClusterLostError(answer["text"])


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:  # what was still to be written has nobody to read it
        return
