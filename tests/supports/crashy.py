"""A benchmark told by its tasks to go wrong, each in one way; and a policy to play it with.

`fine` succeeds after three steps. The others do so too, but for what their name says, at their second step (`_reset`:
in reset, `_check`: in check). What the variant says of `times` happens so often only, counted in a file.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import seq

ACTION = seq.ActionContract(robot="crashy", action_space="ee_delta", action_dim=1, control_frequency_hz=10)
TASKS = (
    *(
        "fine",
        "raise",
        "raise_reset",
        "raise_check",
        "exit",
        "sys_exit",
        "kill",
        "hang",
        "hang_reset",
        "nan",
        "no_metric",
    ),
    *("forks", "prints", "leaks", "raise_at_7"),
)
FINISH, AT = 3, 2


class Env:
    """A counter."""

    def __init__(self, task):
        self.task = task
        self.steps = 0
        self.leaked = []

    def observe(self):
        """How far it is."""
        return {"steps": self.steps, "x": float("nan") if self.task == "nan" and self.steps else 1.0}

    def step(self, action):
        """One step, or what the task is called after."""
        self.steps += 1
        if self.steps == AT:
            go_wrong(self.task, self)
        if self.task == "raise_at_7" and self.steps == 7:
            raise ValueError("the seventh step")


def go_wrong(task, env):
    """What the task is called after."""
    if task == "raise":
        raise ValueError("the motor is stuck")
    if task == "exit":
        os._exit(3)
    if task == "sys_exit":
        sys.exit("done early")
    if task == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if task.startswith("hang"):
        time.sleep(10_000)
    if task == "forks":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10000)"], start_new_session=True)
    if task == "prints":
        sys.stdout.write("a line of a chatty simulator\n" * 1_000_000)
        sys.stdout.flush()
    if task == "leaks":
        env.leaked.append(b"\1" * (1 << 30))


@seq.benchmark(
    name="crashy",
    gpu="cpu",
    cpu=1,
    conditions=seq.conditions(tasks=list(TASKS), seeds=range(4)),
    action_contract=ACTION,
    max_steps=12,
    timeout_s=4.0,
)
class Crashy(seq.Benchmark):
    """Goes wrong where its task says so."""

    @seq.reset
    def reset(self, seed, variant):
        """A new counter."""
        marker = os.environ.get("CRASHY_ONCE")
        task = variant.task
        if marker and task != "fine":  # once alone: the next attempt is fine
            path = Path(marker) / f"{task}-{seed}"
            task = "fine" if path.exists() else task
            path.touch()
        if task.endswith("_reset"):
            go_wrong(task.removesuffix("_reset"), self)
        return Env(task)

    @seq.check
    def check(self, env):
        """Over after a few steps; with the right metric unless the task says otherwise."""
        if env.task == "raise_check" and env.steps == AT:
            raise ValueError("nothing to check")
        last = 9 if env.task == "raise_at_7" else FINISH
        metrics = {} if env.task == "no_metric" else {"success": float(env.steps >= last)}
        return seq.Step(done=env.steps >= last, metrics=metrics)


@seq.policy(name="crashy-policy", gpu="cpu", action=ACTION)
class CrashyPolicy(seq.Policy):
    """Goes on."""

    @seq.infer
    def infer(self, obs, *, seed=None):
        """Two rows."""
        return [[1.0], [1.0]]


@seq.policy(name="tenth-fails", gpu="cpu", action=ACTION)
class TenthFails(seq.Policy):
    """Raises in every tenth act."""

    def __init__(self):
        self.acts = 0

    @seq.infer
    def infer(self, obs, *, seed=None):
        """A row, or an error."""
        self.acts += 1
        if self.acts % 10 == 0:
            raise RuntimeError("out of luck")
        return [[1.0]]


@seq.policy(name="slow-policy", gpu="cpu", action=ACTION)
class SlowPolicy(seq.Policy):
    """Takes a while."""

    @seq.infer
    def infer(self, obs, *, seed=None, sleep_s: float = 0.2):
        """A row."""
        time.sleep(sleep_s)
        return [[1.0]]


class Long:
    """Fifty steps."""

    def __init__(self):
        self.steps = 0

    def observe(self):
        """How far it is."""
        return {"steps": self.steps}

    def step(self, action):
        """One more."""
        self.steps += 1


@seq.benchmark(
    name="long",
    gpu="cpu",
    cpu=1,
    conditions=seq.conditions(tasks=["go"], seeds=range(12)),
    action_contract=ACTION,
    max_steps=60,
)
class LongWay(seq.Benchmark):
    """Over after fifty steps."""

    @seq.reset
    def reset(self, seed, variant):
        """From the start."""
        return Long()

    @seq.check
    def check(self, env):
        """There or not."""
        return seq.Step(done=env.steps >= 50, metrics={"success": float(env.steps >= 50)})
