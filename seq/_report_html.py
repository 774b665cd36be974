"""A report as one self-contained piece of HTML, for notebooks. No script, nothing fetched, all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from seq import _report_sentences as sentences
from seq._html import Markup, Scale, bar, dot, join, link, tag
from seq._numbers import bounds, chance, money, shown, signed
from seq._palette import color
from seq._report_view import Arm, Pair, Score, Scores, Trouble, View, part

Json = Mapping[str, Any]

MOST_OPEN = 30  # a longer group of rows is folded
MOST_VIDEOS = 20
NONE, MINUS, TIMES = "\N{EN DASH}", "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"

STYLE = """
.seq-report{font:13px/1.45 system-ui,sans-serif;color:inherit;max-width:1200px}
.seq-report h3{margin:.2em 0;font-size:1.25em}
.seq-report h4{margin:1.2em 0 .3em;font-size:1.05em}
.seq-report p,.seq-report ul{margin:.3em 0}
.seq-report .seq-wide{overflow-x:auto}
.seq-report table{border-collapse:collapse;margin:.2em 0;font-variant-numeric:tabular-nums}
.seq-report th,.seq-report td{padding:.15em .6em;text-align:left;vertical-align:middle;border:0;
 border-bottom:1px solid rgba(128,128,128,.25);background:none}
.seq-report th{font-weight:600}
.seq-report .seq-key{min-width:16em;max-width:26em;overflow-wrap:anywhere;font-weight:400}
.seq-report .seq-number{text-align:right;white-space:nowrap}
.seq-report .seq-quiet{opacity:.7;white-space:nowrap}
.seq-report .seq-group th{padding-top:.6em;opacity:.7;font-weight:400}
.seq-report .seq-loud{background:#fff0c2;color:#5a3d00;border-left:5px solid #d55e00;padding:.5em .8em;margin:.5em 0}
.seq-report .seq-note{border-left:3px solid #e69f00;padding:.1em .7em;margin:.4em 0}
.seq-report .seq-mark{display:inline-block;width:.8em;height:.8em;margin-right:.4em}
.seq-report pre{overflow-x:auto;font-size:12px;padding:.5em;margin:.3em 0;background:rgba(128,128,128,.1);color:inherit}
.seq-report summary{cursor:pointer}
"""


def page(seen: View) -> str:
    """The whole report."""
    return tag(
        "div",
        tag("style", Markup(STYLE)),
        tag("h3", _title(seen)),
        tag("p", join(_status(seen), " · ")),
        *(tag("div", tag("b", head), line, class_="seq-loud", role="alert") for head, line in _alarms(seen)),
        *(tag("div", tag("b", head), line, class_="seq-note") for head, line in _notes(seen)),
        _ran(seen),
        *(_metric(name, seen) for name in seen.metrics),
        _arms(seen),
        _pairs(seen),
        _errors(seen),
        _links(seen),
        class_="seq-report",
    )


def _title(seen: View) -> Markup:
    first, manifest = seen.first, seen.manifest
    others = f" and {len(seen.arms) - 1} more arm(s)" if seen.several else ""
    parts: list[object] = [sentences.versioned(first.model, first.version), others]
    if manifest.get("benchmark"):
        parts += [" on ", sentences.versioned(manifest["benchmark"], manifest.get("benchmark_version"))]
    return join(parts)


def _status(seen: View) -> Iterator[object]:
    report = seen.report
    yield tag("b", report.status)
    if report.stop_reason:
        yield f"stopped: {report.stop_reason}"
    took = sentences.took(seen.details)
    if took is None or "cost" not in took:
        yield f"cost {money(report.cost_usd)}"
    if took is not None:
        yield took
    if report.dashboard_url:
        yield link(report.dashboard_url, "this eval on the platform")


def _alarms(seen: View) -> Iterator[tuple[str, str]]:
    """What must not be overlooked: scores that are missing, and a regression."""
    if seen.report.status in ("failed", "canceled"):
        yield "Incomplete: ", f"the eval is {seen.report.status}; what it scored before is below"
    yield from (("Incomplete: ", line) for line in sentences.incomplete(seen))
    for line in sentences.previous(seen.details):
        head, _, rest = line.partition(": ")
        if head == "regression":
            yield "Regression: ", rest


def _notes(seen: View) -> Iterator[tuple[str, str]]:
    """What the reader should know of the scores before reading them."""
    yield from (("Warning: ", line) for line in sentences.warnings(seen))
    if seen.manifest.get("pretend"):
        yield "Pretend cards: ", "it ran on the CPU, so its times and its cost are no card's"
    again = sentences.rerun(seen.manifest)
    if again:
        yield "Rerun: ", again
    for line in sentences.previous(seen.details):
        head, _, rest = line.partition(": ")
        if head != "regression":
            yield f"{head.capitalize()}: ", rest
    yield from (("Differs: ", line) for line in seen.details.get("differs") or [])
    yield from (("Lossy adapter: ", f"{step.transform}: {step.reason}") for step in seen.report.adapter_lossy)
    yield from (("Happened: ", line) for line in seen.details.get("happened") or [])
    note = part(seen.details, "time_limit").get("note")
    if note:
        yield "Note: ", note


def _ran(seen: View) -> Markup:
    """Exactly what ran; the long tail is folded."""
    manifest = seen.manifest
    told: dict[str, object] = {}
    if manifest.get("adapter"):
        told["adapter"] = sentences.adapter(manifest["adapter"])
    if manifest.get("episodes") is not None:
        told["episodes"] = str(manifest["episodes"])
    if manifest.get("seeds"):
        told["seeds"] = sentences.seeds(manifest["seeds"])
    if seen.first.counts and not seen.several:
        told["outcome"] = sentences.counts(seen.first.counts)
    starts = sentences.starts(seen.details)
    if starts:
        told["starts"] = starts
    told |= _settings(seen)
    latency = sentences.latency(seen.details)
    if latency:
        told["latency"] = latency
    rest = {key: manifest.get(key) for key in ("eval_id", "record", "platform") if manifest.get(key) is not None}
    rest |= {f"sha256 of {name}": digest for name, digest in part(manifest, "sha256").items()}
    rest |= {f"layout: {name}": _flat(value) for name, value in part(manifest, "layout").items()}
    rest |= part(manifest, "facts")
    more = [tag("details", tag("summary", "versions, machines, layout"), _table_of(rest))] if rest else []
    return join([_table_of(told), *more])


def _flat(value: Any) -> str:
    """`instances 1, card cpu`, where it has such parts."""
    return ", ".join(f"{key} {inner}" for key, inner in value.items()) if isinstance(value, Mapping) else str(value)


def _settings(seen: View) -> Iterator[tuple[str, str]]:
    params = seen.report.arm_params or []
    for row in params:
        which = f"parameters of {row.arm}" if len(params) > 1 else "parameters"
        settings = [
            sentences.setting(side, name, value.value, value.source)
            for side in ("policy", "adapter", "benchmark", "eval")
            for name, value in getattr(row, side).items()
        ]
        if settings:
            yield which, " · ".join(settings)


def _table_of(told: Mapping[str, object]) -> Markup:
    rows = [tag("tr", tag("th", key), tag("td", value, class_="seq-key")) for key, value in told.items()]
    return tag("table", *rows) if rows else Markup("")


def _metric(name: str, seen: View) -> Markup:
    """A table of one metric: a row a group, the arms side by side."""
    found = [arm.scores.get(name) for arm in seen.arms]
    every = [score for scores in found if scores is not None for score in scores.all()]
    ends = (value for score in every for value in (score.mean, *(score.interval or ())))
    scale = Scale(0.0, 1.0) if seen.is_rate(name) else Scale.over(ends)
    heads = [_arms_head(seen.arms)] if seen.several else []
    means = tag("table", *heads, *_rows(_means(name, seen.arms), scale))
    groups = [
        _group(word, [_group_of(scores, key) for scores in found], scale, heads)
        for word, key in (("suite", "suites"), ("task", "tasks"), ("variant", "variants"))
    ]
    return join([tag("h4", name), tag("div", means, *groups, class_="seq-wide")])


def _group_of(scores: Scores | None, key: str) -> Mapping[str, Score]:
    return getattr(scores, key) if scores is not None else {}


def _means(name: str, arms: Sequence[Arm]) -> Iterator[tuple[str, list[Score | None]]]:
    """Overall, the named means, and the rate with errors counted as failures, where they are known."""
    found = [(arm, arm.scores.get(name)) for arm in arms]
    known = [scores for _, scores in found if scores is not None]
    head = "overall"
    if any(scores.by_score for scores in known):
        head = "overall, by the benchmark's score()"
    elif known and all(scores.is_micro for scores in known):
        head = "all episodes (micro mean)"
    yield head, [scores.overall if scores else None for _, scores in found]
    macro = [scores.macro if scores else None for _, scores in found]
    if any(macro):
        yield "mean of tasks (macro mean)", macro
    strict = [sentences.errors_as_failures(arm, name, scores) if scores else None for arm, scores in found]
    if any(strict):
        yield "errors counted as failures", [Score(*each) if each else None for each in strict]


def _group(word: str, found: Sequence[Mapping[str, Score]], scale: Scale, heads: list[Markup]) -> Markup:
    keys = list(dict.fromkeys(key for group in found for key in group))
    if not keys:
        return Markup("")
    rows = _rows(((key, [group.get(key) for group in found]) for key in keys), scale)
    summary = tag("summary", f"{len(keys)} {word}(s)")
    opened = {"open": "open"} if len(keys) <= MOST_OPEN else {}
    return tag("details", summary, tag("table", *heads, *rows), **opened)


def _arms_head(arms: Sequence[Arm]) -> Markup:
    cells = [tag("th", _mark(place), arm.name, colspan=3) for place, arm in enumerate(arms)]
    return tag("tr", tag("th", class_="seq-key"), *cells)


def _mark(place: int) -> Markup:
    return tag("span", class_="seq-mark", style=f"background:{color(place)}")


def _rows(told: Iterable[tuple[str, list[Score | None]]], scale: Scale) -> Iterator[Markup]:
    for label, scores in told:
        cells = [cell for place, score in enumerate(scores) for cell in _cells(score, scale, color(place))]
        yield tag("tr", tag("th", label, class_="seq-key"), *cells)


def _cells(score: Score | None, scale: Scale, fill: str) -> list[Markup]:
    """Value, bar, and the interval with n."""
    if score is None:
        return [tag("td", NONE, class_="seq-number"), tag("td"), tag("td")]
    interval = bounds(*score.interval) if score.interval is not None else ""
    n = f"n={score.n}{' *' if score.small else ''}" if score.n is not None else ""
    told = " ".join(word for word in (shown(score.mean), interval, n) if word)
    return [
        tag("td", tag("b", shown(score.mean)), class_="seq-number"),
        tag("td", bar(score.mean, score.interval, scale, fill, told)),
        tag("td", " ".join(word for word in (interval, n) if word), class_="seq-quiet"),
    ]


def _arms(seen: View) -> Markup:
    if not seen.several:
        return Markup("")
    head = tag("tr", *(tag("th", name) for name in ("arm", "policy", "episodes", "parameters")))
    rows = []
    for place, arm in enumerate(seen.arms):
        params = " · ".join(f"{name}={value}" for name, value in arm.params.items())
        policy = sentences.versioned(arm.model, arm.version)
        cells = (join([_mark(place), arm.name]), policy, sentences.counts(arm.counts), params)
        rows.append(tag("tr", *(tag("td", cell) for cell in cells)))
    return join([tag("h4", "Arms"), tag("div", tag("table", head, *rows), class_="seq-wide")])


def _pairs(seen: View) -> Markup:
    if not seen.pairs:
        return Markup("")
    columns = ("metric", "difference", "", "", "95 % CI", "pairs", "won / lost", "p", "adjusted p", "method")
    rows = [_pair(pair, scale) for pair, scale in _scaled(seen.pairs)]
    table = tag("table", tag("tr", *(tag("th", column) for column in columns)), *rows)
    return join([tag("h4", "Paired differences, on the same episodes"), tag("div", table, class_="seq-wide")])


def _scaled(pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Scale]]:
    """Each pair with the scale of its metric: the same to both sides of zero."""
    for pair in pairs:
        alike = [other for other in pairs if other.metric == pair.metric]
        ends = (value for other in alike for value in (other.mean_diff, other.low, other.high) if value is not None)
        reach = max((abs(value) for value in ends), default=0.0) or 1.0
        yield pair, Scale(-reach, reach)


def _pair(pair: Pair, scale: Scale) -> Markup:
    interval = (pair.low, pair.high) if pair.low is not None and pair.high is not None else None
    shown_interval = bounds(*interval, sign=True) if interval is not None else "none"
    p = chance(pair.p).removeprefix("=") if pair.p is not None else ""
    adjusted = ""
    if pair.p_adjusted is not None:
        adjusted = chance(pair.p_adjusted).removeprefix("=")
        adjusted += f" of {pair.comparisons}" if pair.comparisons is not None else ""
    won = f"{pair.won} / {pair.lost}" if pair.won is not None and pair.lost is not None else ""
    method = "; ".join(word for word in (pair.method, pair.p_method) if word)
    told = f"{signed(pair.mean_diff)} {shown_interval}"
    cells: tuple[object, ...] = (
        pair.metric,
        f"{pair.arm_b} {MINUS} {pair.arm_a}",
        tag("b", signed(pair.mean_diff)),
        dot(pair.mean_diff, interval, scale, told),
        shown_interval,
        pair.n,
        won,
        p,
        adjusted,
        method,
    )
    return tag("tr", *(tag("td", cell) for cell in cells))


def _errors(seen: View) -> Markup:
    parts = [_trouble(trouble, seen) for trouble in seen.troubles] + [_plain(text) for text in seen.other_errors]
    return join([tag("h4", "Errors"), *parts]) if parts else Markup("")


def _trouble(trouble: Trouble, seen: View) -> Markup:
    where = [f"arm {trouble.arm}"] if trouble.arm and seen.several else []
    if trouble.episodes:
        where.append(f"episodes {sentences.many(trouble.episodes, trouble.count)}")
    told = f" ({'; '.join(where)})" if where else ""
    return _folded(join([tag("b", f"{trouble.count} {TIMES} "), trouble.cause, told]), trouble.traceback)


def _plain(text: str) -> Markup:
    head, _, rest = text.partition("\n")
    return _folded(join([head]), rest)


def _folded(head: Markup, rest: str | None) -> Markup:
    if not rest:
        return tag("p", head)
    return tag("details", tag("summary", head), tag("pre", rest))


def _links(seen: View) -> Markup:
    videos = seen.report.videos
    if not videos:
        return Markup("")
    links = [link(address, address.rpartition("/")[2] or address) for address in videos[:MOST_VIDEOS]]
    more = f" and {len(videos) - MOST_VIDEOS} more" if len(videos) > MOST_VIDEOS else ""
    told = join([join(links, " · "), more, " (a link needs the key: `seq eval report ID --videos DIR` saves them)"])
    return tag("details", tag("summary", f"{len(videos)} recording(s)"), tag("p", told))
