"""A line to a policy that is not on this machine: acts go through the robot's own door, by one `sequence_ai` handle."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

import sequence_ai
from runner.worker.acts import ANSWERED, EPISODE_END, LENGTH, REFUSED
from seq.contract import codec
from sequence_ai import ImageFrame, Observation, Proprioception

_PAUSE_S = 0.5
_PAUSE_MAX_S = 5.0


class AskingStoppedError(Exception):
    """The eval ended while an act was waiting."""


@dataclass(frozen=True)
class Door:
    """The robot's door of an eval; a worker that is gone, starting or full is waited out for `limit_s` in all."""

    model: str
    gateway_url: str
    token: str
    limit_s: float


def receive(line: socket.socket) -> bytes | None:
    """The next frame; None at the end. Raises OSError."""
    head = line.recv(LENGTH.size, socket.MSG_WAITALL)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    parts = bytearray()
    while len(parts) < size:
        part = line.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def send(line: socket.socket, content: bytes) -> None:
    """Send one frame. Raises OSError."""
    line.sendall(LENGTH.pack(len(content)) + content)


class Relay:
    """Answers acts that come over a socket, in a thread of its own, until the socket or the eval ends.

    The other end is as a model copy's would be (`runner.worker.acts`); whatever the policy itself says is final.
    """

    def __init__(self, door: Door, session: str, stop: threading.Event) -> None:
        self._door = door
        self._session = session
        self._stop = stop
        self._handle = self._open()

    def start(self) -> socket.socket:
        """Begin; the end at which acts are asked."""
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(ours,), name="relay", daemon=True).start()
        return theirs

    def _serve(self, line: socket.socket) -> None:
        with line, self._handle:
            try:
                while (content := receive(line)) is not None:
                    body = codec.decode(codec.parse(content, codec.MSGPACK))
                    if EPISODE_END not in body:
                        send(line, self._answer(body))
            except (OSError, AskingStoppedError):
                return

    def _answer(self, body: dict[str, Any]) -> bytes:
        try:
            answer, took = self._patiently(body)
        except sequence_ai.SequencesError as failed:
            return REFUSED + json.dumps(_refusal(failed), default=str).encode()
        except Exception as raised:  # noqa: BLE001  a policy's exception comes back as itself
            return REFUSED + json.dumps(_raised(raised), default=str).encode()
        perf: dict[str, Any] = {"inference_ms": 1000 * took}
        if isinstance(answer, sequence_ai.Prediction):
            chunk = answer.action_chunk
            perf = {**perf, **answer.perf}
            outputs: Any = {"steps": [list(row) for row in chunk.steps], "open_loop_horizon": chunk.open_loop_horizon}
        else:
            outputs = answer
        return ANSWERED + codec.dumps({"outputs": outputs, "perf": perf}, codec.MSGPACK)

    def _patiently(self, body: dict[str, Any]) -> tuple[Any, float]:
        """The answer and the seconds of the request that got it: waiting for a worker is no part of an act."""
        asked = _observation(body["observation"]) if "observation" in body else body["inputs"]
        options = {name: body[name] for name in ("seed", "episode_id", "params") if name in body}
        pause, since = _PAUSE_S, time.monotonic()
        while True:
            begun = time.monotonic()
            try:
                return self._handle.predict(asked, **options), time.monotonic() - begun
            except (sequence_ai.Unavailable, sequence_ai.CertPinError) as gone:
                if getattr(gone, "code", None) == "timeout" or time.monotonic() - since > self._door.limit_s:
                    raise
                if isinstance(gone, sequence_ai.CertPinError):
                    self._handle.close()
                    self._handle = self._open()  # another process took the dead worker's port: the old pin is void
            except sequence_ai.AuthError as ended:
                raise AskingStoppedError(str(ended)) from ended
            if self._stop.wait(pause):
                raise AskingStoppedError("the eval ended")
            pause = min(2 * pause, _PAUSE_MAX_S)

    def _open(self) -> sequence_ai.Policy:
        door = self._door
        # The waits are ours: the client would print each of them, and could not be told to stop.
        return sequence_ai.connect(
            model=door.model,
            base_url=door.gateway_url,
            api_key=door.token,
            validate="off",
            startup_timeout_s=0,
            timeout_s=door.limit_s,
        )


def _refusal(failed: sequence_ai.SequencesError) -> dict[str, Any]:
    exception = getattr(failed, "exception_type", None)
    details = dict(getattr(failed, "details", None) or {})
    if exception:
        details["exception"] = {
            "type": exception,
            "message": failed.message,
            "traceback": getattr(failed, "remote_traceback", None),
        }
    return {"code": failed.code or "internal", "detail": failed.message, "details": details}


def _raised(raised: Exception) -> dict[str, Any]:
    """A policy's built-in exception, which the client raises as itself."""
    trace = getattr(raised, "remote_traceback", None)
    told = {"type": type(raised).__name__, "message": str(raised), "traceback": trace}
    return {"code": "policy_error", "detail": str(raised), "details": {"exception": told}}


def _observation(wire: dict[str, Any]) -> Observation:
    felt = wire.get("proprioception") or {}
    return Observation(
        images=[
            ImageFrame(frame["view"], frame["data"], frame.get("timestamp_ms"), frame.get("kind"))
            for frame in wire["images"]
        ],
        proprioception=Proprioception(
            joint_positions=felt.get("joint_positions") or [],
            joint_velocities=felt.get("joint_velocities"),
            end_effector_pose=felt.get("end_effector_pose"),
            gripper=felt.get("gripper"),
        ),
        instruction=wire["instruction"],
        state=wire.get("state"),
    )
