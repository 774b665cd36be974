"""A model on two machines as two processes: both run everything; whatever becomes of one, both end and say why."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import lives, wait_for
from tests.e2e.machines import Machines
from tests.e2e.workers import Gateway

Make = Callable[..., Machines]


@pytest.fixture
def make(tmp_path: Path, gateway: Gateway) -> Iterator[Make]:
    made: list[Machines] = []

    def start(**how: object) -> Machines:
        made.append(Machines(tmp_path, gateway, **how))
        return made[-1]

    yield start
    for one in made:
        one.end()


def test_everything_runs_on_both_machines(make: Make, gateway: Gateway) -> None:
    """Acts, episode ends and the shutdown, in one order; machine 0 answers; torch's group comes first."""
    machines = make()
    url = gateway.until("ready")[-1]["url"]
    with machines.client(url) as client:
        for number in range(20):
            body = {"inputs": {"number": number}, "episode_id": f"e{number // 10}"}
            assert client.post("/act", json=body).json()["outputs"] == {"rank": "0", "number": number}
            assert machines.noted("ran") == [[str(one) for one in range(number + 1)]] * 2
        client.post("/act/episode_end", json={"episode_id": "e0"})
        group = client.get("/ping").json()["group"]
    assert [(one["rank"], one["state"]) for one in group] == [(0, "ready"), (1, "ready")]
    assert machines.noted("env") == [["0 2 0 127.0.0.1"], ["1 2 0 127.0.0.1"]]
    assert machines.noted("joined") == [["gloo 2 unimported"]] * 2
    assert machines.noted("seen") == [["False"]] * 2
    for child in reversed(machines.processes):  # as its hosts are told: all of them, in no order
        child.send_signal(signal.SIGTERM)
    wait_for(machines.ended)
    assert machines.noted("ended") == [["e0", "e1"]] * 2
    assert machines.noted("bye") == machines.noted("pid")
    assert [child.returncode for child in machines.processes] == [0, 0]


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


HARMS: dict[str, Callable[[Machines], None]] = {
    "killed": lambda machines: machines.processes[1].kill(),
    "copy killed": lambda machines: _kill(int(machines.noted("pid")[1][0])),
    "frozen": lambda machines: machines.processes[1].send_signal(signal.SIGSTOP),
}
TOLD = {
    "killed": "machine 1 of the group was lost: its line was closed",
    "copy killed": "machine 1 of the group was lost: its model copy was killed by signal 9 (SIGKILL)",
    "frozen": "machine 1 of the group was lost: it did not answer for 10 s",
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_lost_machine_ends_the_worker(make: Make, gateway: Gateway, harm: str) -> None:
    """It tells which one was lost and how; nothing lives but what cannot move, which its host ends."""
    machines = make()
    gateway.until("ready")
    HARMS[harm](machines)
    failed = gateway.until("failed")[-1]
    assert (failed["reason"], failed["error"]) == ("group_member_lost", TOLD[harm])
    wait_for(lambda: machines.processes[0].poll() is not None)
    machines.processes[1].send_signal(signal.SIGCONT)
    wait_for(lambda: machines.ended() and not any(map(lives, machines.pids())))


def test_without_machine_0_the_others_end(make: Make, gateway: Gateway) -> None:
    """Killed it says nothing (its host does); the other machine and both copies end by themselves."""
    machines = make()
    gateway.until("ready")
    machines.processes[0].kill()
    wait_for(lambda: machines.ended() and not any(map(lives, machines.pids())))


def test_the_copy_of_machine_0_counts_as_its_machine(make: Make, gateway: Gateway) -> None:
    """Its death ends the group with the same reason."""
    machines = make()
    gateway.until("ready")
    _kill(int(machines.noted("pid")[0][0]))
    failed = gateway.until("failed")[-1]
    assert failed["reason"] == "group_member_lost"
    assert failed["error"] == "machine 0 of the group was lost: model copy 0 was killed by signal 9 (SIGKILL)"
    wait_for(lambda: machines.ended() and not any(map(lives, machines.pids())))


def test_a_machine_that_cannot_load_fails_the_worker_with_its_words(make: Make, gateway: Gateway) -> None:
    """The machine is named, and the traceback is the policy's; the other one does not wait for ever."""
    machines = make(load='assert RANK == "0", "only here"')
    failed = gateway.until("failed")[-1]
    assert failed["error"] == "machine 1 of the group: load failed: AssertionError: only here"
    assert "large.py" in failed["traceback"]
    assert "reason" not in failed
    wait_for(lambda: machines.ended() and not any(map(lives, machines.pids())))


def test_a_stranger_does_not_join(make: Make) -> None:
    """Who does not know the secret is sent away, and ends."""
    machines = make(secrets=("worker-secret", "another"))
    wait_for(lambda: machines.processes[1].poll() is not None)
    assert machines.processes[0].poll() is None
    assert machines.noted("ran") == [[], []]
