"""What the door and a copy of the model say to each other, as bytes on a local socket: a length, then the message.

The door's messages are pickles of its own values. A copy answers in JSON with raw bytes behind it: it runs code of the
policy's, whose objects the door does not know.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from runner.worker.parse import Act
from seq.contract.deployments import PolicyDecl

LENGTH = struct.Struct(">Q")


class DeskStart(NamedTuple):
    """Where a copy takes acts beside the door, who may ask, and what holds for them as it does at the door.

    `name` is that of an abstract Unix socket, `tally` the descriptor of its Tally, `limit_s` `timeouts.request`.
    """

    name: str
    secret: str
    params: dict[str, Any]
    limit_s: float
    tally: int


class CopyStart(NamedTuple):
    """The door's first message: what to import and load; in a `group` with the processes of other machines.

    With `desk` the copy takes acts on a socket of its own; with `tells` it says what it runs on (`loaded`).
    """

    code_dir: str
    policy: PolicyDecl
    weights_dir: str | None
    group: bool = False
    desk: DeskStart | None = None
    tells: bool = False


class Call(NamedTuple):
    """One act for a copy, and what its answer is to be written with; `notes` join its warnings."""

    act: Act
    request_id: str
    encoding: str
    notes: tuple[str, ...] = ()


_ACT = tuple(field.name for field in fields(Act))
_OWN = len(Call._fields) - 1


class Order(NamedTuple):
    """What a copy is to do next; it does so in the order asked."""

    what: Literal["run", "end_episode", "drain", "shutdown"]
    calls: tuple[Call, ...] = ()
    episode_id: str = ""


@dataclass(frozen=True)
class Done:
    """An act that was run: the members of its answer, written, or why there is none (`refused`, `details`).

    Times in seconds; `inference_cpu_s` is the act's share of its batch's.
    """

    inference_s: float
    inference_cpu_s: float
    answer_s: float
    batch_size: int
    members: dict[str, bytes] = field(default_factory=dict)
    refused: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


def framed(message: bytes) -> bytes:
    """A message as it crosses."""
    return LENGTH.pack(len(message)) + message


def start_to_copy(start: CopyStart) -> bytes:
    """The first message, framed."""
    return framed(pickle.dumps(start, pickle.HIGHEST_PROTOCOL))


def read_start(message: bytes | memoryview) -> CopyStart:
    """What `start_to_copy` wrote."""
    start: CopyStart = pickle.loads(message)  # noqa: S301  the door's own values
    return start


def order_to_copy(order: Order) -> bytes:
    """Any later message, framed. As plain tuples: instances take several times as long to write."""
    calls = [(*call[1:], *[getattr(call.act, name) for name in _ACT]) for call in order.calls]
    return framed(pickle.dumps((order.what, calls, order.episode_id), pickle.HIGHEST_PROTOCOL))


def read_order(message: bytes | memoryview) -> Order:
    """What `order_to_copy` wrote."""
    what, calls, episode_id = pickle.loads(message)  # noqa: S301  the door's own values
    return Order(what, tuple(Call(Act(*call[_OWN:]), *call[:_OWN]) for call in calls), episode_id)


def to_door(told: str, **facts: Any) -> bytes:
    """A copy's message, framed."""
    return framed(json.dumps({"told": told, **facts}).encode())


def answers_to_door(done: list[Done]) -> bytes:
    """A copy's answers, framed."""
    heads = [
        {
            "times": (one.inference_s, one.inference_cpu_s, one.answer_s),
            "batch_size": one.batch_size,
            "sizes": {name: len(part) for name, part in one.members.items()},
            "refused": one.refused,
            "details": one.details,
        }
        for one in done
    ]
    head = json.dumps({"told": "answers", "answers": heads}).encode()
    return framed(b"".join([head, b"\n", *(part for one in done for part in one.members.values())]))


def read_told(message: bytes) -> tuple[dict[str, Any], list[Done]]:
    """A copy's message: its facts, and its answers where it has some."""
    head, _, parts = message.partition(b"\n")
    facts: dict[str, Any] = json.loads(head)
    return facts, list(_answers(facts.get("answers", ()), parts))


def _answers(heads: Any, parts: bytes) -> Iterator[Done]:
    at = 0
    for head in heads:
        members = {}
        for name, size in head["sizes"].items():
            members[name] = parts[at : at + size]
            at += size
        inference_s, inference_cpu_s, answer_s = head["times"]
        yield Done(
            inference_s, inference_cpu_s, answer_s, head["batch_size"], members, head["refused"], head["details"]
        )
