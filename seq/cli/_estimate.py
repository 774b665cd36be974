"""A dry run's answer as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seq.cli._text import count, duration, money

Json = Mapping[str, Any]

MOST_TASKS = 8


def estimate_lines(answer: Json) -> list[str]:
    """Layout, arms, cards against the account, and what it would take."""
    return [
        *_layout(answer.get("layout") or {}),
        *_cards(answer.get("cards") or {}),
        *_estimate(answer.get("estimate") or {}),
        *_clamped(answer.get("clamped_by")),
        *_queue(answer.get("queue")),
        *(f"planning: {sentence}" for sentence in answer.get("planning") or []),
        *(f"note: {note}" for note in answer.get("notes") or []),
    ]


def started_line(answer: Json) -> str:
    """The line of a real run that has begun: its id, the estimate and what is held; or that it stands in line."""
    estimate, queue = answer.get("estimate") or {}, answer.get("queue")
    line = f"eval {answer['eval_id']}: started"
    if queue or answer.get("status") == "queued":
        queue = queue or {}
        line = (
            f"eval {answer['eval_id']}: in line for {count(queue.get('cards'))} card(s), "
            f"{count(queue.get('available'))} free now, gives up at {count(queue.get('gives_up_at'))}"
        )
    if estimate.get("wall_clock_s") is not None:
        line += f", about {duration(estimate['wall_clock_s'])}{_range(estimate)}, about {money(estimate['cost_usd'])}"
    if estimate.get("held_usd") is not None:
        line += f"; {money(estimate['held_usd'])} held"
    return line


def _layout(layout: Json) -> Iterator[str]:
    for policy in layout.get("policy") or []:
        yield f"policy: {policy['model']} x {policy['instances']} on {_card(policy)}"
    benchmark = layout.get("benchmark")
    if benchmark:
        yield (
            f"benchmark: {benchmark.get('instances_per_arm', 1)} x {_card(benchmark)}, "
            f"{count(benchmark.get('envs'))} envs each"
        )
    arms = layout.get("arms") or []
    for arm in arms:
        settings = " · ".join(_settings(arm.get("settings") or {}))
        if settings or len(arms) > 1:
            yield f"arm {arm['arm']} ({arm['model']}): {settings or 'no parameters'}"
    if layout.get("region"):
        yield f"region: {layout['region']} at {count(layout.get('region_multiple'))}x the price"
    if layout.get("episodes_per_arm") is not None:
        yield f"episodes: {layout['episodes_per_arm']} per arm"


def _card(side: Json) -> str:
    return " or ".join([str(side.get("gpu")), *map(str, side.get("fallback") or [])])


def _settings(settings: Json) -> Iterator[str]:
    for side, values in settings.items():
        for name, setting in (values or {}).items():
            yield f"{side}.{name}={setting['value']} ({setting['source']})"


def _cards(cards: Json) -> Iterator[str]:
    if not cards:
        return
    policy, benchmark = (_held(cards.get(side) or {}) for side in ("policy", "benchmark"))
    yield f"cards: {count(cards.get('total'))} at once ({policy} policy, {benchmark} benchmark)"
    used = cards.get("in_use") or {}
    yield (
        f"  account: limit {count(cards.get('limit'))}, serving {count(used.get('serving'))}, "
        f"evals {count(used.get('eval'))}, free {count(cards.get('available'))} -> {_verdict(cards)}"
    )


def _held(side: Json) -> str:
    instances, each = side.get("instances"), side.get("cards_each")
    return "unknown" if instances is None or each is None else str(instances * each)


def _verdict(cards: Json) -> str:
    short = cards.get("short") or 0
    if not short:
        return "would start now"
    limit, total = cards.get("limit"), cards.get("total")
    if limit is not None and total is not None and total > limit:
        return f"{short} short: it needs {total} and the account's limit is {limit}, so it never fits"
    reason = f" ({cards['reason']})" if cards.get("reason") else ""
    wait = cards.get("queue_timeout_s")
    ending = f"would wait up to {count(wait)} s" if cards.get("would_queue") else "would be refused"
    return f"{short} short{reason}: {ending}"


def _estimate(estimate: Json) -> Iterator[str]:
    if estimate.get("wall_clock_s") is None:
        yield "estimate: unknown"
        return
    line = (
        f"estimate: about {duration(estimate['wall_clock_s'])}{_range(estimate)}, about {money(estimate['cost_usd'])}"
    )
    if estimate.get("vlm_calls"):
        line += f", {estimate['vlm_calls']} planner call(s)"
    if estimate.get("held_usd") is not None:
        line += f"; a real run would hold {money(estimate['held_usd'])}"
    yield line
    if estimate.get("default_timing"):
        yield "  no eval of this benchmark was there to learn from: the next one will be estimated better"
    yield from _breakdown(estimate.get("breakdown"))


def _range(estimate: Json) -> str:
    low, high = estimate.get("low_s"), estimate.get("high_s")
    return f" ({duration(low)} to {duration(high)})" if low is not None and high is not None else ""


def _breakdown(told: Any) -> Iterator[str]:
    """Where the time goes, the longest first; of many tasks those that take most of it."""
    rows = [row for row in told if row.get("seconds") is not None] if isinstance(told, Sequence) else []
    several = len({row.get("arm") for row in rows}) > 1
    longest = sorted(rows, key=lambda row: -float(row["seconds"]))
    for row in longest[:MOST_TASKS]:
        which = f"{row.get('arm')} on " if several else ""
        yield f"  {which}{row.get('task')}: {count(row.get('episodes'))} episode(s), {duration(row['seconds'])} of work"
    if len(longest) > MOST_TASKS:
        rest = sum(float(row["seconds"]) for row in longest[MOST_TASKS:])
        yield f"  {len(longest) - MOST_TASKS} more: {duration(rest)} of work"


def _queue(queue: Json | None) -> Iterator[str]:
    if queue:
        wait = f", gives up at {queue['gives_up_at']}" if queue.get("gives_up_at") is not None else ""
        yield f"queue: needs {count(queue.get('cards'))} card(s), {count(queue.get('available'))} free now{wait}"


def _clamped(clamped: Json | None) -> Iterator[str]:
    if clamped:
        yield f"clamped: {clamped['granted']} of {clamped['requested']} ({clamped['limit']})"
