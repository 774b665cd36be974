"""What a run says of itself: to a callback, to a terminal, in warnings; never on stdout."""

import io
import sys

import pytest


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Broken(Terminal):
    def write(self, text):
        raise OSError("the terminal went away")


def test_the_states(rig):
    """starting, running once a command has reached the robot, done; whatever progress= says, also when waiting."""
    rig.delays = {2: 0.5}
    states = []
    with rig.connected() as policy:
        rig.run(policy, on_status=lambda state: states.append((state, len(rig.played))))
    assert states == [("starting", 0), ("running", 1), ("done", 8)]


@pytest.mark.parametrize(
    ("stderr", "progress", "shown"),
    [
        (Terminal, "auto", True),
        (io.StringIO, "auto", False),
        (io.StringIO, True, True),
        (Terminal, False, False),
    ],
)
def test_the_line(by_hand, monkeypatch, capsys, stderr, progress, shown):
    """One line, rewritten in place, on stderr: "auto" only on a terminal, True always, False never."""
    screen = stderr()
    monkeypatch.setattr(sys, "stderr", screen)
    with by_hand.connected() as policy:
        by_hand.run(policy, progress=progress)
    lines = [text.strip() for text in screen.getvalue().split("\r")]
    assert lines == (["", "starting…", "running", "done"] if shown else [""])
    assert screen.getvalue().endswith("\n") == shown
    assert capsys.readouterr().out == ""


def test_a_terminal_that_went_away_stops_no_arm(by_hand, monkeypatch):
    """What cannot be shown is not worth a hold."""
    monkeypatch.setattr(sys, "stderr", Broken())
    with by_hand.connected() as policy:
        assert by_hand.run(policy, progress="auto").reason == "completed"


def test_a_run_without_validate_warns(by_hand):
    """validate=None is allowed, and says at the caller's line that nothing checks the actions."""
    with by_hand.connected() as policy, pytest.warns(UserWarning, match="validate=None") as caught:
        out = by_hand.run(policy, validate=None)
    assert out.reason == "completed"
    assert len(caught) == 1
