"""What an instance can see of where its environment process stands."""

from __future__ import annotations

import os
import subprocess
import sys

from runner.engine.progress import RESET, STEP, Progress

WRITER = """
import sys
from runner.engine.progress import Progress, RESET
mine = Progress(int(sys.argv[1]), 3)
mine.holds(2, 41)
mine.about([2])
mine.enter(RESET)
"""


def test_another_process_sees_the_phase_its_slots_and_since_when() -> None:
    """Through the inherited descriptor, on the machine's one monotonic clock."""
    progress = Progress.create(3)
    subprocess.run(
        [sys.executable, "-c", WRITER, str(progress.descriptor)],
        pass_fds=[progress.descriptor],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    seen = progress.read()
    assert (seen.phase, seen.episodes, seen.concerned) == (RESET, {2: 41}, frozenset({2}))
    mine = Progress.create(1)
    mine.enter(STEP)
    assert mine.read().since >= seen.since
    mine.close()
    progress.close()


def test_a_slot_that_plays_nothing_is_not_listed() -> None:
    """Until an episode begins in it, and once that has ended."""
    progress = Progress.create(2)
    assert progress.read().episodes == {}
    progress.holds(1, 0)
    assert progress.read().episodes == {1: 0}
    progress.holds(1, None)
    assert progress.read().episodes == {}
    progress.close()
