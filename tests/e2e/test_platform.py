"""One command starts a platform, one ends it, and nothing in between surprises."""

import json
import os
import signal
import socket
import stat
from pathlib import Path

import psutil

from tests.e2e.harness import Platform, lives, wait_for


def test_up_twice_changes_nothing_and_down_ends_everything(bare_home: Platform) -> None:
    """The second `seq up` finds the first one's platform; after `seq down` no process of this home lives."""
    bare_home.seq("up")
    first = bare_home.address
    said = bare_home.run("up")
    assert said.returncode == 0
    assert "already" in said.stdout + said.stderr
    assert bare_home.address == first
    pids = {process.pid for process in bare_home.processes()}
    assert first["pid"] in pids
    bare_home.seq("down")
    assert wait_for(lambda: not bare_home.processes(), 15)
    assert not any(lives(pid) for pid in pids)


def test_the_port_is_kept_and_a_taken_one_is_said(bare_home: Platform) -> None:
    """A platform comes back where it was; when somebody else holds that port, a sentence says so and nothing starts."""
    bare_home.seq("up")
    port = bare_home.address["port"]
    bare_home.seq("down")
    bare_home.seq("up")
    assert bare_home.address["port"] == port
    bare_home.seq("down")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        refused = bare_home.run("up")
        assert refused.returncode == 5
        assert str(port) in refused.stderr
        assert "error[conflict]" in refused.stderr
        assert not bare_home.processes()


def test_a_killed_platform_is_started_again(bare_home: Platform) -> None:
    """After `kill -9` of the gateway `seq status` says so, and `seq up` brings it back on the same port."""
    bare_home.seq("up")
    before = bare_home.address
    os.kill(before["pid"], signal.SIGKILL)
    wait_for(lambda: not lives(before["pid"]))
    assert "no platform runs" in bare_home.seq("status")
    bare_home.seq("up")
    after = bare_home.address
    assert (after["port"], after["pid"] != before["pid"]) == (before["port"], True)
    assert str(after["pid"]) in bare_home.seq("status")


def test_down_ends_what_a_killed_platform_left(bare_home: Platform) -> None:
    """With the gateway dead, `seq down` still ends the head and everything in it, and clears its folder."""
    bare_home.seq("up")
    folder = Path(json.loads((bare_home.home / "ray.json").read_text())["temp_dir"])
    os.kill(bare_home.address["pid"], signal.SIGKILL)
    assert bare_home.processes()
    assert "head" in bare_home.seq("down")
    assert wait_for(lambda: not bare_home.processes(), 15)
    assert not folder.exists()


def test_a_stale_pid_that_is_now_someone_elses_is_left_alone(bare_home: Platform) -> None:
    """A pid file that names a process which is not the platform never gets that process killed."""
    bare_home.seq("up")
    text = (bare_home.home / "platform.json").read_text()
    pid = bare_home.address["pid"]
    bare_home.seq("down")
    (bare_home.home / "platform.json").write_text(text.replace(str(pid), str(os.getpid())))
    bare_home.seq("down")
    bare_home.seq("up")
    assert bare_home.address["pid"] != os.getpid()


def test_two_homes_are_two_platforms(bare_home: Platform, tmp_path) -> None:
    """Ending one leaves the other serving; neither knows the other's key."""
    other = Platform(tmp_path / "home")
    other.home.mkdir()
    bare_home.seq("up")
    other.seq("up")
    try:
        assert other.api("GET", "/v1/account", key=bare_home.key).status_code == 401
        bare_home.seq("down")
        assert other.api("GET", "/v1/account").status_code == 200
    finally:
        other.seq("down")


def test_the_first_key_is_the_owners_alone_and_the_environment_can_be_printed(platform: Platform) -> None:
    """Key files have mode 0600; `seq status --env` prints lines that a shell can evaluate to drive the platform."""
    for name in ("api_key", "secret.key", "platform.json"):
        assert stat.S_IMODE((platform.home / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(platform.home.stat().st_mode) == 0o700
    lines = platform.seq("status", "--env").strip().splitlines()
    exports = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert exports["SEQUENCES_BASE_URL"].strip("'\"") == platform.address["url"]
    assert exports["SEQUENCES_API_KEY"].strip("'\"") == platform.key


def test_everything_listens_on_loopback(platform: Platform) -> None:
    """Neither the gateway nor Ray listens on an address that another machine could reach."""
    listening = [
        connection.laddr.ip
        for process in platform.processes()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_no_secret_is_in_a_command_line_or_log(platform: Platform) -> None:
    """The key of the first account stands in its owner-only file and nowhere else."""
    platform.seq("account")
    assert not [p for p in platform.processes() if platform.key in " ".join(p.cmdline())]
    logs = "".join(path.read_text(errors="replace") for path in (platform.home / "logs").glob("*.log"))
    assert platform.key not in logs


def test_a_command_starts_the_platform_it_needs(bare_home: Platform) -> None:
    """With nothing configured, a command that needs a platform starts the local one and says so in one line."""
    done = bare_home.run("account")
    assert done.returncode == 0
    assert len([line for line in done.stderr.splitlines() if "platform" in line]) == 1
    assert bare_home.address["pid"]


def test_small_commands_answer(platform: Platform) -> None:
    """`account`, `gpus`, `models`, `volume ls`, `secret ls` answer with what there is."""
    for command in (
        ["account"],
        ["gpus"],
        ["models"],
        ["volume", "ls"],
        ["secret", "ls"],
        ["policy", "ls"],
        ["key", "ls"],
    ):
        platform.seq(*command)
