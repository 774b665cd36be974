"""`python -m bench [SUBJECT ...]`: run the subjects (all without arguments); one table, one JSON file, one picture."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timezone
from importlib import import_module
from typing import Annotated

import typer

from bench import picture, table
from bench.machine import machine, versions
from bench.results import Measured, Results
from bench.supports.environments import BUILD

SUBJECTS = (
    "predict",
    "period",
    "overlap",
    "interrupt",
    "many",
    "memory",
    "acts",
    "start",
    "handover",
    "capacity",
    "border",
    "engine",
    "reports",
)


def main(
    subjects: Annotated[list[str] | None, typer.Argument(help=f"some of: {', '.join(SUBJECTS)}")] = None,
    check: Annotated[bool, typer.Option(help="exit 1 where a promised bound is missed or not measured")] = False,
    seed: Annotated[int, typer.Option(help="of the order in which things are run, and of the resampling")] = 0,
) -> None:
    """Measure, print one table, and write results.json and results.png into build/bench."""
    names = subjects or list(SUBJECTS)
    unknown = sorted(set(names) - set(SUBJECTS))
    if unknown:
        sys.exit(f"no subject {', '.join(unknown)}; there are: {', '.join(SUBJECTS)}")
    where = machine()  # before anything of ours makes it busy
    measured = [measure(name, seed) for name in names]
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    results = Results(date, where, versions(), seed, measured)
    BUILD.mkdir(parents=True, exist_ok=True)
    results.write(BUILD / "results.json")
    picture.draw(results, BUILD / "results.png")
    table.show(results)
    for sentence in results.missed():
        print(sentence, file=sys.stderr)
    if check and results.missed():
        sys.exit(1)


def measure(name: str, seed: int) -> Measured:
    """One subject, in full."""
    print(f"{name} ...", file=sys.stderr)
    module = import_module(f"bench.{name}")
    begun = time.monotonic()
    rows = module.run(module.FULL, seed)
    return Measured(name, (module.__doc__ or "").strip(), rows, module.PROMISES, round(time.monotonic() - begun, 1))


if __name__ == "__main__":
    typer.run(main)
