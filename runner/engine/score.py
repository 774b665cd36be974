"""A benchmark's own `score`, in its own Python: `python -m runner.engine.score`.

Reads the start line, asks the gateway for every scored episode, calls `score` for each group, and tells what it said.
"""

from __future__ import annotations

import json
import math
import sys
import time
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any

from runner import leash
from runner.engine.usercode import UserCodeError, load_class, sentence
from seq import EpisodeResult
from seq.benchmark import declaration_of
from seq.contract.internal import ScoreGroups, ScoreReport, ScoreStart

_TRIES = 30
_PAUSE_S = 1.0
_LIMIT_S = 60.0


def main() -> None:
    """Read the start line, score, report; ends with its standard input."""
    start = ScoreStart.model_validate_json(sys.stdin.readline())
    leash.hold(sys.stdin.fileno())
    leash.go_first()
    gateway = _Gateway(start)
    try:
        report = ScoreReport(arms={str(arm): _arm(start, arm, gateway) for arm in range(start.arms)})
    except UserCodeError as failed:
        report = ScoreReport(error=f"score: {failed}")
    except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's setup, and told
        report = ScoreReport(error=f"score: {sentence(failed)}")
    gateway.tell(report)


def grouped(results: Iterable[EpisodeResult]) -> dict[tuple[str, str], list[EpisodeResult]]:
    """Results of all episodes, of every suite and of every task, by (kind, name), in the order of their episodes."""
    groups: dict[tuple[str, str], list[EpisodeResult]] = {}
    for result in results:
        groups.setdefault(("overall", ""), []).append(result)
        if result.suite is not None:
            groups.setdefault(("per_suite", result.suite), []).append(result)
        groups.setdefault(("per_task", str(result.task)), []).append(result)
    return groups


def score_groups(score: Any, results: Iterable[EpisodeResult]) -> ScoreGroups:
    """What `score` says of each group; one that raises or answers no numbers keeps its means, and that is told."""
    said: dict[str, Any] = {"overall": {}, "per_suite": {}, "per_task": {}}
    sizes: dict[str, Any] = {"per_suite": {}, "per_task": {}}
    errors = []
    for (kind, name), group in grouped(results).items():
        values, wrong = _asked(score, group)
        where = "of all episodes" if kind == "overall" else f"of {kind.removeprefix('per_')} {name!r}"
        if wrong is not None:
            errors.append(f"score: {where}: {wrong}")
        if kind == "overall":
            said[kind], sizes[kind] = values, len(group)
        else:
            said[kind][name], sizes[kind][name] = values, len(group)
    return ScoreGroups(**said, sizes=sizes, errors=errors)


def _asked(score: Any, group: list[EpisodeResult]) -> tuple[dict[str, float], str | None]:
    try:
        said = score(list(group))
    except (Exception, SystemExit, KeyboardInterrupt) as failed:  # noqa: BLE001  the author's, and told
        return {}, sentence(failed)
    if said is None:
        return {}, None
    if not isinstance(said, Mapping):
        return {}, f"it returned a {type(said).__name__}; return a dict of numbers, or None"
    kept: dict[str, float] = {}
    for name, value in said.items():
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not isinstance(name, str) or isinstance(value, str) or not math.isfinite(number):
            return {}, f"{name!r} is {value!r}; every value must be a finite number"
        kept[name] = number
    return kept, None


def _arm(start: ScoreStart, arm: int, gateway: _Gateway) -> ScoreGroups:
    cls = load_class(start.code_dir, start.handler_ref)
    benchmark, hooks = cls(), declaration_of(cls).hooks
    if "setup" in hooks:
        setup = getattr(benchmark, hooks["setup"])
        given = start.setup_params[arm]
        setup(start.envs, **given) if start.batched else setup(**given)
    return score_groups(getattr(benchmark, hooks["score"]), gateway.episodes(arm))


class _Gateway:
    """The gateway's two calls for a score, each resent while it cannot be reached."""

    def __init__(self, start: ScoreStart) -> None:
        self._base = f"{start.gateway_url}/internal/evals/{start.eval_id}/score"
        self._headers = {"Authorization": f"Bearer {start.token}", "Content-Type": "application/json"}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def episodes(self, arm: int) -> Iterable[EpisodeResult]:
        """Every scored episode of an arm, by index."""
        offset: int | None = 0
        while offset is not None:
            page = self._call("GET", f"/episodes?arm={arm}&offset={offset}")
            yield from map(_result, page["episodes"])
            offset = page["next"]

    def tell(self, report: ScoreReport) -> None:
        """What came of it."""
        self._call("POST", "", json.dumps(report.wire()).encode())

    def _call(self, method: str, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310  the gateway's own address
            self._base + path, data=body, headers=self._headers, method=method
        )
        for left in reversed(range(_TRIES)):
            try:
                with self._opener.open(request, timeout=_LIMIT_S) as answer:
                    return json.loads(answer.read())
            except OSError:
                if not left:
                    raise
                time.sleep(_PAUSE_S)
        raise RuntimeError("not reached")


def _result(row: Mapping[str, Any]) -> EpisodeResult:
    return EpisodeResult(
        metrics=row.get("metrics") or {},
        steps=row.get("steps", 0),
        terminated=row.get("terminated", False),
        truncated=row.get("truncated", False),
        task=row["task"],
        seed=row["seed"],
        suite=row.get("suite"),
        variation=tuple((axis, value) for axis, value in row.get("variation") or []),
    )


if __name__ == "__main__":
    main()
