"""Timings of acts, told to the gateway beside them; they hold numbers and ids only, and may be lost."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from sequence_ai._clock import Clock
from sequence_ai._errors import SequencesError
from sequence_ai._transport import Link

_log = logging.getLogger("sequence_ai")

_KEPT = 512
_A_CALL = 64
_PAUSE_S = 2.0
_TIMEOUT_S = 5.0
_LAST_TIMEOUT_S = 1.0


class LatencyReports:
    """The newest records not told yet. Nothing here waits for the gateway, except a last moment in `close`."""

    def __init__(self, gateway: Link, clock: Clock) -> None:
        self._gateway = gateway
        self._clock = clock
        self._records: deque[Mapping[str, Any]] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()
        self._under_way = False
        self._closed = False

    def add(self, record: Mapping[str, Any]) -> None:
        """Tell this record soon."""
        with self._lock:
            self._records.append(record)
            begin = not (self._under_way or self._closed)
            self._under_way = self._under_way or begin
        if begin:
            self._later()

    def close(self) -> None:
        """Tell what is left, in one try."""
        with self._lock:
            self._closed = True
        self._send(_LAST_TIMEOUT_S)

    def _tell(self) -> None:
        if not self._closed:
            self._send(_TIMEOUT_S)
        with self._lock:
            self._under_way = bool(self._records) and not self._closed
        if self._under_way:
            self._later()

    def _later(self) -> None:
        try:
            self._clock.later(_PAUSE_S, self._tell)
        except RuntimeError as error:  # no thread is to be had: the next record tries again
            self._under_way = False
            _log.info("timings are not told now (%s)", error)

    def _send(self, timeout_s: float) -> None:
        while records := self._taken():
            try:
                self._gateway.call("POST", "/v1/latency", body={"records": records}, timeout_s=timeout_s)
            except SequencesError as error:
                _log.info("%d timings were not told (%s)", len(records), error)
                return

    def _taken(self) -> list[Mapping[str, Any]]:
        with self._lock:
            return [self._records.popleft() for _ in range(min(_A_CALL, len(self._records)))]


def record(
    model: str,
    request_id: str | None,
    *,
    outcome: str,
    total_s: float,
    round_trip_s: float | None,
    first: bool,
    perf: Mapping[str, Any],
    frames: int | None,
) -> dict[str, Any]:
    """The wire's record of one act: `outcome` is "served", "warming" or "error", times in s become ms."""
    total_ms = round(total_s * 1000, 3)
    round_trip_ms = None if round_trip_s is None else round(round_trip_s * 1000, 3)
    handler_ms = perf.get("handler_ms")
    network_ms = None
    if round_trip_ms is not None and isinstance(handler_ms, (int, float)) and 0 <= handler_ms <= round_trip_ms:
        network_ms = round(round_trip_ms - handler_ms, 3)
    client = {
        "total_ms": total_ms,
        "rtt_ms": round_trip_ms,
        "network_ms": network_ms,
        "warmup_ms": None,
        "first_after_connect": first,
        "rid_mismatch": False,
        "frames": frames,
    }
    return {
        "rid": request_id,
        "model_id": model,
        "deployment_id": model,
        "outcome": outcome,
        "total_ms": total_ms,
        "rtt_ms": round_trip_ms,
        "network_ms": network_ms,
        "perf": dict(perf),
        "frames": frames,
        "client": client,
    }
