"""An eval's episodes as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

Json = Mapping[str, Any]

COLUMNS = ("arm", "index", "task", "seed", "suite")
OUTCOME = ("steps", "terminated", "truncated", "timed_out", "recorded", "error", "attempts", "acts")


def frame(episodes: Iterable[Json], arm: str) -> pd.DataFrame:
    """One row an episode: what it was, `variation.<axis>`, how it ended, then each metric (float64, NaN where missing).

    Rows that do not name their arm are of `arm`. A metric called like another column is `metric.<name>`. Raises
    ImportError, naming the extra that brings it, without pandas.
    """
    try:
        import pandas as pd  # noqa: PLC0415  only whoever asks for a frame needs it
    except ImportError as missing:
        raise ImportError('report.to_pandas() needs pandas: pip install "sequence-ai[data]"') from missing
    rows = list(episodes)
    variations = [dict(row.get("variation") or []) for row in rows]
    metrics = [row.get("metrics") or {} for row in rows]
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in COLUMNS}
    columns["arm"] = [found if found is not None else arm for found in columns["arm"]]
    for axis in _keys(variations):
        columns[f"variation.{axis}"] = [variation.get(axis) for variation in variations]
    columns |= {name: [row.get(name) for row in rows] for name in OUTCOME}
    for name in sorted(_keys(metrics)):
        values = pd.array([_value(told.get(name)) for told in metrics], dtype="float64")
        columns[f"metric.{name}" if name in columns else name] = values
    return pd.DataFrame(columns)


def _keys(told: Iterable[Mapping[str, Any]]) -> list[str]:
    """All keys, in the order in which they first occur."""
    return list(dict.fromkeys(key for each in told for key in each))


def _value(value: float | None) -> float:
    return float("nan") if value is None else float(value)
