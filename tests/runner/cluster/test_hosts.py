"""What a host says when its command ends."""

from __future__ import annotations

import pytest

from runner.cluster.hosts import exit_sentence


@pytest.mark.parametrize(
    ("returncode", "sentence"),
    [
        (0, "the worker process ended with exit code 0"),
        (3, "the worker process ended with exit code 3"),
        (-9, "the worker process was killed by signal 9 (SIGKILL)"),
        (-40, "the worker process was killed by signal 40"),
    ],
)
def test_an_exit_is_told_in_a_sentence(returncode, sentence):
    """The exit code or the signal that ended the process is named."""
    assert exit_sentence(returncode) == sentence
