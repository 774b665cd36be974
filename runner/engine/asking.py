"""Asking the policy, through the robot's own door: one `sequence_ai` handle for each environment."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any

import sequence_ai
from runner.engine.seeds import act_seed
from seq.contract import codec
from sequence_ai import ImageFrame, Observation, Proprioception

_PAUSE_S = 0.5
_PAUSE_MAX_S = 5.0


class PolicyFailedError(Exception):
    """The policy (or the worker on its behalf) refused or failed this act; the episode cannot go on."""

    def __init__(self, message: str, traceback: str | None = None) -> None:
        super().__init__(message)
        self.traceback = traceback


class AskingStoppedError(Exception):
    """The eval ended while an act was waiting."""


@dataclass(frozen=True)
class Answer:
    """The policy's answer as the bridge reads it, and what the act took in seconds, beside the wait for a worker."""

    body: dict[str, Any]
    act_s: float
    infer_s: float
    waited_s: float = 0.0


class Asker:
    """One environment's handle. A worker that is gone, starting or full is waited out for `limit_s` in all, since the
    platform is starting another; whatever the policy itself says is final.
    """

    def __init__(self, model: str, gateway_url: str, token: str, limit_s: float, stop: threading.Event) -> None:
        self._connect = {"model": model, "base_url": gateway_url, "api_key": token, "validate": "off"}
        self._limit_s = limit_s
        self._stop = stop
        self._handle = self._open()
        self._episode_id = ""
        self._act = 0
        self._seed = 0

    def begin(self, seed: int) -> None:
        """A new episode starts from `seed`."""
        self._episode_id = uuid.uuid4().hex
        self._seed = seed
        self._act = 0

    def ask(self, body: dict[str, Any]) -> Answer:
        """One act; raises PolicyFailedError or AskingStoppedError."""
        asked = _observation(body["observation"]) if "observation" in body else codec.decode(body["inputs"])
        options = {"seed": act_seed(self._seed, self._act), "episode_id": self._episode_id}
        begun = time.monotonic()
        answer, took = self._patiently(asked, options)
        waited = max(0.0, time.monotonic() - begun - took)
        self._act += 1
        if not isinstance(answer, sequence_ai.Prediction):
            return Answer({"outputs": answer}, took, took, waited)
        chunk = answer.action_chunk
        outputs = {"steps": [list(row) for row in chunk.steps], "open_loop_horizon": chunk.open_loop_horizon}
        return Answer({"outputs": outputs}, took, _infer_s(answer.perf, took), waited)

    def close(self) -> None:
        """Give the session back."""
        self._handle.close()

    def _patiently(self, asked: Any, options: dict[str, Any]) -> tuple[Any, float]:
        """The answer and the seconds of the request that got it: waiting for a worker is no part of an act."""
        pause, since = _PAUSE_S, time.monotonic()
        while True:
            begun = time.monotonic()
            try:
                return self._handle.predict(asked, **options), time.monotonic() - begun
            except (sequence_ai.Unavailable, sequence_ai.CertPinError) as gone:
                if getattr(gone, "code", None) == "timeout":
                    raise PolicyFailedError(f"the policy did not answer: {gone}") from gone
                if time.monotonic() - since > self._limit_s:
                    raise PolicyFailedError(f"no worker answered for {self._limit_s:g} s: {gone}") from gone
                if isinstance(gone, sequence_ai.CertPinError):
                    self._handle = self._open()  # another process took the dead worker's port: the old pin is void
            except sequence_ai.AuthError as ended:
                raise AskingStoppedError(str(ended)) from ended
            except Exception as failed:
                raise _policy_failure(failed) from failed
            if self._stop.wait(pause):
                raise AskingStoppedError("the eval ended")
            pause = min(2 * pause, _PAUSE_MAX_S)

    def _open(self) -> sequence_ai.Policy:
        # The waits are ours: the client would print each of them, and could not be told to stop.
        return sequence_ai.connect(**self._connect, startup_timeout_s=0, timeout_s=self._limit_s)  # type: ignore[arg-type]


def _policy_failure(failed: Exception) -> PolicyFailedError:
    name = getattr(failed, "exception_type", None) or type(failed).__name__
    text = " ".join(str(failed).split())
    if getattr(failed, "code", None) != "policy_error":
        return PolicyFailedError(f"the worker refused the act: {text}")
    message = text if text.startswith(name) or name == "PolicyError" else f"{name}: {text}"
    return PolicyFailedError(f"the policy failed: {message}", getattr(failed, "remote_traceback", None))


def _infer_s(perf: Any, otherwise: float) -> float:
    for name in ("inference_cpu_ms", "inference_ms"):
        value = perf.get(name)
        if value is not None:
            return float(value) / 1000
    return otherwise


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
