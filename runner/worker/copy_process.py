"""`python -m runner.worker.copy_process SOCKET LEASH`: one copy of the model, doing what its worker's door says."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn

from runner import leash
from runner.worker import collective, output
from runner.worker.batching import Batching, for_evals
from runner.worker.calls import CopyStart, answers_to_door, read_order, read_start, to_door
from runner.worker.copy import Copy, Created
from runner.worker.desk import Desk
from runner.worker.line import Line, LineClosedError
from runner.worker.loaded import facts
from runner.worker.memory import reason_of
from runner.worker.trace import frames, sentence


def main() -> NoReturn:
    """Come up and serve until told to shut down, or until the door is gone; never returns."""
    door, held_by = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(door, False)  # what the policy starts must not hold the door's line open
    os.set_inheritable(held_by, False)
    leash.hold(held_by)
    leash.go_first()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output.forgive()
    line = Line(socket.socket(fileno=door))
    try:
        _serve(line, *_bring_up(line, read_start(line.receive())))
    except LineClosedError:  # the leash is about to tell; what the policy started ends here too
        os.killpg(0, signal.SIGKILL)
    _leave(1)


def _bring_up(line: Line, start: CopyStart) -> tuple[Copy, Desk | None]:
    copy = Copy(start.code_dir, start.policy)
    phase = "load"
    try:
        if start.group:
            collective.join()
        created = copy.create()
        copy.load(start.weights_dir)
        if created.warms_up:
            phase = "warmup"
            line.send(to_door("warmup"))
            copy.warmup()
        phase = "listen"
        desk = _desk(line, start, copy, created)
    except BaseException as failed:  # noqa: BLE001  a user's sys.exit() in load is a failure like any other
        line.send(to_door("failed", **_failure(phase, failed, start.code_dir)))
        _leave(1)
    line.send(
        to_door(
            "up",
            platform_keywords=created.declared.platform_keywords,
            preset=created.declared.preset,
            batching=None if created.batching is None else asdict(created.batching),
            facts=facts() if start.tells else {},
        )
    )
    return copy, desk


def _desk(line: Line, start: CopyStart, copy: Copy, created: Created) -> Desk | None:
    if start.desk is None:
        return None
    declared = created.batching
    batching = Batching() if declared is None else for_evals(declared.max_batch_size, declared.eval_wait_ms)
    return Desk(
        start.desk, line, copy, created.declared, batching, lambda episode: _try("on_episode", copy.on_episode, episode)
    )


def _failure(phase: str, failed: BaseException, code_dir: str) -> dict[str, Any]:
    told, users = f"{phase} failed: {sentence(failed)}", frames(failed, code_dir)
    print(told, users, sep="\n", file=sys.stderr, flush=True)  # noqa: T201  the log file
    return {"error": told, "traceback": users, "reason": reason_of(failed)}


def _serve(line: Line, copy: Copy, desk: Desk | None) -> NoReturn:
    run = copy.run if desk is None else desk.run
    while True:
        if desk is not None:
            desk.attend()
        order = read_order(line.receive())
        if order.what == "run":
            line.send(answers_to_door(run(order.calls)))
        elif order.what == "end_episode":
            _try("on_episode", copy.on_episode, order.episode_id)
        elif order.what == "drain":
            if desk is not None:
                desk.drain()
        else:
            if desk is not None:
                desk.end_all()
            _try("shutdown", copy.shutdown)
            line.send(to_door("down"))
            _leave(0)


def _try(hook: str, call: Callable[..., None], *given: str) -> None:
    """Nobody waits for what these hooks return; what they raise stands in the log."""
    try:
        call(*given)
    except BaseException as failed:  # noqa: BLE001  a user's sys.exit() here ends no copy
        print(f"{hook} failed: {sentence(failed)}", file=sys.stderr, flush=True)  # noqa: T201  the log file


def _leave(code: int) -> NoReturn:
    """End at once, whatever the policy's own threads still do."""
    os._exit(code)


if __name__ == "__main__":
    main()
