"""One simulator for every side of a comparison: panda-tabletop's state, a policy that waits, and who plays them.

Ours plays through `seq eval run` on a whole platform. The others play in the Python environment which that platform
made of the benchmark's image, so that every side has the same interpreter, packages and physics.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bench.supports.children import Child
from bench.supports.cores import Cores, held
from bench.supports.platform import ROOT, Platform, running

STEPS, ROWS, THINK_S, STARTS = 128, 16, 0.005, 2000
HOME = (0.0, -0.30, 0.0, -2.35, 0.0, 2.05, 0.785)
SWING_RAD, OPENING_M = 0.2, 0.04
CHUNK = [
    [*(angle + SWING_RAD * math.sin(2 * math.pi * row / ROWS) for angle in HOME), OPENING_M]
    for row in range(1, ROWS + 1)
]
"""The answer to every act, (ROWS, 8): all joints swing once around where an episode begins, clear of the cube."""

SHIPPED = ROOT / "benchmarks/panda-tabletop/benchmark.py"
SIMULATOR = Path(__file__).parent / "simulator/tabletop_state.py"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

POLICY = """
import time

import seq

CONTRACT = seq.ActionContract(
    robot="franka_panda", action_space="joint_absolute", action_dim=8, control_frequency_hz=20
)


@seq.policy(name="waiting-{copies}", gpu="cpu", max_gpus=1, action=CONTRACT)
@seq.concurrent(replicas_per_gpu={copies})
class Waiting(seq.Policy):
    \"\"\"Waits, as for a card that is far away, and answers with the same rows every time.\"\"\"

    @seq.infer
    def infer(self, inputs):
        \"\"\"They are not looked at.\"\"\"
        time.sleep({think_s})
        return {rows}
"""

How = Literal["ours", "alone", "forked", "vector"]
Played = tuple[int, dict[str, float]]


class Run(NamedTuple):
    """`s` is from the first control step to the last, or the whole loop; `first_s` from the command to the first step.

    `episodes` are steps and metrics by seed.
    """

    s: float
    episodes: dict[int, Played]
    first_s: float = 0.0


@dataclass(frozen=True)
class Tabletop:
    """Who can play."""

    platform: Platform
    notes: Path
    loops: Child

    def play(self, how: How, envs: int, count: int, cores: Cores) -> Run:
        """The first `count` starts in `envs` environments at once, all of it on these cores."""
        if how == "ours":
            return self._ours(envs, count, cores)
        processes = {} if how == "alone" else {"processes": envs}
        told = self.loops.ask(how, seeds=list(range(count)), cores=cores, **processes)
        return Run(told["s"], {seed: (steps, metrics) for seed, steps, metrics in told["episodes"]})

    def _ours(self, envs: int, count: int, cores: Cores) -> Run:
        for earlier in self.notes.iterdir():
            earlier.unlink()
        self.platform.hold(cores)
        with held(cores):
            begun = time.monotonic()
            command = ("eval", "run", f"waiting-{envs}", "--benchmark", "tabletop-state", "--envs", str(envs))
            said = self.platform.seq(*command, "--trials", str(count))
        noted = [json.loads(line) for file in self.notes.iterdir() for line in file.read_text().splitlines()]
        first, last = min(note["first"] for note in noted), max(note["last"] for note in noted)
        return Run(last - first, self._scored(said, count), first - begun)

    def _scored(self, said: str, count: int) -> dict[int, Played]:
        """What the platform reports of each episode; raises RuntimeError where one has no score."""
        found = re.search(r"\b[0-9a-f]{32}\b", said)
        assert found is not None, said
        rows: list[dict[str, Any]] = self.platform.get(f"/v1/eval/{found[0]}/details").json()["episodes"]
        scored = {row["seed"]: (row["steps"], row["metrics"]) for row in rows if row.get("error") is None}
        if len(scored) != count:
            raise RuntimeError(f"{len(scored)} of {count} episodes of eval {found[0]} were scored")
        return scored


@contextmanager
def tabletop(envs: Collection[int]) -> Iterator[Tabletop]:
    """A platform with the simulator and a policy of as many copies as each of `envs`; and the other sides' process."""
    with ExitStack() as stack:
        platform = stack.enter_context(running())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seq-bench-")))
        code, notes = folder / "code", folder / "notes"
        notes.mkdir()
        _write(code, notes)
        platform.seq("deploy", str(code / "tabletop_state.py"))
        for copies in envs:
            platform.deploy(POLICY.format(copies=copies, think_s=THINK_S, rows=CHUNK))
        path = f"{code}:{ROOT}"
        loops = Child(_python_of(platform), "loops", folder / "loops.log", path, **ONE_THREAD)
        stack.callback(loops.end)
        loops.ask("open", rows=CHUNK, think_s=THINK_S)
        yield Tabletop(platform, notes, loops)


def _write(code: Path, notes: Path) -> None:
    """The benchmark's files, which note into the folder `notes`."""
    code.mkdir()
    shutil.copy(SHIPPED, code / "panda_tabletop.py")
    shutil.copy(SIMULATOR, code)
    values = f"NOTES, STEPS, STARTS = {str(notes)!r}, {STEPS}, {STARTS}\n"
    (code / "tabletop_values.py").write_text(values, encoding="utf-8")


def _python_of(platform: Platform) -> str:
    """The interpreter of the environment that has the simulator."""
    (found,) = platform.home.glob("envs/*/lib/python*/site-packages/gym_hil")
    return str(found.parents[3] / "bin" / "python")
