"""Finished episodes, kept in a local file from the moment they end until the gateway has them."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from seq.contract.internal import EpisodeOutcome

_BATCH = 100
_LINGER_S = 0.5

Send = Callable[[list[EpisodeOutcome]], None]


class Outbox:
    """Appends outcomes to `folder/NAME.jsonl` and sends them in batches from a thread of its own, in order.

    The file goes once all of it was acknowledged and the outbox is closed. A successor sends what a killed instance
    left (`send_leftovers`): the gateway takes an episode once, whoever brings it. A lock on the file tells the living
    from the dead. A disk that is full costs the copy, not the result: it is sent all the same. `on_error` is told once
    when sending failed for good.
    """

    def __init__(self, folder: Path, name: str, send: Send, on_error: Callable[[Exception], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.jsonl"
        self._file = self._path.open("ab")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._send = send
        self._on_error = on_error
        self._waiting: list[EpisodeOutcome] = []
        self._changed = threading.Condition()
        self._closing = False
        self.error: Exception | None = None
        self._sender = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._sender.start()

    def put(self, outcome: EpisodeOutcome) -> None:
        """Keep an outcome; it is on disk when this returns."""
        with self._changed:
            self._keep(outcome.model_dump_json().encode() + b"\n")
            self._waiting.append(outcome)
            self._changed.notify()

    def close(self) -> None:
        """Wait until everything was acknowledged, then remove the file; keeps it when sending failed for good."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._sender.join()
        self._file.close()
        if self.error is None:
            self._path.unlink()

    def _keep(self, line: bytes) -> None:
        whole = os.fstat(self._file.fileno()).st_size
        try:
            os.write(self._file.fileno(), line)
            os.fsync(self._file.fileno())
        except OSError as full:
            os.ftruncate(self._file.fileno(), whole)
            print(f"outbox: this result is sent without a copy on disk: {full}", file=sys.stderr)  # noqa: T201

    def _run(self) -> None:
        try:
            for batch in self._batches():
                self._send(batch)
        except Exception as failed:  # noqa: BLE001  kept for whoever closes; the file stays
            self.error = failed
            self._on_error(failed)

    def _batches(self) -> Iterator[list[EpisodeOutcome]]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._closing and len(self._waiting) < _BATCH:
                    self._changed.wait_for(lambda: self._closing or len(self._waiting) >= _BATCH, _LINGER_S)
                batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
                if not batch:
                    return
            yield batch


def send_leftovers(folder: Path, send: Send) -> int:
    """Send what earlier instances of this eval left in `folder`, remove their files, and say how many outcomes.

    A last line that a kill cut short is left out: its episode never counted as finished.
    """
    sent = 0
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            if not _ownerless(file):
                continue
            outcomes = [EpisodeOutcome.model_validate_json(line) for line in file.read().split(b"\n")[:-1]]
            for first in range(0, len(outcomes), _BATCH):
                send(outcomes[first : first + _BATCH])
            sent += len(outcomes)
            path.unlink()
    return sent


def _ownerless(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
