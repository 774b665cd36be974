"""Driving real environment processes: what a lost or stuck one takes with it, and what it does not."""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.engine import relay
from runner.engine.driver import Driver
from runner.engine.env_process import EnvironmentStart
from runner.engine.environment import Environment, EnvironmentBrokenError
from runner.engine.lines import NoWorkerError
from runner.worker.acts import ANSWERED
from seq.contract import codec
from seq.contract.internal import Condition, EpisodeOutcome, InstanceSpec, LeasedEpisode

from .conftest import SUPPORTS


class Queue:
    """Leases kept in memory; what is given back comes again with the next attempt."""

    ample = False

    def __init__(self, *tasks: str) -> None:
        self.waiting = [_lease(index, task) for index, task in enumerate(tasks)]
        self.reasons: list[str] = []

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode]:
        given, self.waiting = self.waiting[:free], self.waiting[free:]
        return given

    def give_back(self, episodes: list[LeasedEpisode], reason: str) -> None:
        self.reasons.append(reason)
        again = [episode.model_copy(update={"attempt": episode.attempt + 1}) for episode in episodes]
        self.waiting = again + self.waiting


class Policy:
    """Lines whose other end answers two rows; each of the first ones ends after so many acts, in the next one."""

    def __init__(self, *broken: int) -> None:
        self.broken = list(broken)
        self.opened: list[int] = []

    def open(self, number: int) -> socket.socket:
        self.opened.append(number)
        ours, theirs = socket.socketpair()
        last = self.broken.pop(0) if self.broken else None
        threading.Thread(target=_answer, args=(ours, last), daemon=True).start()
        return theirs


def _answer(line: socket.socket, last: int | None) -> None:
    answered = 0
    with line:
        while True:
            content = relay.receive(line)
            if content is None:
                return
            body = codec.decode(codec.parse(content, codec.MSGPACK))
            if "episode_end" in body:
                continue
            if answered == last:
                return
            answered += 1
            told = {"outputs": [[1.0], [1.0]], "perf": {"inference_ms": 1.0}}
            relay.send(line, ANSWERED + codec.dumps(told, codec.MSGPACK))


class Told:
    """What the driver tells."""

    def __init__(self) -> None:
        self.set_up: list[dict[str, str]] = []
        self.moves: list[tuple[int, str]] = []

    def ready(self, setup_s: float, facts: dict[str, str]) -> None:
        self.set_up.append(facts)

    def facts(self, facts: dict[str, str]) -> None:
        self.set_up.append(facts)

    def moved(self, count: int, reason: str) -> None:
        self.moves.append((count, reason))


def _lease(index: int, task: str, **what: Any) -> LeasedEpisode:
    condition = Condition(index=index, task=task, seed=index, max_steps=12, **what)
    return LeasedEpisode(condition=condition, attempt=1)


class Stage:
    """A driver with everything around it."""

    def __init__(self, folder: Path, queue: Queue, policy: Any = None, cls: str = "crashy:Crashy", **what: Any) -> None:
        slots = what.pop("slots", 1)
        limits = {
            "setup_limit_s": 60.0,
            "reset_limit_s": 20.0,
            "step_limit_s": 2.0,
            "act_limit_s": 20.0,
            **what.pop("limits", {}),
        }
        spec = InstanceSpec.model_construct(blob_dir=str(folder / "files"), **limits)
        self.folder = folder
        self.queue = queue
        self.policy = policy or Policy()
        self.told = Told()
        self.done: list[EpisodeOutcome] = []
        self.env = {"PYTHONPATH": os.pathsep.join(sys.path), **what.pop("env", {})}
        self.start = EnvironmentStart(
            code_dir=SUPPORTS,
            handler_ref=cls,
            batched=cls.endswith("s"),
            slots=slots,
            setup_params={},
            action_dim=1,
            blob_dir=spec.blob_dir,
            ffmpeg="",
            **what,
        )
        self.pids: list[int] = []
        stop = threading.Event()
        given: Any = (self.policy, self.told)
        self.driver = Driver(spec, queue, self.done.append, self.open, *given, stop, slots=slots, first=10)

    def open(self) -> Environment:
        made = Environment(sys.executable, self.env, self.folder / "env.log", self.start.slots)
        self.pids.append(made.pid)
        made.start(self.start)
        return made

    def run(self) -> dict[int, EpisodeOutcome]:
        self.driver.run()
        assert not any(psutil.pid_exists(pid) and _lives(pid) for pid in self.pids)
        return {outcome.index: outcome for outcome in self.done}


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_episodes_are_played_one_after_the_other(tmp_path) -> None:
    """Each once, by one process, over one line; the process says what it runs on."""
    stage = Stage(tmp_path, Queue("fine", "fine", "fine"))
    done = stage.run()
    assert {index: (outcome.steps, outcome.metrics) for index, outcome in done.items()} == {
        index: (3, {"success": 1.0}) for index in range(3)
    }
    assert (len(stage.pids), stage.policy.opened) == (1, [10])
    assert stage.told.set_up[0]["python"].startswith("3.")


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("raise", "the benchmark's step failed: ValueError: the motor is stuck"),
        ("raise_reset", "the benchmark's reset failed: ValueError: the motor is stuck"),
        ("raise_check", "the benchmark's check failed: ValueError: nothing to check"),
        ("raise_at_7", "the benchmark's step failed: ValueError: the seventh step"),
        ("sys_exit", "the benchmark's step failed: SystemExit: done early"),
        ("nan", "the observation['x'] is nan"),
        ("no_metric", "gave no metric"),
    ],
)
def test_what_an_author_does_wrong_is_the_episodes_error(tmp_path, task: str, says: str) -> None:
    """The process goes on and plays the next one."""
    done = Stage(tmp_path, Queue(task, "fine")).run()
    assert says in done[0].error
    assert done[0].metrics == {}
    assert done[1].metrics == {"success": 1.0}


@pytest.mark.parametrize(
    ("task", "says"), [("exit", "ended with exit code 3"), ("kill", "killed by signal 9 (SIGKILL)")]
)
def test_a_process_that_dies_gives_its_episode_back(tmp_path, task: str, says: str) -> None:
    """It runs again in another process, which plays the rest, too."""
    once = tmp_path / "once"
    once.mkdir()
    stage = Stage(tmp_path, Queue(task, "fine"), env={"CRASHY_ONCE": str(once)})
    done = stage.run()
    assert [outcome.metrics for outcome in done.values()] == [{"success": 1.0}] * 2
    assert [says in reason for reason in stage.queue.reasons] == [True]
    assert done[0].attempt == 2
    assert len(stage.pids) == 2


def test_a_step_that_never_returns_costs_its_episode(tmp_path) -> None:
    """The error holds the stack where it stood; what it had written is gone; the next episode plays."""
    done = Stage(tmp_path, Queue("hang", "fine")).run()
    assert done[0].error == "the benchmark's step did not return within 2 s and was ended"
    assert "go_wrong" in done[0].traceback
    assert done[1].metrics == {"success": 1.0}
    assert not (tmp_path / "files" / "0").exists()


def test_a_reset_that_never_returns_costs_its_episode(tmp_path) -> None:
    """Within the limit of a reset."""
    done = Stage(tmp_path, Queue("hang_reset", "fine"), limits={"reset_limit_s": 2.0}).run()
    assert done[0].error == "the benchmark's reset did not return within 2 s and was ended"
    assert done[1].metrics == {"success": 1.0}


def test_what_a_benchmark_starts_ends_with_it(tmp_path) -> None:
    """Also a child in a session of its own."""
    stage = Stage(tmp_path, Queue("forks"))
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    assert stage.run()[0].metrics == {"success": 1.0}
    left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


def test_a_lost_copy_is_asked_again_over_another_line(tmp_path) -> None:
    """The act that it was in is run by the next one; that is told, and the result is the same."""
    stage = Stage(tmp_path, Queue("fine"), Policy(1))
    assert stage.run()[0].metrics == {"success": 1.0}
    assert len(stage.policy.opened) == 2
    assert [count for count, _ in stage.told.moves] == [1]


def test_an_act_that_two_copies_die_of_is_given_up(tmp_path) -> None:
    """One episode's error, not the eval's end."""
    done = Stage(tmp_path, Queue("fine", "fine"), Policy(1, 0)).run()
    assert "2 model copies were lost while they ran this act" in done[0].error
    assert done[1].metrics == {"success": 1.0}


def test_a_streaming_policys_episode_begins_anew(tmp_path) -> None:
    """What the lost copy remembered of it is gone, so it starts from reset."""
    done = Stage(tmp_path, Queue("fine"), Policy(1), streaming=True).run()
    assert (done[0].restarts, done[0].steps, done[0].metrics) == (1, 3, {"success": 1.0})


def test_no_worker_for_too_long_is_the_episodes_error(tmp_path) -> None:
    """It says so, and the process goes on."""

    class Nobody:
        def open(self, number: int) -> socket.socket:
            raise NoWorkerError("no worker answered for 3600 s: warming")

    done = Stage(tmp_path, Queue("fine"), Nobody()).run()
    assert done[0].error == "no worker answered for 3600 s: warming"


def test_slots_of_a_batched_process_play_side_by_side(tmp_path) -> None:
    """A line each, numbered from the process's first slot."""
    stage = Stage(tmp_path, Queue("go", "go", "go"), cls="line_benchmark:Lines", slots=2)
    done = stage.run()
    assert {index: outcome.steps for index, outcome in done.items()} == {0: 1, 1: 2, 2: 3}
    assert sorted(stage.policy.opened) == [10, 11]


def test_a_benchmark_that_cannot_be_set_up_ends_the_eval(tmp_path) -> None:
    """With the author's error."""
    with pytest.raises(EnvironmentBrokenError, match="has no class Nothing"):
        Stage(tmp_path, Queue("fine"), cls="crashy:Nothing").run()


def test_a_process_that_dies_whenever_it_is_set_up_ends_the_eval(tmp_path) -> None:
    """After a few times; before that it might have been chance."""
    (tmp_path / "dies.py").write_text("import os\nos._exit(7)\n")
    stage = Stage(tmp_path, Queue("fine"), cls="dies:Dies")
    stage.start = stage.start.model_copy(update={"code_dir": str(tmp_path)})
    with pytest.raises(EnvironmentBrokenError, match="ended with exit code 7"):
        stage.run()
    assert len(stage.pids) == 3


def test_half_a_file_of_a_lost_attempt_does_not_stay(tmp_path) -> None:
    """What the lost process had written of an attempt goes; other attempts' files stay."""
    once = tmp_path / "once"
    once.mkdir()
    stage = Stage(tmp_path, Queue("kill"), env={"CRASHY_ONCE": str(once)})
    lost, other = tmp_path / "files" / "0" / "1", tmp_path / "files" / "5" / "1"
    for folder in (lost, other):
        folder.mkdir(parents=True)
        (folder / "video.part.mp4").write_bytes(b"half")
    stage.run()
    assert not lost.exists()
    assert other.exists()
