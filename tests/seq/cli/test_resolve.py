"""Which platform with which key, and what is done while it cannot be reached."""

from __future__ import annotations

import json
import os

import httpx
import pytest

from seq import _processes, local
from seq.api import Api, Pace, Place, named, resolve
from sequence_ai import AuthError, Conflict, InternalError, InvalidRequest, NotFound, SequencesError, Unavailable
from sequence_ai.testing import FakeClock

REMOTE = "https://robots.example"
HOSTED = "https://api.generalsequences.com"
LOCAL = "http://127.0.0.1:4321"


@pytest.fixture
def home(tmp_path):
    """A SEQ_HOME whose platform runs: this very process stands in for it."""
    _write(tmp_path, os.getpid(), _processes.start_time(os.getpid()))
    (tmp_path / "api_key").write_text("seq_live_local\n")
    return tmp_path


def _write(home, pid, started):
    (home / "platform.json").write_text(json.dumps({"url": LOCAL, "pid": pid, "pid_started": started}))


def _never(root):
    raise AssertionError("no platform may be started here")


@pytest.mark.parametrize(
    ("key", "address", "environ", "expected"),
    [
        (None, None, {}, Place(LOCAL, "seq_live_local")),
        ("arg", None, {}, Place(LOCAL, "arg")),
        (None, None, {"SEQUENCES_API_KEY": "env"}, Place(LOCAL, "env")),
        ("arg", None, {"SEQUENCES_API_KEY": "env"}, Place(LOCAL, "arg")),
        (None, None, {"SEQUENCES_BASE_URL": REMOTE, "SEQUENCES_API_KEY": "env"}, Place(REMOTE, "env")),
        ("arg", f"{REMOTE}/", {"SEQUENCES_BASE_URL": "http://other", "SEQUENCES_API_KEY": "env"}, Place(REMOTE, "arg")),
        (None, None, {"SEQUENCES_API_KEY": "  "}, Place(LOCAL, "seq_live_local")),
    ],
)
def test_the_argument_wins_over_the_environment_over_the_local_files(home, key, address, environ, expected):
    """One order for the key and one for the address; the local key goes only to the local address."""
    assert resolve(key, address, environ={"SEQ_HOME": str(home), **environ}, start=_never) == expected


def test_an_address_without_a_key_is_refused(home):
    """The local key is never sent to another address."""
    with pytest.raises(AuthError, match="SEQUENCES_API_KEY"):
        resolve(environ={"SEQ_HOME": str(home), "SEQUENCES_BASE_URL": REMOTE}, start=_never)


def test_a_command_that_needs_no_key_takes_an_address_alone(home):
    """`seq gpus` and `seq models` ask any platform."""
    assert resolve(base_url=REMOTE, key_needed=False, environ={"SEQ_HOME": str(home)}).api_key is None


def test_a_key_alone_means_the_hosted_platform(tmp_path):
    """With no platform on this machine, a key by itself is one of the published service, as for the robot's client."""
    assert resolve("arg", environ={"SEQ_HOME": str(tmp_path)}, start=_never) == Place(HOSTED, "arg")


def test_no_platform_configured_starts_the_local_one(tmp_path):
    """Without an address and a running platform, `start` is called with SEQ_HOME and its answer is used."""
    started = []

    def start(root):
        started.append(root)
        (root / "api_key").write_text("seq_live_new")
        return local.Platform(root, LOCAL, 1, started=True)

    assert resolve(environ={"SEQ_HOME": str(tmp_path)}, start=start) == Place(LOCAL, "seq_live_new")
    assert started == [tmp_path]


def test_a_platform_that_was_killed_is_started_again(home):
    """A pid file whose process is gone does not count as running."""
    _write(home, os.getpid(), 1.0)
    started = []
    resolve(environ={"SEQ_HOME": str(home)}, start=lambda root: started.append(root) or local.Platform(root, LOCAL, 1))
    assert started == [home]


def test_a_command_that_may_not_start_one_says_how(tmp_path):
    """`seq status` and keyless commands answer with what to do."""
    with pytest.raises(Unavailable, match="seq up"):
        resolve(environ={"SEQ_HOME": str(tmp_path)}, start=None)


@pytest.mark.parametrize("address", ["mock", "mock:x", "ftp://x", "example.com"])
def test_an_address_that_is_none_is_refused(tmp_path, address):
    """The offline stand-in of the published client is not ours, and a bare host is not an address."""
    with pytest.raises(InvalidRequest, match=address):
        resolve("k", address, environ={"SEQ_HOME": str(tmp_path)}, start=_never)


def test_a_broken_platform_file_is_said_in_a_sentence(tmp_path):
    """A platform.json that is not JSON names itself and the way out."""
    (tmp_path / "platform.json").write_text("{")
    with pytest.raises(SequencesError, match=r"platform\.json .*seq up"):
        resolve(environ={"SEQ_HOME": str(tmp_path)}, start=_never)


def test_a_key_does_not_show_in_a_representation(home):
    """A key must not end up in a log by way of repr()."""
    assert "seq_live" not in repr(resolve(environ={"SEQ_HOME": str(home)}, start=_never))


def test_a_pid_belongs_to_the_process_that_started_then():
    """Another process that got the same number is not taken for it."""
    started = _processes.start_time(os.getpid())
    assert started is not None
    assert _processes.lives(os.getpid(), started)
    assert not _processes.lives(os.getpid(), started - 60)
    assert _processes.start_time(2**22 + 1) is None


@pytest.mark.parametrize(
    ("exit_code", "written", "code", "sentence"),
    [
        (5, "noise\nport 80 is taken: give another --port\n", "conflict", "port 80 is taken: give another --port"),
        (2, "error: --port is -1\n", "invalid_request", "--port is -1"),
        (1, '{"event": "disk full", "level": "error"}\n', "internal", "disk full"),
        (-9, "", "internal", "it printed nothing"),
    ],
)
def test_a_platform_that_ends_while_starting_is_said_with_its_last_line(tmp_path, exit_code, written, code, sentence):
    """The child's exit number picks the code, its last line is the sentence; what an earlier run wrote is not read."""
    log = tmp_path / "gateway.log"
    log.write_text("an earlier run\n" + written)
    error = local._start_failed(exit_code, log, len("an earlier run\n"))
    assert error.code == code
    assert error.message == f"the platform ended while starting (exit {exit_code}): {sentence}"


def test_a_light_install_says_which_extra_a_platform_needs(tmp_path, monkeypatch):
    """Without the platform's packages `seq up` names the command that installs them, and starts nothing."""
    monkeypatch.setattr(local, "_NEEDED", ("json", "no_such_package"))
    with pytest.raises(InternalError) as refused:
        local.start(root=tmp_path / "home")
    assert refused.value.code == "dependency_missing"
    assert "no_such_package" in refused.value.message
    assert 'pip install "sequence-ai[platform]"' in refused.value.message


@pytest.mark.parametrize(("host", "port"), [("0.0.0.0", None), (None, 9), ("127.0.0.1", 9)])
def test_a_running_platform_is_not_moved(home, host, port):
    """Asking for another address of a platform that runs is a conflict saying where it runs."""
    with pytest.raises(Conflict, match=LOCAL):
        local.start(host, port, root=home)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"pretend": {"L4": 2, "H100": 1}}, "2 x L4"),
        ({"pretend": {"H100": 2}}, "2 x L4"),
        ({"gpus_per_account": 9}, "8 GPUs per account"),
    ],
)
def test_a_running_platform_keeps_what_was_declared(home, asked, says):
    """Declaring something else than it was started with is a conflict that says what it has."""
    found = json.loads((home / "platform.json").read_text())
    (home / "platform.json").write_text(json.dumps({**found, "pretend": {"L4": 2}, "gpus_per_account": 8}))
    with pytest.raises(Conflict, match=says) as refused:
        local.start(root=home, **asked)
    assert "seq down" in refused.value.hint


def test_a_killed_platforms_pretend_cards_end_with_seq_down(tmp_path):
    """What is kept for the next start is where it listened."""
    _write(tmp_path, os.getpid(), 1.0)
    found = json.loads((tmp_path / "platform.json").read_text())
    (tmp_path / "platform.json").write_text(json.dumps({**found, "pretend": {"L4": 2}}))
    local.stop(root=tmp_path)
    assert json.loads((tmp_path / "platform.json").read_text()) == {"url": LOCAL}


def test_a_home_is_its_owners_alone(tmp_path, monkeypatch):
    """SEQ_HOME is made for nobody else to read, before anything is put there."""
    monkeypatch.setattr(local, "_NEEDED", ("no_such_package",))
    with pytest.raises(InternalError):
        local.start(root=tmp_path / "deep" / "home")
    assert (tmp_path / "deep" / "home").stat().st_mode & 0o777 == 0o700


def test_nothing_is_ended_where_nothing_runs(tmp_path):
    """`seq down` on an empty or stale home signals no process: the stale pid here is our own."""
    assert local.stop(root=tmp_path / "none") == []
    _write(tmp_path, os.getpid(), 1.0)
    (tmp_path / "ray.json").write_text(json.dumps({"pid": os.getpid(), "pid_started": 1.0, "temp_dir": "/x"}))
    assert local.stop(root=tmp_path) == []


def _api(answers, *, near=True):
    """An Api whose answers are exceptions to raise or bodies to give, in order, the last for ever."""

    def answer(_):
        body = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(body, Exception):
            raise body
        return httpx.Response(200, json=body)

    clock = FakeClock()
    return Api(Place(LOCAL if near else REMOTE, "k"), transport=httpx.MockTransport(answer), clock=clock), clock


def test_lost_contact_is_waited_out_and_said():
    """While the platform is gone each wait is a line, and the wait doubles."""
    api, clock = _api([httpx.ConnectError("refused"), httpx.ConnectError("refused"), {"ok": 1}], near=False)
    said = []
    assert api.patiently(lambda: api.get("/x"), said.append, again="wait again") == {"ok": 1}
    assert clock.slept == [5.0, 10.0]
    assert len(said) == 2
    assert "asking again in 5 s" in said[0]


def test_lost_contact_ends_after_five_minutes_saying_the_work_goes_on():
    """The last error says that nothing was abandoned and how to wait again."""
    api, clock = _api([httpx.ConnectError("refused")], near=False)
    with pytest.raises(Unavailable) as lost:
        api.patiently(lambda: api.get("/x"), lambda _: None, again="wait again")
    assert "the work goes on" in lost.value.message
    assert lost.value.hint == "wait again"
    assert max(clock.slept) == 60.0
    assert sum(clock.slept) <= 300.0


def test_a_platform_nearby_is_asked_more_often():
    """Short waits that grow to five seconds here, the published interval elsewhere; never past the deadline."""
    near, clock = _api([{}])
    pace = Pace(near, 10.0)
    while pace.wait(clock.now + 100.0) and len(clock.slept) < 30:
        pass
    assert clock.slept[0] == 0.5
    assert clock.slept[-1] == 5.0
    assert clock.slept == sorted(clock.slept)
    far, clock = _api([{}], near=False)
    pace = Pace(far, 10.0)
    deadline = clock.now + 15.0
    assert [pace.wait(deadline) for _ in range(3)] == [True, True, False]
    assert clock.slept == [10.0, 5.0]


def test_an_answer_that_is_no_platforms_is_said():
    """HTML from some other server becomes a sentence that names the address."""
    page = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(SequencesError, match="is that address a platform's"):
        Api(Place(REMOTE, "k"), transport=page).get("/v1/account")


def test_an_error_answer_becomes_its_class():
    """The code of the body picks the class of sequence_ai."""
    body = {"code": "not_found", "detail": "no policy", "retryable": False}
    gone = httpx.MockTransport(lambda _: httpx.Response(404, json=body))
    with pytest.raises(NotFound, match="no policy"):
        Api(Place(REMOTE, "k"), transport=gone).get("/x")


@pytest.mark.parametrize("name", ["", "a/b", "../x", "-a", "a b", "a" * 129])
def test_a_name_that_cannot_be_part_of_a_path_is_refused(name):
    """No name is ever put into a path unread."""
    with pytest.raises(InvalidRequest):
        named(name)
