"""A deployment's fleet as a person reads it: workers, groups, robots in line, bounds, prices, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from seq.cli._app import say, table
from seq.cli._causes import cause_of, hint, why, words
from seq.cli._text import duration, money, short

Block = Mapping[str, Any]

ENDED = ("stopped", "failed")
_SHORTEST = 8
_ERROR_CHARS = 400


def show_fleet(name: str, state: Block, fleet: Block) -> None:
    """A deployment's state, then its fleet block; a part that the platform did not send prints nothing."""
    stopped = fleet.get("stopped") is True
    say(f"{name}: {'stopped' if stopped else state['status']}" + (f" - {state['error']}" if state.get("error") else ""))
    if stopped:
        say(f"robots are refused until `seq policy start {name}`")
    workers = fleet.get("workers") or []
    names = shortened([worker["handle"] for worker in workers])
    if workers:
        headers = ("worker", "state", "card", "slots", "sessions", "started", "why")
        table(headers, [_worker(names, worker, _pretend(fleet)) for worker in workers])
    if not stopped and state["status"] == "ready" and all(worker["state"] in ENDED for worker in workers):
        say("no worker runs; one starts when a robot connects")
    if _pretend(fleet) or any(_pretend(worker) for worker in workers):
        say("pretend: the operator declared these cards, the machine has none; what runs there runs on the CPU")
    _show_groups(names, workers)
    _show_line(fleet.get("queue") or [])
    say(*_bounds(fleet), *_prices(fleet), *_failures(names, fleet, workers))


def shortened(handles: Sequence[str]) -> dict[str, str]:
    """Each handle cut after the part that tells it from the others: its kind and eight characters at least."""
    longest = max((len(handle) for handle in handles), default=0)
    for length in range(_SHORTEST, longest):
        cut = {handle: _cut(handle, length) for handle in handles}
        if len(set(cut.values())) == len(cut):
            return cut
    return {handle: handle for handle in handles}


def _cut(handle: str, length: int) -> str:
    kind, dash, rest = handle.partition("-")
    return f"{kind}-{rest[:length]}" if dash else handle[:length]


def _pretend(block: Block) -> bool:
    return block.get("pretend") is True


def _worker(names: Mapping[str, str], worker: Block, pretend: bool) -> list[Any]:
    return [
        names[worker["handle"]],
        worker["state"],
        _card(worker, pretend),
        worker.get("slots"),
        worker.get("sessions"),
        _since(worker),
        why(worker),
    ]


def _card(worker: Block, pretend: bool) -> str:
    card, count = worker.get("gpu") or "", worker.get("cards") or 0
    several = f"{card}:{count}" if count > 1 and ":" not in card else card
    return f"{several} (pretend)" if card not in ("", "cpu") and (pretend or _pretend(worker)) else several


def _since(worker: Block) -> str | None:
    age_s = worker.get("age_s")
    return worker.get("started_at") if age_s is None else _ago(age_s)


def _ago(seconds: float) -> str:
    return f"{duration(max(0.0, seconds))} ago"


def _show_groups(names: Mapping[str, str], workers: Iterable[Block]) -> None:
    rows = [
        (names[worker["handle"]], member.get("rank"), member.get("state"), _beat(member))
        for worker in workers
        for member in (worker.get("group") or {}).get("members") or []
    ]
    if rows:
        table(("worker", "machine", "state", "last answered"), rows)


def _beat(member: Block) -> str | None:
    return None if member.get("beat_age_s") is None else _ago(member["beat_age_s"])


def _show_line(queue: Sequence[Block]) -> None:
    if queue:
        table(("in line", "session", "waiting for"), [_place(robot) for robot in queue])


def _place(robot: Block) -> list[Any]:
    waited = robot.get("queued_s")
    return [
        robot["position"],
        str(robot.get("session") or "")[:_SHORTEST],
        None if waited is None else duration(waited),
    ]


def _bounds(fleet: Block) -> Iterable[str]:
    if fleet.get("on_full") is None:
        return
    most = fleet.get("max_gpus")
    yield f"max GPUs: {'no limit of its own' if most is None else most}"
    waits = "" if fleet["on_full"] != "queue" else f", {fleet.get('queue_timeout_s')} s at most"
    yield f"on full: {fleet['on_full']}{waits}"
    target, robots = fleet.get("target"), fleet.get("max")
    if target is not None and robots is not None:
        yield f"robots a worker: {target} before another one starts, {robots} at most"


def _prices(fleet: Block) -> Iterable[str]:
    price, ceiling, capacity = (fleet.get(part) or {} for part in ("price", "ceiling", "capacity"))
    if price.get("usd_per_hour") is not None:
        yield f"price: {money(price['usd_per_hour'])} an hour for a worker on {price.get('card') or 'cpu'}"
    if ceiling.get("usd_per_hour") is not None and ceiling.get("workers") is not None:
        yield f"ceiling: {ceiling['workers']} worker(s), {money(ceiling['usd_per_hour'])} an hour"
    if capacity.get("per_copy_vram_mb") is not None and capacity.get("fits") is not None:
        per_copy = f"{capacity['per_copy_vram_mb'] / 1024:.1f} GiB"
        yield f"sizing: a copy takes {per_copy}, {capacity['fits']} fit on a card"


def _failures(names: Mapping[str, str], fleet: Block, workers: Sequence[Block]) -> Iterable[str]:
    """The failed workers' own words, the last failure, and what helps: once for each cause."""
    failed = [worker for worker in workers if worker["state"] == "failed"]
    for worker in failed:
        if worker.get("error"):
            yield f"{names[worker['handle']]} failed: {short(worker['error'], _ERROR_CHARS)}"
    last = fleet.get("last_failure") or {}
    cause = cause_of(last.get("cause"))
    if cause is not None:
        version = f" of v{last['version']}" if last.get("version") is not None else ""
        yield f"last failure{version}: {words(cause)}{_at(last.get('at'))}"
    yield from _hints(
        [(cause, last.get("details") or {}), *((cause_of(worker.get("reason")), {}) for worker in failed)]
    )


def _hints(causes: Iterable[tuple[str | None, Block]]) -> Iterable[str]:
    told: dict[str, Block] = {}
    for cause, details in causes:
        if cause is not None:
            told.setdefault(cause, details)
    for cause, details in told.items():
        text = hint(cause, details)
        if text:
            yield f"hint: {text}"


def _at(at: object) -> str:
    """When, in this machine's time: a platform may say it in epoch seconds or in ISO form."""
    if isinstance(at, (int, float)):
        return f", {datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S}"
    return f", {at}" if isinstance(at, str) else ""
