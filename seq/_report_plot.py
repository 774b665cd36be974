"""An eval as a picture: one metric by task, arms side by side, and under it the paired differences between arms."""

from __future__ import annotations

import io
import re
import textwrap
from dataclasses import dataclass
from math import isfinite

from seq._numbers import chance, shown, signed
from seq._palette import color, hatch
from seq._printable import one_line
from seq._report_sentences import incomplete, versioned
from seq._report_view import Pair, Score, View

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
except ImportError as _missing:
    raise ImportError('report.plot() needs matplotlib: pip install "sequence-ai[data]"') from _missing

WIDTH_IN, DPI = 9.0, 110
BAR_IN, THIN_BAR_IN, MOST_THICK = 0.2, 0.14, 60
GAP_IN, PAIR_IN = 0.16, 0.34
MOST_TASKS = 80
LONGEST = 40  # characters of a label's line
INK, GREY, ALARM = "black", "#6b6b6b", "#a03000"


class Plot(Figure):
    """A matplotlib Figure that a notebook shows by itself, with no pyplot loaded."""

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()


@dataclass(frozen=True)
class _Row:
    """A line of the upper panel: its label, and each arm's score there (None: that arm has none)."""

    label: str
    scores: tuple[Score | None, ...]


@dataclass(frozen=True)
class _Rows:
    """The means first, then the tasks; `left_out` counts tasks there was no room for."""

    means: list[_Row]
    tasks: list[_Row]
    left_out: int

    @property
    def all(self) -> list[_Row]:
        return [*self.means, *self.tasks]


def plot(seen: View, metric: str | None = None) -> Figure:
    """Draw `metric` (the primary one unless given). Raises ValueError, naming those there are, for an unknown one."""
    name = metric if metric is not None else seen.primary
    if name is None:
        return _nothing(seen)
    if name not in seen.metrics:
        raise ValueError(f"no metric {name!r}; there are {', '.join(seen.metrics) or 'none yet'}")
    rows = _rows(seen, name)
    pairs = [pair for pair in seen.pairs if pair.metric == name]
    bar = BAR_IN if len(rows.all) * len(seen.arms) <= MOST_THICK else THIN_BAR_IN
    heights = [len(rows.all) * (len(seen.arms) * bar + GAP_IN)]
    if pairs:
        heights.append(max(len(pairs) * PAIR_IN, 0.6))
    figure = Plot((WIDTH_IN, sum(heights) + 0.8 + 0.7 * len(heights)), layout="constrained", dpi=DPI)
    panels = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    _scores(panels[0], rows, seen, name, bar)
    if pairs:
        _differences(panels[1], pairs, name)
    _title(figure, seen, name)
    return figure


def _nothing(seen: View) -> Figure:
    figure = Plot((WIDTH_IN, 1.6), layout="constrained", dpi=DPI)
    text = f"nothing is scored yet: the eval is {seen.report.status}"
    figure.text(0.5, 0.3, text, ha="center", va="center", color=GREY, parse_math=False)
    _title(figure, seen, None)
    return figure


def _rows(seen: View, metric: str) -> _Rows:
    """Of too many tasks the lowest are kept."""
    scores = [arm.scores.get(metric) for arm in seen.arms]
    names = list(dict.fromkeys(task for found in scores if found is not None for task in found.tasks))
    tasks = [_Row(task, tuple(found.tasks.get(task) if found else None for found in scores)) for task in names]
    kept = set(sorted(range(len(tasks)), key=lambda place: _lowest(tasks[place]))[:MOST_TASKS])
    micro = all(found is None or found.is_micro for found in scores)
    label = "all episodes (micro mean)" if micro else "overall"
    means = [_Row(label, tuple(found.overall if found else None for found in scores))]
    macro = tuple(found.macro if found else None for found in scores)
    if len(tasks) > 1 and any(macro):
        means.append(_Row("mean of tasks (macro mean)", macro))
    return _Rows(means, [row for place, row in enumerate(tasks) if place in kept], len(tasks) - len(kept))


def _lowest(row: _Row) -> float:
    return min((score.mean for score in row.scores if score is not None), default=float("inf"))


def _scores(axes: Axes, rows: _Rows, seen: View, metric: str, bar: float) -> None:
    """Bars, a group a row; the axis along them is in inches, so that bars are as thick as they were planned."""
    arms, drawn = len(seen.arms), rows.all
    step = arms * bar + GAP_IN
    known = [score for row in drawn for score in row.scores if score is not None]
    _limits(axes, known, whole=seen.is_rate(metric))
    for place, row in enumerate(drawn):
        for arm, score in enumerate(row.scores):
            _bar(axes, place * step + (arm - (arms - 1) / 2) * bar, bar, score, arm)
    if rows.tasks:
        axes.axhline((len(rows.means) - 0.5) * step, color=GREY, linewidth=0.6)
    _ticks(axes, [place * step for place in range(len(drawn))], [_lines(row.label) for row in drawn])
    axes.set_ylim((len(drawn) - 0.5) * step, -0.5 * step)
    notes = [f"{_short(metric, LONGEST)}: mean"]
    notes += ["95 % interval"] if any(score.interval for score in known) else []
    notes += ["* under 10 episodes"] if any(score.small for score in known) else []
    notes += [f"{rows.left_out} task(s) with higher values left out"] if rows.left_out else []
    axes.set_xlabel(", ".join(notes), fontsize=8, parse_math=False)
    if arms > 1:
        _legend(axes, [arm.name for arm in seen.arms])


def _bar(axes: Axes, y: float, height: float, score: Score | None, arm: int) -> None:
    """A bar with its interval; its value and n stand at the right edge, where nothing covers them."""
    if score is None or not isfinite(score.mean):
        axes.text(1.0, y, " \N{EN DASH}", va="center", fontsize=7, color=GREY, transform=axes.get_yaxis_transform())
        return
    axes.barh(
        y,
        score.mean,
        height=height * 0.86,
        facecolor=color(arm),
        hatch=hatch(arm),
        edgecolor="white",
        linewidth=0,
        alpha=0.7,
    )
    if score.interval is not None:
        axes.plot(score.interval, (y, y), color=INK, linewidth=1.1, solid_capstyle="butt")
        axes.plot(score.interval, (y, y), "|", color=INK, markersize=4.5, markeredgewidth=1.1)
    n = f"  n={score.n}" if score.n is not None else ""
    told = f" {shown(score.mean)}{n}{' *' if score.small else ''}"
    axes.text(1.0, y, told, va="center", fontsize=7, transform=axes.get_yaxis_transform())


def _limits(axes: Axes, scores: list[Score], *, whole: bool) -> None:
    """All of 0 to 1 for a rate (`whole`), else what there is, zero included, with room for every interval."""
    if whole:
        axes.set_xlim(0, 1)
        return
    ends = [value for score in scores for value in (score.mean, *(score.interval or ())) if isfinite(value)]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    if low == high:
        return
    room = 0.04 * (high - low)
    axes.set_xlim(low - room if low < 0 else 0, high + room if high > 0 else 0)


def _differences(axes: Axes, pairs: list[Pair], metric: str) -> None:
    """Each difference with its interval beside the line of no difference."""
    for place, pair in enumerate(pairs):
        if not isfinite(pair.mean_diff):
            continue
        if pair.low is not None and pair.high is not None:
            axes.plot((pair.low, pair.high), (place, place), color=INK, linewidth=1.4)
            axes.plot((pair.low, pair.high), (place, place), "|", color=INK, markersize=7)
        axes.plot(pair.mean_diff, place, "o", color=INK, markersize=5)
        axes.text(1.0, place, f" {_told(pair)}", va="center", fontsize=7, transform=axes.get_yaxis_transform())
    axes.axvline(0, color=GREY, linewidth=1.0, linestyle="--")
    names = [[_short(pair.arm_b, LONGEST), f"\N{MINUS SIGN} {_short(pair.arm_a, LONGEST)}"] for pair in pairs]
    _ticks(axes, list(range(len(pairs))), names)
    axes.set_ylim(len(pairs) - 0.5, -0.5)
    axes.margins(x=0.08)
    text = f"paired difference in {_short(metric, LONGEST)} on the same episodes, 95 % interval"
    axes.set_xlabel(text, fontsize=8, parse_math=False)


def _told(pair: Pair) -> str:
    p, name = (pair.p_adjusted, "adj. p") if pair.p_adjusted is not None else (pair.p, "p")
    return f"{signed(pair.mean_diff)}  n={pair.n}" + (f"  {name}{chance(p)}" if p is not None else "")


def _ticks(axes: Axes, places: list[float], labels: list[list[str]]) -> None:
    axes.set_yticks(places, ["\n".join(lines) for lines in labels])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.tick_params(labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _legend(axes: Axes, names: list[str]) -> None:
    handles = [Patch(facecolor=color(arm), hatch=hatch(arm), edgecolor="white", alpha=0.7) for arm in range(len(names))]
    legend = axes.legend(
        handles,
        [f"arm {arm}" for arm in range(len(names))],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=min(len(names), 3),
        fontsize=8,
        frameon=False,
    )
    # Set afterwards: a label that begins with an underscore would be left out.
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(_short(name, LONGEST))
        text.set_parse_math(False)


def _title(figure: Figure, seen: View, metric: str | None) -> None:
    policy = versioned(seen.first.model, seen.first.version) if not seen.several else f"{len(seen.arms)} arms"
    title = f"{metric}: {policy}" if metric else policy
    if seen.manifest.get("benchmark"):
        title += f" on {versioned(seen.manifest['benchmark'], seen.manifest.get('benchmark_version'))}"
    lines = [_short(title, 100)]
    lacking = list(incomplete(seen))
    for line in lacking[:3]:
        lines += textwrap.wrap(f"INCOMPLETE ({seen.report.status}): {one_line(line)}", 125)
    if len(lacking) > 3:
        lines.append(f"INCOMPLETE: {len(lacking) - 3} more arm(s)")
    color_of = ALARM if lacking else INK
    figure.suptitle("\n".join(lines), fontsize=9, x=0.01, ha="left", parse_math=False, color=color_of)


def _lines(text: str) -> list[str]:
    """A label on one line, or on two, broken near its middle where a word ends."""
    line = one_line(text)
    if len(line) <= LONGEST:
        return [line]
    breaks = [found.end() for found in re.finditer(r"[ _/.,:-]", line[:-1])]
    middle = min(breaks, key=lambda place: abs(place - len(line) / 2), default=len(line) // 2)
    return [_short(line[:middle], LONGEST), _short(line[middle:], LONGEST)]


def _short(text: str, longest: int) -> str:
    """One line of at most `longest` characters; a long name keeps both its ends, by which names differ."""
    line = one_line(text)
    if len(line) <= longest:
        return line
    tail = longest // 2 - 1
    return f"{line[: longest - tail - 1]}…{line[-tail:]}"
