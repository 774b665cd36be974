"""What a policy returned or raised, written as the members of an answer. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.errors import Refused
from runner.worker.answer import Outcome, outcome
from runner.worker.calls import Call
from runner.worker.check import ChunkError
from runner.worker.trace import frames, message
from seq.contract import codec
from seq.contract.robot import ActionContract


@dataclass(frozen=True)
class Inferred:
    """What `infer` returned or raised for one act, with its wall time and its thread's processor time."""

    value: Any
    error: BaseException | None
    inference_s: float
    inference_cpu_s: float


Write = Callable[[Call, "ActionContract | None", Inferred, str], dict[str, bytes]]


def members(call: Call, action: ActionContract | None, inferred: Inferred, code_dir: str) -> dict[str, bytes]:
    """The members of the door's answer but for its timings, each as it will stand in it.

    Raises Refused, in the policy's own words, when it raised, or returned what must not be played.
    """
    made = _outcome(call, action, inferred, code_dir)
    parts = _own(call) | _told(call, made, code_dir)
    if made.action_chunk is not None:
        same = made.action_chunk is made.outputs
        parts["action_chunk"] = parts["outputs"] if same else codec.dumps(made.action_chunk, call.encoding)
    return parts


def brief(call: Call, action: ActionContract | None, inferred: Inferred, code_dir: str) -> dict[str, bytes]:
    """Those of them that the policy made, each once: all that one who asks a copy on its own socket needs."""
    return _told(call, _outcome(call, action, inferred, code_dir), code_dir)


def _outcome(call: Call, action: ActionContract | None, inferred: Inferred, code_dir: str) -> Outcome:
    if inferred.error is not None:
        raise _policy_error(inferred.error, code_dir)
    try:
        return outcome(action, inferred.value, opaque=call.act.opaque)
    except ChunkError as wrong:
        reason: dict[str, Any] = {} if wrong.reason is None else {"reason": wrong.reason}
        raise Refused("policy_error", str(wrong), **reason) from None
    except RecursionError:
        raise Refused("policy_error", "what infer returned nests too deeply, or holds itself") from None
    except BaseException as raised:  # noqa: BLE001  a property of what it returned: the policy's own code too
        raise _policy_error(raised, code_dir) from None


def _policy_error(error: BaseException, code_dir: str) -> Refused:
    if isinstance(error, ChunkError):
        return Refused("policy_error", str(error))
    kind, text = type(error).__name__, message(error)
    told = {"type": kind, "message": text, "traceback": frames(error, code_dir)}
    return Refused("policy_error", f"the policy raised {kind}: {text}", exception=told)


def _own(call: Call) -> dict[str, bytes]:
    """What the platform says of the act."""
    body: dict[str, Any] = {
        "id": call.request_id,
        "request_id": call.request_id,
        "object": "act.response",
        "created": int(time.time()),
    }
    if call.act.model is not None:
        body["model"] = call.act.model
    return {name: codec.dumps(value, call.encoding) for name, value in body.items()}


def _told(call: Call, made: Outcome, code_dir: str) -> dict[str, bytes]:
    """What the policy says."""
    warnings = [*call.notes, *made.warnings]
    try:
        parts = {"outputs": codec.dumps(made.outputs, call.encoding, plain=made.plain)}
        if warnings:
            parts["warnings"] = codec.dumps(warnings, call.encoding)
    except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
        raise Refused("policy_error", f"what infer returned cannot be sent: {message(wrong)}") from None
    except BaseException as raised:  # noqa: BLE001  an object of the policy's own, in the middle of being written
        raise _policy_error(raised, code_dir) from None
    return parts
