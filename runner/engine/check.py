"""The check of a registered benchmark, in its own Python: `python -m runner.engine.check`.

Sets it up, resets its first condition, observes, steps once, checks, and tells the gateway what it saw.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from typing import Any

import numpy as np

from runner import leash
from runner.engine.bridge import Bridge
from runner.engine.episode import NO_METRIC
from runner.engine.record import as_frame
from runner.engine.usercode import UserCodeError, frames, load_class, sentence
from runner.engine.worlds import World, make_world
from seq.contract.internal import CheckReport, CheckStart

_SEND_TRIES = 30


def main() -> None:
    """Read the start line, check, report; ends with its standard input."""
    start = CheckStart.model_validate_json(sys.stdin.readline())
    leash.hold(sys.stdin.fileno())
    leash.go_first()
    _send(start, check(start))


def check(start: CheckStart) -> CheckReport:
    """What one setup, reset and step of the benchmark show; never raises on the author's errors."""
    try:
        begun = time.monotonic()
        cls = load_class(start.code_dir, start.handler_ref)
        world = make_world(cls, batched=start.batched, slots=1, setup_params=start.setup_params)
        return _first_step(start, world, time.monotonic() - begun)
    except UserCodeError as failed:
        return CheckReport(ok=False, error=str(failed), traceback=failed.traceback)
    except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's, and told
        return CheckReport(ok=False, error=sentence(failed), traceback=frames(failed, start.code_dir))


def describe(value: Any) -> dict[str, Any]:
    """An observation's keys, shapes and dtypes, in the grammar of wire.md 4.5."""
    if isinstance(value, dict):
        return {"dict": {str(key): describe(item) for key, item in value.items()}}
    if isinstance(value, (np.ndarray, np.generic)):
        return {"array": list(value.shape), "dtype": str(value.dtype)}
    if value is None:
        return {"none": True}
    if isinstance(value, bool):
        return {"bool": True}
    if isinstance(value, str):
        return {"str": "text"}
    if isinstance(value, (int, float)):
        return {"number": type(value).__name__}
    if isinstance(value, (list, tuple)):
        return {"list": [describe(item) for item in value[:1]], "len": len(value)}
    return {"object": type(value).__name__}


def _first_step(start: CheckStart, world: World, setup_s: float) -> CheckReport:
    begun = time.monotonic()
    world.reset([0], [start.condition])
    observation = world.observe([0])[0]
    reset_s = time.monotonic() - begun
    Bridge().ask(observation, start.condition.task)
    if start.render is not None:
        _check_camera(world, start.render.camera)
    if start.action_dim is None:
        return CheckReport(ok=True, observation=describe(observation), setup_s=setup_s, reset_s=reset_s)
    begun = time.monotonic()
    world.step([0], [_middle(start)])
    checked = world.check([0])[0]
    if checked.done and not checked.metrics:
        raise UserCodeError(NO_METRIC)
    step_s = time.monotonic() - begun
    world.end(0)
    return CheckReport(
        ok=True,
        observation=describe(observation),
        metrics=sorted(checked.metrics),
        steps=1,
        setup_s=setup_s,
        reset_s=reset_s,
        step_s=step_s,
    )


def _check_camera(world: World, camera: str) -> None:
    try:
        as_frame(world.frame(0, camera), camera)
    except Exception as failed:
        raise UserCodeError(
            f"render= names camera {camera!r}, which gives no frame: {sentence(failed)}", frames(failed)
        ) from failed


def _middle(start: CheckStart) -> np.ndarray[Any, Any]:
    """A harmless first action: the middle of the declared bounds, else zeros."""
    if start.action_bounds is None:
        return np.zeros(start.action_dim or 0)
    return np.asarray(start.action_bounds, dtype=np.float64).mean(axis=1)


def _send(start: CheckStart, report: CheckReport) -> None:
    request = urllib.request.Request(  # noqa: S310  the gateway's own address
        f"{start.gateway_url}/internal/benchmarks/{start.version_id}/check",
        data=json.dumps(report.wire()).encode(),
        headers={"Authorization": f"Bearer {start.token}", "Content-Type": "application/json"},
        method="POST",
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for left in reversed(range(_SEND_TRIES)):
        try:
            opener.open(request, timeout=10).close()
        except OSError:
            if not left:
                raise
            time.sleep(1)
        else:
            return


if __name__ == "__main__":
    main()
