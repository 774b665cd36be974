"""The time of day set forward and back by hours while a robot drives.

The machine's clock is not a test's to set, so a process sees it shifted: `time.time` and its kin, and in it every wait
for a lock with a time limit is noted, because before Python 3.11 such a wait follows the machine's own time of day.
"""

import itertools
import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys, threading, time, traceback, warnings

step_s = float(sys.argv[1])
shift, real, timed = [0.0], (time.time, time.time_ns), []
time.time = lambda: real[0]() + shift[0]
time.time_ns = lambda: real[1]() + int(shift[0] * 1e9)
make = threading._allocate_lock

class Lock:
    def __init__(self):
        self.lock = make()

    def acquire(self, blocking=True, timeout=-1):
        if timeout is not None and timeout > 0:
            timed.append("".join(traceback.format_stack(limit=30)))
        return self.lock.acquire(blocking, timeout)

    __enter__ = acquire

    def __exit__(self, *_):
        self.lock.release()

    def __getattr__(self, name):
        return getattr(self.lock, name)

threading.Lock = threading._allocate_lock = Lock

import sequence_ai
from sequence_ai.testing import FakePlatform, FakeRobot, chunk

platform, robot = FakePlatform(infer=lambda _: {"action_chunk": chunk([[0.0, 0.0]] * 10, hz=50)}), FakeRobot()
platform.connect["lease"] = {"ttl_s": 1, "epoch": 1}
with platform.served() as server:
    platform.connect["worker_url"] = server.url
    with sequence_ai.connect("toy", base_url=server.url, api_key=platform.key) as policy:
        robot.plan("act", 30, lambda: shift.__setitem__(0, step_s))
        robot.plan("act", 60, lambda: shift.__setitem__(0, -step_s))
        outcome = policy.run(**robot.callables, max_actions=90, progress=False)
        robot.plan("act", 100, lambda: shift.__setitem__(0, step_s))
        robot.plan("act", 110, lambda: threading.Thread(target=policy.interrupt).start())
        stopped = policy.run(**robot.callables, max_actions=90, progress=False)
        robot.plan("act", 10_000, policy.interrupt)
        robot.plan("observe", len(robot.calls("observe")) + 1, lambda: shift.__setitem__(0, 0.0))
        limited = policy.run(**robot.callables, max_actions=900, max_seconds=0.5, progress=False)
ours = [s for s in timed if "sequence_ai/_" in s and "testing/_platform" not in s]
print(json.dumps({
    "reasons": [one.reason for one in (outcome, stopped, limited)],
    "elapsed_s": [one.elapsed_s for one in (outcome, stopped, limited)],
    "actions": [one.actions for one in (outcome, stopped, limited)],
    "underrun_s": outcome.underrun_s,
    "times": [played.when for played in robot.played if played.run == 1],
    "connects": len(platform.to("/v1/act/connect")),
    "timed": ours,
    "noted": len(timed),
}))
"""


@pytest.mark.parametrize("step_s", [3600.0, -3600.0], ids=["forward", "back"])
def test_the_time_of_day_moves_nothing(step_s: float) -> None:
    """Steps of an hour and two: each row at its time, limits and stops as ever, no storm of renewals, no timed lock."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(step_s)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["reasons"] == ["completed", "interrupted", "timeout"]
    assert told["actions"][0] == 90
    assert told["actions"][1] in (20, 21), "a stop waited for the time of day"
    assert all(0.3 < elapsed_s < 10 for elapsed_s in told["elapsed_s"])
    assert told["underrun_s"] < 1
    times = told["times"]
    assert all(third - first > 0.01 for first, third in zip(times, times[2:], strict=False))
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 1
    assert told["connects"] <= 10, "the lease was renewed by the time of day"
    assert told["timed"] == [], "the client waits for a lock with a time limit, which the time of day can stretch"


def test_the_note_of_timed_waits_works() -> None:
    """A timed wait for a lock in such a process is noted: the test above would see one."""
    program = PROGRAM.partition("import sequence_ai\n")[0] + "threading.Event().wait(0.01); print(len(timed))"
    done = subprocess.run([sys.executable, "-c", program, "1"], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "1", done.stderr
