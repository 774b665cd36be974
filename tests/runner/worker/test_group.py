"""A group as machine 0 holds it, over machines that the test plays itself: turns, losses, who may join."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from runner.worker.calls import Call, Done, read_order, to_door
from runner.worker.channel import SILENT_BEATS, Pulse, Seat, seat_of
from runner.worker.child import CopyFailedError
from runner.worker.group import Group
from runner.worker.parse import Act
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart

SECRET = "the-secret"
CALL = Call(Act({"x": 1}, {}, opaque=True), "r-1", "json")
ANSWER = [Done(0.0, 0.0, 0.0, 1)]


class Line:
    """Takes what is sent, as a channel and as a copy's end of its socket."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.heard_at = asyncio.get_running_loop().time()

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    pass_on = send

    def orders(self) -> list[str]:
        return [read_order(message[8:]).what for message in self.sent]


class Pool:
    """Notes the turns that are over."""

    def __init__(self) -> None:
        self.over: list[list[Done]] = []

    def answered(self, _copy: int, answers: list[Done]) -> None:
        self.over.append(answers)


class Played:
    """A group of three whose copy and whose other machines are lines."""

    def __init__(self) -> None:
        start = WorkerStart(
            worker_id="w",
            gateway_url="http://127.0.0.1:1",
            token="t",
            secret=SECRET,
            tls_cert="",
            tls_key="",
            code_dir="/",
            policy=PolicyDecl(handler_ref="p:P"),
            timeouts=Timeouts(),
            cards=24,
            group=3,
        )
        self.group = Group(start, Seat(0, 3, "127.0.0.1", 1))
        self.lines = [Line(), Line(), Line()]
        self.pool, self.lost = Pool(), []
        self.group.gives_up = self.lost.append
        made: Any = self.group
        made.pool, made._children = self.pool, {0: self.lines[0]}

    def join(self, *ranks: int) -> None:
        for rank in ranks:
            member = self.group._admitted(to_door("hello", rank=rank, secret=SECRET)[8:])
            assert member is not None
            member.channel = self.lines[rank]

    def hear(self, rank: int, told: str, **facts: Any) -> None:
        self.group._hear(self.group._members[rank], {"told": told, **facts})


def in_loop(test):
    """Run it in an event loop, since a group lives in one."""

    def run() -> None:
        async def played() -> None:
            test(Played())

        asyncio.run(played())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_loop
def test_a_turn_is_over_when_every_machine_is_done_with_it(played):
    """All get the same order; machine 0's answers are the turn's, and come when the slowest machine is done."""
    played.join(1, 2)
    played.group.ask((CALL,))
    assert [line.sent for line in played.lines] == [played.lines[0].sent] * 3
    played.group.answered(0, ANSWER)
    played.hear(2, "answered")
    assert played.pool.over == []
    played.hear(1, "answered")
    assert played.pool.over == [ANSWER]


@in_loop
def test_the_end_of_an_episode_reaches_every_machine_in_its_turn(played):
    """It comes after what was asked before, everywhere alike."""
    played.join(1, 2)
    played.group.ask((CALL,))
    played.group.end_episode("e1")
    assert [line.orders() for line in played.lines] == [["run", "end_episode"]] * 3


@in_loop
def test_a_machine_that_is_lost_ends_the_group(played):
    """The worker hears which one and how, once, with the reason that the fleet knows."""
    played.join(1, 2)
    for rank in (1, 2):
        played.hear(rank, "up")
    played.hear(1, "lost", how="its model copy was killed by signal 9 (SIGKILL)")
    played.group._gone(played.group._members[1], "its line was closed")
    (failed,) = played.lost
    assert failed.reason == "group_member_lost"
    assert failed.sentence == "machine 1 of the group was lost: its model copy was killed by signal 9 (SIGKILL)"


@in_loop
def test_a_machine_that_does_not_come_up_is_told_with_the_policys_words(played):
    """Its failure is the worker's, with the traceback and cause it gave, and is not told again as a loss."""
    played.join(1)
    played.hear(1, "failed", error="load failed: MemoryError", traceback="...", reason="host_out_of_memory")
    played.group._gone(played.group._members[1], "its line was closed")
    failed = played.group._members[1].up.exception()
    assert isinstance(failed, CopyFailedError)
    assert (failed.sentence, failed.reason) == (
        "machine 1 of the group: load failed: MemoryError",
        "host_out_of_memory",
    )
    assert played.lost == []


@in_loop
def test_a_machine_that_never_joins_is_lost(played):
    """It is waited for only so long."""
    played.join(2)
    played.group._check_joined()
    failed = played.group._members[1].up.exception()
    assert isinstance(failed, CopyFailedError)
    assert "machine 1 of the group was lost: it did not join" in failed.sentence
    assert not played.group._members[2].up.done()


@pytest.mark.parametrize(
    "hello",
    [
        {"rank": 1, "secret": "another"},
        {"rank": 0, "secret": SECRET},
        {"rank": 3, "secret": SECRET},
        {"rank": 2, "secret": SECRET},
        {"rank": "x", "secret": SECRET},
        {"secret": SECRET},
        [],
    ],
)
def test_nobody_else_joins(hello):
    """Neither without the secret, nor as a machine there is not, nor as one that is here already."""

    async def admitted() -> object:
        played = Played()
        played.join(2)
        return played.group._admitted(json.dumps(hello).encode())

    assert asyncio.run(admitted()) is None


@in_loop
def test_the_machines_are_told_with_their_states(played):
    """This one first; another is ready once its copy serves, and was never heard before it joined."""
    played.join(1)
    played.hear(1, "up")
    told = [(one.rank, one.state, one.beat_age_s is None) for one in played.group.machines()]
    assert told == [(0, "ready", False), (1, "ready", False), (2, "starting", True)]


def test_the_other_end_is_silent_after_ten_beats_without_a_word():
    """Any message counts as a sign of life."""
    pulse = Pulse()
    assert not any(pulse.beat() for _ in range(SILENT_BEATS))
    pulse.heard()
    assert not any(pulse.beat() for _ in range(SILENT_BEATS))
    assert pulse.beat()


def test_a_seat_is_read_once():
    """The port of the group's own line is the platform's matter: the policy does not see it."""
    environ = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "SEQ_GROUP_PORT": "7", "PATH": "x"}
    assert seat_of(environ) == Seat(1, 2, "10.0.0.1", 7)
    assert "SEQ_GROUP_PORT" not in environ
