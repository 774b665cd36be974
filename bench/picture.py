"""All results as one picture: a panel a subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.results import Measured, Results
from bench.rows import Row

OURS, OTHER, LIGHT = "#1f6f8b", "#b0562c", "#9a9a9a"
COLUMNS, PANEL_IN = 3, (5.2, 3.6)

Panel = tuple[str, str, Callable[[Axes, Measured], None]]


def draw(results: Results, path: Path) -> None:
    """Write the picture of what was measured, where any of it has a panel."""
    there = {measured.subject: measured for measured in results.subjects}
    panels = [(title, there[name], paint) for name, title, paint in PANELS if name in there]
    if not panels:
        return
    height = -(-len(panels) // COLUMNS)
    figure = Figure((PANEL_IN[0] * min(len(panels), COLUMNS), PANEL_IN[1] * height), layout="constrained")
    for number, (title, measured, paint) in enumerate(panels):
        axes = figure.add_subplot(height, min(len(panels), COLUMNS), number + 1)
        paint(axes, measured)
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    figure.suptitle(results.where, fontsize=8, x=0.99, ha="right")
    figure.savefig(path, dpi=110)


def _color(what: str) -> str:
    if what.startswith(("ours", "our ")):
        return OURS
    return OTHER if what.startswith("published") else LIGHT


def _bars(axes: Axes, rows: Sequence[Row], labels: Sequence[str], middle: str, high: str | None, unit: str) -> None:
    """A bar up to `middle`, a thin line on to `high`; the values at its end."""
    for place, row in enumerate(rows):
        if row.not_measured is not None:
            axes.text(0, place, " not measured", va="center", fontsize=8, color=LIGHT)
            continue
        value = row.figures[middle]
        end = row.figures[high] if high else value
        told = f" {value:.3g}" if high is None else f" {value:.3g} / {end:.3g}"
        axes.barh(place, value, color=_color(row.what), height=0.6)
        axes.plot([value, end], [place, place], color=_color(row.what), linewidth=1.2)
        axes.text(end, place, told, va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.3)
    axes.set_xlim(left=0)
    axes.set_xlabel(unit, fontsize=8)


def _predict(weight: str) -> Callable[[Axes, Measured], None]:
    def paint(axes: Axes, measured: Measured) -> None:
        rows = [row for row in measured.rows if row.what.endswith(f", {weight}")]
        labels = [row.what.removesuffix(f", {weight}") for row in rows]
        _bars(axes, rows, labels, "p50_ms", "p99_ms", "ms: bar p50, line to p99")

    return paint


def _spread(prefix: str, unit: str) -> Callable[[Axes, Measured], None]:
    def paint(axes: Axes, measured: Measured) -> None:
        labels = [row.what for row in measured.rows]
        _bars(axes, measured.rows, labels, f"{prefix}p50_ms", f"{prefix}p99_ms", f"{unit}: bar p50, line to p99")

    return paint


def _overlap(axes: Axes, measured: Measured) -> None:
    for who in dict.fromkeys(row.what.split(",")[0] for row in measured.rows):
        rows = [row for row in measured.rows if row.what.startswith(f"{who},") and row.not_measured is None]
        shares = [float(row.what.split()[-4]) for row in rows]
        axes.plot(shares, [row.figures["moving"] for row in rows], "o-", color=_color(who), markersize=3, label=who)
    axes.axvline(0.6, color=LIGHT, linewidth=0.8, linestyle=":")
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("round trip, as a share of a chunk", fontsize=8)
    axes.legend(fontsize=8, frameon=False, loc="lower left")


def _memory(axes: Axes, measured: Measured) -> None:
    for row in measured.rows:
        axes.plot(row.series["acts"], row.series["rss_mb"], color=_color(row.what), label=row.what)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("acts", fontsize=8)
    axes.set_ylabel("MB", fontsize=8)
    axes.legend(fontsize=8, frameon=False, loc="lower right")


def _many(axes: Axes, measured: Measured) -> None:
    row = measured.rows[0]
    axes.bar(row.series["robot"], row.series["period_p99_ms"], color=OURS)
    axes.set_xlabel(f"robot; {row.figures['underruns']:g} underruns in all", fontsize=8)
    axes.set_ylabel("ms off the period, p99", fontsize=8)


def _capacity(axes: Axes, measured: Measured) -> None:
    row = measured.rows[0]
    axes.plot(row.series["wait_s"], row.series["share"], color=OURS)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_ylim(0, 1.02)
    told = (
        f"{row.figures['sessions']:g} sessions of {row.figures['robots']:g} robots, {row.figures['given_up']:g} gave up"
    )
    axes.set_xlabel(f"s waited for a slot; {told}", fontsize=8)
    axes.set_ylabel("share of the sessions", fontsize=8)


def _border(axes: Axes, measured: Measured) -> None:
    rows = measured.rows
    _bars(axes, rows, [row.what for row in rows], "to_bare", None, "steps a second, as a share of the bare loop")


def _engine(axes: Axes, measured: Measured) -> None:
    rows = [row for row in measured.rows if "ours_to_it" in row.figures]
    told = "an episode, ours to it: bar median, line to the upper end"
    _bars(axes, rows, [row.what for row in rows], "ours_to_it", "ours_to_it_high", told)
    axes.axvline(1.0, color=LIGHT, linewidth=0.8, linestyle=":")


def _reports(axes: Axes, measured: Measured) -> None:
    labels = [f"{row.what}\n{row.figures['peak_gib']:.2g} GiB at most" for row in measured.rows]
    _bars(axes, measured.rows, labels, "s", None, f"s, of {measured.rows[0].figures['episodes']:,} episodes")


PANELS: tuple[Panel, ...] = (
    ("predict", "predict, 15 kB", _predict("15 kB")),
    ("predict", "predict, 150 kB", _predict("150 kB")),
    ("overlap", "share of time moving", _overlap),
    ("period", "control period error", _spread("", "ms off the period")),
    ("interrupt", "interrupt to hold", _spread("hold_", "ms")),
    ("many", "32 robots at once", _many),
    ("memory", "resident memory", _memory),
    ("handover", "a slot changes hands", _spread("", "ms")),
    ("capacity", "a simulated day of the fleet", _capacity),
    ("border", "environment process", _border),
    ("engine", "an eval beside a bare loop", _engine),
    ("reports", "reading a large eval", _reports),
)
