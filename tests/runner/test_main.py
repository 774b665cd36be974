"""What the platform refuses before it starts anything."""

from __future__ import annotations

import fcntl
import socket

import pytest

from runner import main
from runner.cluster.base import Command
from runner.testing import make_context


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


def test_a_wildcard_is_no_address_even_with_tls(tmp_path, capsys):
    """Robots are sent to the address listened at, so it must be one they can reach."""
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).touch()
    tls = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    assert main.main(["--home", str(tmp_path), "--host", "0.0.0.0", *tls]) == 2
    assert "the machine's own" in capsys.readouterr().err


def test_commands_are_asked_to_end_before_the_cluster_is_stopped(tmp_path):
    """Winding up ends every command, so that a policy's shutdown hook runs; a lost cluster does not hold it up."""
    ctx = make_context(tmp_path)
    ctx.cluster.launch_command(Command("worker-a", [], {}, "", "", ""))
    main._wind_up(ctx)
    assert ctx.cluster.killed == ["worker-a"]
    ctx.cluster.lose_head()
    main._wind_up(ctx)
    ctx.store.close()
