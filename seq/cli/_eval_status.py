"""Where an eval is, as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from seq._numbers import bounds, shown
from seq._printable import one_line
from seq.cli._report import metric_lines
from seq.cli._text import count, duration
from seq.evaluating import EvalState

Json = Mapping[str, Any]
_STATES = ("running", "failed", "not_run")


def status_lines(eval_id: str, state: EvalState) -> Iterator[str]:
    """State, episodes done, the wait for cards if there is one, and the metrics so far, of each arm."""
    progress: Json = state.details.get("progress") or {}
    yield f"eval {eval_id}: {state.status}{_counted(progress)}"
    if state.status == "queued":
        yield from _wait(state.details.get("queue") or {})
    arms = progress.get("arms") or []
    if len(arms) > 1:
        yield from map(_arm, arms)
    else:
        yield from metric_lines(state.as_report(), state.details)
    if state.report.get("stop_reason"):
        yield f"stopped: {state.report['stop_reason']}"


def _counted(progress: Json) -> str:
    """`  3 of 20 episodes done, 2 running`."""
    done, total = progress.get("done"), progress.get("total")
    if done is None or total is None:
        return ""
    more = "".join(f", {progress[key]} {key.replace('_', ' ')}" for key in _STATES if progress.get(key))
    return f"  {done} of {total} episodes done{more}"


def _wait(queue: Json) -> Iterator[str]:
    if queue:
        waited = queue.get("waited_s")
        yield (
            f"  in line: needs {count(queue.get('cards'))} card(s), {count(queue.get('available'))} free now, "
            f"waited {'unknown' if waited is None else duration(waited)}, gives up at {count(queue.get('gives_up_at'))}"
        )


def _arm(arm: Json) -> str:
    leaves: Json = arm.get("metrics") or {}
    values = [_value(name, leaf) for name, leaf in leaves.items() if leaf and leaf.get("mean") is not None]
    return "  ".join([f"  arm {one_line(count(arm.get('arm')))}:{_counted(arm)}", *values])


def _value(name: str, leaf: Json) -> str:
    text = f"{one_line(name)} {shown(leaf['mean'])}"
    if leaf.get("n") is not None:
        text += f" n={leaf['n']}"
    if leaf.get("low") is not None and leaf.get("high") is not None:
        text += f" 95% CI {bounds(leaf['low'], leaf['high'])}"
    small = leaf.get("small_n") or (leaf.get("n") is not None and leaf["n"] < 10)
    return f"{text} *" if small else text
