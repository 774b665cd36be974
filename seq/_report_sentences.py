"""What there is to say about an eval beside its numbers: the same words on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seq._numbers import bounds, chance, duration, money, shown, signed
from seq._report_view import Arm, Pair, Scores, View, part

Json = Mapping[str, Any]

_OUTCOMES = (("succeeded", "succeeded"), ("unsuccessful", "failed"))
_OWNERS = {"policy": "policy", "adapter": "adapter", "benchmark": "benchmark", "eval": "platform"}


def versioned(name: Any, version: Any) -> str:
    """`name v3`, or the name alone."""
    return str(name) if version is None else f"{name} v{version}"


def seeds(found: Sequence[int]) -> str:
    """`0..4 (5)`, or the first ten and how many there are."""
    ordered = sorted(found)
    if len(ordered) > 1 and ordered == list(range(ordered[0], ordered[0] + len(ordered))):
        return f"{ordered[0]}..{ordered[-1]} ({len(ordered)})"
    few = ", ".join(str(seed) for seed in ordered[:10])
    return f"{few}{', ...' if len(ordered) > 10 else ''} ({len(ordered)})"


def adapter(told: Any) -> str:
    """The adapter with its version and the start of its checksum."""
    if not isinstance(told, Mapping):
        return str(told)
    digest = f" (sha256 {str(told['sha256'])[:12]})" if told.get("sha256") else ""
    return versioned(told.get("name"), told.get("version")) + digest


def setting(side: str, name: str, value: Any, source: str) -> str:
    """A parameter with its value and who set it."""
    own = _OWNERS[side]
    who = "set" if source == "cli" else f"{source}'s default" if source == own else f"from the {source}"
    return f"{side}.{name}={value} ({who})"


def counts(told: Mapping[str, int]) -> str:
    """How many episodes were planned, ran, scored (and how), errored and did not run, as far as it is known."""
    outcomes = ", ".join(f"{told[key]} {word}" for key, word in _OUTCOMES if key in told)
    scored = [f"{told['scored']} scored{f' ({outcomes})' if outcomes else ''}"] if "scored" in told else []
    return ", ".join(
        [
            *(f"{told[key]} {key}" for key in ("planned", "ran") if key in told),
            *scored,
            *(f"{told[key]} {word}" for key, word in (("errored", "errored"), ("not_run", "not run")) if key in told),
        ]
    )


def incomplete(seen: View) -> Iterator[str]:
    """Which scores are missing, an arm at a time; nothing when every planned episode was scored."""
    if not seen.incomplete:
        return
    lacking = [arm for arm in seen.arms if arm.short] or [seen.first]
    for arm in lacking:
        which = f"arm {arm.name}: " if seen.several else ""
        yield f"{which}{counts(arm.counts) if 'planned' in arm.counts else _progress(seen)}"


def _progress(seen: View) -> str:
    """The same from the progress alone, where there are no counts."""
    progress = part(seen.details, "progress")
    scored = max((metric.n for metric in seen.report.metrics.values()), default=0)
    if progress.get("total") is None:
        return f"{scored} episode(s) scored, and not all that were planned"
    failed, not_run = (_known(progress.get(key)) for key in ("failed", "not_run"))
    return f"{scored} of {progress['total']} episode(s) scored ({failed} failed, {not_run} not run)"


def _known(value: Any) -> str:
    return "unknown" if value is None else str(value)


def warnings(seen: View) -> Iterator[str]:
    """What makes the numbers say less than they seem to."""
    for arm in seen.arms:
        count = arm.counts.get("at_reset")
        if count:
            which = f"arm {arm.name}: " if seen.several else ""
            yield (
                f"{which}{count} episode(s) were a success by their first step: such a start says nothing of the policy"
            )


def starts(details: Json) -> str | None:
    """How many pairs of a task and a seed were scored; whether a benchmark heeds its seed cannot be seen from here."""
    told = part(details, "distinct_starts")
    planned, distinct = told.get("planned"), told.get("seen")
    return None if planned is None or distinct is None else f"{distinct} of {planned} task-seed pairs scored"


def took(details: Json) -> str | None:
    """Time and cost beside what was estimated; None while neither is known."""
    actual, estimate = part(details, "actual"), part(details, "estimate")
    if actual.get("wall_clock_s") is None or estimate.get("wall_clock_s") is None:
        return None
    spread = ""
    if estimate.get("low_s") is not None and estimate.get("high_s") is not None:
        spread = f" ({duration(estimate['low_s'])} to {duration(estimate['high_s'])})"
    time = f"took {duration(actual['wall_clock_s'])}, estimated {duration(estimate['wall_clock_s'])}{spread}"
    if actual.get("cost_usd") is None or estimate.get("cost_usd") is None:
        return time
    held = f", {money(estimate['held_usd'])} held" if estimate.get("held_usd") is not None else ""
    return f"{time}; cost {money(actual['cost_usd'])}, estimated {money(estimate['cost_usd'])}{held}"


def latency(details: Json) -> str | None:
    """How long an act took, on the mean and at most."""
    told = part(details, "latency")
    if told.get("act_ms_mean") is None:
        return None
    slowest = f", slowest {told['act_ms_max']:.1f} ms" if told.get("act_ms_max") is not None else ""
    return f"act mean {told['act_ms_mean']:.1f} ms{slowest} over {_known(told.get('acts'))} act(s)"


def rerun(manifest: Json) -> str | None:
    """Whose episodes were run again, if any."""
    if manifest.get("rerun_of"):
        return f"the errored episodes of eval {manifest['rerun_of']} ran again; both runs are merged here"
    if manifest.get("rerun_unsuccessful_of"):
        metric = manifest.get("metric") or "success"
        return (
            f"only episodes of eval {manifest['rerun_unsuccessful_of']} whose {metric} was 0: a chosen subset, so "
            "these scores are no estimate of the policy's"
        )
    return None


def errors_as_failures(arm: Arm, metric: str, scores: Scores) -> tuple[float, int] | None:
    """The rate and its n when errored episodes count as failures; None where that changes nothing or is unknown."""
    succeeded, failed, errored = (arm.counts.get(key) for key in ("succeeded", "unsuccessful", "errored"))
    if metric != "success" or scores.by_score or succeeded is None or failed is None or not errored:
        return None
    n = succeeded + failed + errored
    return succeeded / n, n


def difference(pair: Pair) -> str:
    """The difference, its interval, over how many pairs, who won how often, and p with what it is adjusted for."""
    interval = "no interval"
    if pair.low is not None and pair.high is not None:
        interval = f"95% CI {bounds(pair.low, pair.high, sign=True)}"
    told = [f"{signed(pair.mean_diff)}  {interval} over {pair.n} paired episode(s)"]
    if pair.p is not None:
        told.append(probability(pair))
    if pair.won is not None and pair.lost is not None:
        told.append(f"won {pair.won}, lost {pair.lost}")
    return "  ".join(told)


def probability(pair: Pair) -> str:
    """`p=0.031, adjusted 0.062 of 2 comparisons`."""
    text = f"p{chance(pair.p)}" if pair.p is not None else ""
    if pair.p_adjusted is None or pair.comparisons in (None, 1):
        return text
    return f"{text}, adjusted {chance(pair.p_adjusted).removeprefix('=')} of {pair.comparisons} comparisons"


def previous(details: Json) -> Iterator[str]:
    """The scheduled run before this one: its value, the difference, and whether it regressed."""
    told = part(details, "previous")
    if not told:
        return
    value = f"  {told.get('metric')} {shown(told['value'])}" if told.get("value") is not None else ""
    line = f"previous: eval {told.get('eval_id')}{value}"
    change = part(told, "difference")
    if change.get("mean_diff") is not None:
        line += f", now {signed(change['mean_diff'])}"
        if change.get("low") is not None and change.get("high") is not None:
            line += f"  95% CI {bounds(change['low'], change['high'], sign=True)}"
        if change.get("p") is not None:
            line += f"  p{chance(change['p'])}"
    yield line
    if told.get("regressed") or told.get("sentence"):
        yield f"{'regression' if told.get('regressed') else 'no regression'}: {told.get('sentence') or 'see above'}"


def many(indices: Sequence[int], count: int) -> str:
    """Episode indices, with dots where there are more than are listed."""
    return f"{', '.join(map(str, indices))}{', ...' if count > len(indices) else ''}"
