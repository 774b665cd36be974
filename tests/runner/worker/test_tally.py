"""Numbers that a copy writes and its door reads."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from runner.worker.copies import socket_names
from runner.worker.tally import Counted, Tally, total
from seq.contract.deployments import PolicyDecl, Timeouts
from seq.contract.internal import WorkerStart

WRITES = """
import os, sys
from runner.worker.tally import Tally
tally = Tally(int(sys.argv[1]))
assert not os.get_inheritable(int(sys.argv[1]))
tally.waits(3); tally.ran(2, 1); tally.begin()
"""


@pytest.fixture
def tally():
    made = Tally()
    yield made
    made.close()
    os.close(made.descriptor)


def test_another_process_writes_what_this_one_reads(tally):
    """Counts go on over restarts; a turn that began is overdue after its limit, until it ends or its process does."""
    before = time.monotonic()
    for _ in range(2):
        command = [sys.executable, "-c", WRITES, str(tally.descriptor)]
        subprocess.run(command, pass_fds=[tally.descriptor], check=True)
    counted = tally.counted()
    assert (counted.acts, counted.errors, counted.busy) == (4, 2, 3)
    assert before <= counted.used <= time.monotonic()
    assert tally.overdue(0.0)
    assert not tally.overdue(1000.0)
    tally.quiet()
    assert not tally.overdue(0.0)
    assert (tally.counted().acts, tally.counted().busy) == (4, 0)


def test_copies_are_counted_together(tally):
    """Sums, and the latest use; of none all is zero."""
    other = Tally()
    tally.ran(2, 1)
    other.ran(3, 0)
    other.waits(1)
    together = total([tally, other])
    assert (together.acts, together.errors, together.busy) == (5, 1, 1)
    assert together.used == other.counted().used >= tally.counted().used
    assert total([]) == Counted()
    other.close()
    os.close(other.descriptor)


def start(**told):
    """What a worker is told."""
    base = {"worker_id": "w", "gateway_url": "http://g", "token": "t", "secret": "s", "tls_cert": "", "tls_key": ""}
    policy = PolicyDecl(handler_ref="p:P")
    return WorkerStart(**base, code_dir="/", policy=policy, timeouts=Timeouts(), **told)


def test_an_evals_copies_have_sockets_and_no_others():
    """One name each, none like another; none for robots, for a group, or where the system has no such sockets."""
    names = socket_names(start(for_eval=True), 3, "linux")
    assert len(set(names)) == 3
    assert all(name.startswith("seq-") and len(name) >= 36 for name in names)
    assert socket_names(start(), 3, "linux") == []
    assert socket_names(start(for_eval=True, group=2), 1, "linux") == []
    assert socket_names(start(for_eval=True), 3, "darwin") == []
