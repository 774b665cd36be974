"""A model on two machines of a real platform, with pretend cards: it serves, and lives and dies as one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

import sequence_ai
from tests.e2e.harness import Platform, lives, wait_for
from tests.e2e.machines import noted, write

IMAGE = ', image=seq.Image.debian_slim().add_local_python_source("torch")'


class Robot:
    """What a robot of the platform does with the large model, and what the platform tells of it."""

    def __init__(self, platform: Platform, notes: Path) -> None:
        self.platform, self.notes = platform, notes

    def drive(self, *numbers: int) -> None:
        """One control loop: connect, waiting for a cold start, and ask."""
        with sequence_ai.connect("large", base_url=self.platform.address["url"], api_key=self.platform.key) as policy:
            for number in numbers:
                assert policy.predict({"number": number}) == {"rank": "0", "number": number}

    def worker(self) -> dict:
        """The first worker of the fleet block: the newest, or the one that failed last."""
        return self.platform.api("GET", "/v1/deployments/large/fleet").json()["workers"][0]

    def noted(self, name: str) -> list[list[str]]:
        """The lines noted on each machine."""
        return [noted(self.notes, name, rank) for rank in (0, 1)]

    def pids(self) -> list[int]:
        """The copy of each machine that came up last, and the process that holds it."""
        copies = [int(lines[-1]) for lines in self.noted("pid")]
        return [*copies, *(psutil.Process(copy).ppid() for copy in copies)]


@pytest.mark.filterwarnings("ignore:large does not act yet")
def test_a_group_serves_and_ends_with_any_of_its_machines(bare_home: Platform, tmp_path: Path) -> None:
    """Both machines run every request; one killed ends both, with the reason; the next connect starts a new group."""
    bare_home.seq("up", "--pretend", "H100:16", "--gpus-per-account", "16")
    notes = tmp_path / "notes"
    bare_home.seq("deploy", write(tmp_path, notes, options=IMAGE), timeout=900)
    robot = Robot(bare_home, notes)
    robot.drive(1, 2, 3)
    assert robot.noted("ran") == [["1", "2", "3"]] * 2
    assert robot.noted("joined") == [["gloo 2 unimported"]] * 2
    assert [lines[-1] for lines in robot.noted("env")] == ["0 2 0 127.0.0.1", "1 2 0 127.0.0.1"]
    told = robot.worker()
    assert (told["gpu"], told["cards"], told["slots"], told["group"]["size"]) == ("H100", 16, 1, 2)
    members = [(one["rank"], one["state"], one["beat_age_s"] < 10) for one in told["group"]["members"]]
    assert members == [(0, "ready", True), (1, "ready", True)]
    assert "machine" in bare_home.seq("policy", "status", "large")

    before = robot.pids()
    os.kill(before[3], signal.SIGKILL)
    failed = wait_for(lambda: (found := robot.worker())["state"] == "failed" and found)
    assert (failed["handle"], failed["reason"]) == (told["handle"], "group_member_lost")
    assert "machine 1 of the group was lost" in failed["group"]["failure"]
    wait_for(lambda: not any(map(lives, before)))
    robot.drive(4)
    assert robot.noted("ran") == [["1", "2", "3", "4"]] * 2
    assert not set(robot.pids()) & set(before)
    assert robot.worker()["handle"] != told["handle"]

    before = robot.pids()
    bare_home.seq("down")
    assert not any(map(lives, before))
    assert [lines[-1] for lines in robot.noted("bye")] == [str(pid) for pid in before[:2]]
