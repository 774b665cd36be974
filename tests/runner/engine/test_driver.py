"""Driving environment processes: what a lost process takes with it and what it does not."""

import threading
from pathlib import Path

from runner.engine.asking import Answer
from runner.engine.driver import Driver
from runner.engine.environment import EnvironmentDiedError, EnvironmentHungError, Reply
from seq.contract.internal import Condition, EpisodeOutcome, InstanceSpec, LeasedEpisode


class Queue:
    """Leases kept in memory; what is given back comes again with the next attempt."""

    def __init__(self, episodes: int) -> None:
        self.waiting = [lease(index, 1) for index in range(episodes)]
        self.reasons: list[str] = []

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode]:
        given, self.waiting = self.waiting[:free], self.waiting[free:]
        return given

    def give_back(self, episodes: list[LeasedEpisode], reason: str) -> None:
        self.reasons.append(reason)
        self.waiting = [lease(e.condition.index, e.attempt + 1) for e in episodes] + self.waiting


class Process:
    """An environment process that plays a script: each call is a function of what it is asked."""

    def __init__(self, *script) -> None:
        self.script = list(script)

    def call(self, what: str, slots: dict, limit_s: float) -> Reply:
        step = self.script.pop(0) if self.script else finish
        return step(what, slots)

    def kill(self) -> None:
        pass


class Policy:
    """Answers everything."""

    def begin(self, seed: int) -> None:
        pass

    def ask(self, body: dict) -> Answer:
        return Answer({"outputs": [[0.0]]}, 0.1, 0.05)

    def close(self) -> None:
        pass


def lease(index: int, attempt: int) -> LeasedEpisode:
    return LeasedEpisode(condition=Condition(index=index, task="t", seed=index, max_steps=5), attempt=attempt)


def ask_all(what: str, slots: dict) -> Reply:
    return Reply({slot: {"inputs": None} for slot in slots}, {})


def finish(what: str, slots: dict) -> Reply:
    if what == "reset":
        return ask_all(what, slots)
    return Reply({}, {slot: EpisodeOutcome(index=0, attempt=1, steps=1, acts=0) for slot in slots})


def end_first(what: str, slots: dict) -> Reply:
    first = min(slots)
    rest = {slot: {"inputs": None} for slot in slots if slot != first}
    return Reply(rest, {first: EpisodeOutcome(index=0, attempt=1, steps=1, acts=0)})


def die(what: str, slots: dict) -> Reply:
    raise EnvironmentDiedError("killed by signal 9")


def hang(what: str, slots: dict) -> Reply:
    raise EnvironmentHungError("did not return", "where it stood")


def drive(
    queue: Queue, processes: list[Process], slots: int, tmp_path: Path, policy: type[Policy] = Policy
) -> list[EpisodeOutcome]:
    spec = InstanceSpec.model_construct(blob_dir=str(tmp_path), reset_limit_s=1, step_limit_s=1)
    done: list[EpisodeOutcome] = []
    waiting = iter(processes)
    Driver(spec, queue, done.append, lambda: next(waiting), policy, threading.Event(), slots).run()
    return done


def test_a_process_that_dies_in_a_second_reset_takes_the_asks_of_the_others_along(tmp_path) -> None:
    """All its slots go back to the queue and are played by the next process; nothing of ours breaks."""
    queue = Queue(3)
    done = drive(queue, [Process(ask_all, end_first, die), Process()], 2, tmp_path)
    assert len(done) == 3
    assert queue.reasons == ["killed by signal 9"]


def test_a_process_that_hangs_costs_the_episode_it_was_asked_for(tmp_path) -> None:
    """Its error holds the stack; the other slot's episode runs again."""
    queue = Queue(3)
    done = drive(queue, [Process(ask_all, end_first, hang), Process()], 2, tmp_path)
    errors = [outcome for outcome in done if outcome.error]
    assert [(outcome.index, outcome.traceback) for outcome in errors] == [(2, "where it stood")]
    assert len(done) == 3


def test_half_a_video_of_a_lost_attempt_does_not_stay(tmp_path) -> None:
    """What the lost process had written of an attempt goes; other attempts' files stay."""
    lost, other = tmp_path / "0" / "1", tmp_path / "5" / "1"
    for folder in (lost, other):
        folder.mkdir(parents=True)
        (folder / "video.part.mp4").write_bytes(b"half")
    drive(Queue(1), [Process(ask_all, die), Process()], 1, tmp_path)
    assert not lost.exists()
    assert other.exists()


def test_all_slots_of_a_call_stood_still_for_the_longest_wait_for_a_worker(tmp_path) -> None:
    """None of them is stepped before the last is answered; so none of their episodes is charged with it."""
    played: list[dict] = []

    def note(what: str, slots: dict) -> Reply:
        played.append(slots)
        return finish(what, slots)

    class Waiting(Policy):
        """The second of two slots waits for a worker."""

        seconds = iter([0.0, 7.0])

        def ask(self, body: dict) -> Answer:
            return Answer({"outputs": [[0.0]]}, 0.1, 0.05, waited_s=next(self.seconds))

    drive(Queue(2), [Process(ask_all, note)], 2, tmp_path, Waiting)
    assert [{slot: answer["waited_s"] for slot, answer in slots.items()} for slots in played] == [{0: 7.0, 1: 7.0}]
