"""What the platform refuses before it starts anything."""

from __future__ import annotations

import fcntl
import socket

import pytest

from runner import main


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--host", "0.0.0.0"], 2, "--tls-cert and --tls-key"),
        (["--tls-cert", "cert.pem"], 2, "go together"),
        (["--tls-cert", "no.pem", "--tls-key", "no.pem"], 2, "there is no file"),
    ],
)
def test_a_wrong_address_is_refused_in_a_sentence(tmp_path, capsys, arguments, code, says):
    """Listening beyond this machine needs TLS files that are there; the last line says so."""
    assert main.main(["--home", str(tmp_path), *arguments]) == code
    assert says in capsys.readouterr().err.splitlines()[-1]


def test_a_taken_port_is_a_conflict(tmp_path, capsys):
    """A port that another process listens at ends the start with 5 and a sentence that names it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main.main(["--home", str(tmp_path), "--port", str(port)]) == 5
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_a_home_holds_one_platform(tmp_path, capsys):
    """A second platform in the same home is a conflict; nothing of the first is touched."""
    with (tmp_path / "platform.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main.main(["--home", str(tmp_path)]) == 5
    assert "runs in" in capsys.readouterr().err
