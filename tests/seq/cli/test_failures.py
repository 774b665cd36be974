"""Failure output and exit numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from seq._writing import check_writable
from seq.cli._failures import code_of, failure_lines
from seq.cli._later import LATER
from seq.contract.adapters import content_hash
from seq.contract.errors import CODES
from seq.errors import SeqAuthoringError
from sequence_ai import InvalidRequest, from_response


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("policy_error", 1),
        ("internal", 1),
        ("dependency_missing", 1),
        ("invalid_request", 2),
        ("payload_too_large", 2),
        ("unauthenticated", 3),
        ("forbidden", 3),
        ("not_found", 4),
        ("gone", 4),
        ("conflict", 5),
        ("insufficient_credit", 6),
        ("budget_exhausted", 6),
        ("busy", 7),
        ("warming", 7),
        ("unavailable", 7),
        ("upstream_error", 7),
        ("timeout", 7),
    ],
)
def test_every_error_code_ends_the_command_with_its_number(seq, gateway, code, number):
    """The exit number is the one of the code that the platform answered with, and stderr names the code."""
    gateway.refuse("GET", "/v1/account", code, CODES[code].status)
    ended = seq("account")
    assert ended.code == number
    assert ended.out == ""
    assert ended.err.startswith(f"error[{code}]: the {code} sentence\n")


def test_the_table_of_exit_numbers_covers_every_code():
    """No error code of the contract is left without a number above."""
    marks = test_every_error_code_ends_the_command_with_its_number.pytestmark
    assert {code for code, _ in marks[0].args[1]} == set(CODES)


def test_a_failure_shows_lists_hint_and_nothing_else(seq, gateway):
    """Items of lists in the details come indented below the sentence, then the hint; no request id below 500."""
    gateway.refuse(
        "DELETE",
        "/v1/adapters/a",
        "conflict",
        409,
        hint="cancel them",
        request_id="r-1",
        details={"evals": ["e1", "e2"], "state": "in use"},
    )
    ended = seq("adapter", "rm", "a")
    assert ended.code == 5
    assert ended.err.splitlines() == ["error[conflict]: the conflict sentence", "  e1", "  e2", "hint: cancel them"]


def test_a_failure_of_the_platform_shows_its_request_id(seq, gateway):
    """A status of 500 is reported with the id to quote."""
    gateway.refuse("GET", "/v1/account", "internal", 500, request_id="r-77")
    assert seq("account").err.splitlines()[-1] == "request_id: r-77"


def test_a_policy_error_shows_the_policys_own_traceback():
    """A policy's built-in exception is named, with its remote traceback and the request id."""
    error = from_response(
        500,
        {
            "code": "policy_error",
            "detail": "the policy raised",
            "retryable": False,
            "request_id": "r-5",
            "details": {"exception": {"type": "KeyError", "message": "arm", "traceback": "Traceback:\n  policy.py"}},
        },
    )
    lines = failure_lines(error, code_of(error) or "")
    assert lines[0].startswith("error[policy_error]: KeyError")
    assert lines[1:] == ["Traceback:", "  policy.py", "request_id: r-5"]


def test_an_authoring_mistake_is_the_requests_fault():
    """A wrong declaration ends with 2, whatever its kind."""
    error = SeqAuthoringError("two policies")
    assert code_of(error) == "invalid_request"
    assert failure_lines(error, "invalid_request") == ["error[invalid_request]: two policies"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("eval", "report", "e1", "--csv", "no/such/out.csv"), "cannot write no/such/out.csv: no such folder"),
        (("eval", "report", "e1", "--csv", "."), "cannot write .: it is a folder"),
        (("eval", "report", "e1", "--videos", "file"), "cannot write file: it is a file"),
        (("eval", "report", "e1", "--videos", "file/in"), "cannot write file/in: what it should lie in is a file"),
        (("adapter", "pull", "a", "-o", "no/such/a.py"), "cannot write no/such/a.py: no such folder"),
        (("adapter", "pull", "a", "-o", "."), "cannot write .: it is a folder"),
        (("init", "toy-policy", "file/in"), "cannot write file/in: what it should lie in is a file"),
        (("init", "toy-policy", "x" * 300), f"cannot write {'x' * 300}: File name too long"),
    ],
)
def test_a_path_that_cannot_be_written_is_one_sentence(seq, gateway, arguments, says):
    """It names the path and why, ends with 2, and comes before a report is printed."""
    Path("file").touch()
    report = {"status": "completed", "metrics": {}, "cost_usd": 0, "dashboard_url": "", "adapter_lossy": []}
    gateway.on("GET", "/v1/eval/e1", report)
    episode = {"index": 0, "task": "go", "seed": 0}
    gateway.on("GET", "/v1/eval/e1/details", {"episodes": [episode], "progress": {"total": 1}})
    source = {"class_name": "A", "handler_ref": "m:A", "source": "", "sha256": content_hash("A", ""), "version": 1}
    gateway.on("GET", "/v1/adapters/a/source", source)
    ended = seq(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [f"error[invalid_request]: {says}"]


def test_without_permission_to_write_nothing_is_begun(monkeypatch, tmp_path):
    """A folder or a file that the system would not let this user write is refused beforehand."""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(InvalidRequest, match="no permission"):
        check_writable(tmp_path / "out.csv")


def test_a_bug_is_not_dressed_up_as_a_failure(seq, monkeypatch, gateway):
    """An exception that no request failed with comes through with its traceback."""
    assert code_of(ZeroDivisionError()) is None


def test_ctrl_c_ends_with_130(seq, gateway):
    """An interrupt is not an error of anybody's."""
    gateway.on("GET", "/v1/account", _InterruptError())
    ended = seq("account")
    assert ended.code == 130
    assert "Traceback" not in ended.err


class _InterruptError(Exception):
    def __init__(self):
        super().__init__()


@pytest.fixture(autouse=True)
def _interrupts(monkeypatch):
    """The fake gateway raises only Exceptions: this one becomes the interrupt it stands for."""
    real = httpx.Client.request

    def request(*arguments, **options):
        try:
            return real(*arguments, **options)
        except _InterruptError as stop:
            raise KeyboardInterrupt from stop

    monkeypatch.setattr(httpx.Client, "request", request)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("policy",),
        ("eval",),
        ("key",),
    ],
)
def test_a_bare_group_prints_its_help_and_ends_with_2(seq, arguments):
    """Help goes to stdout, and the number says that nothing was done."""
    ended = seq(*arguments)
    assert ended.code == 2
    assert "Usage" in ended.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("nope",),
        ("policy", "nope"),
        ("account", "--nope"),
        ("eval", "run"),
        ("eval", "run", "p"),
        ("eval", "run", "p", "--benchmark", "b", "--trials", "0"),
        ("eval", "run", "p", "--benchmark", "b", "--trials", "two"),
        ("eval", "run", "p", "--benchmark", "b", "--envs", "0"),
        ("eval", "run", "p", "--benchmark", "b", "--policy-instances", "-1"),
        ("eval", "run", "p", "--benchmark", "b", "--tasks", "a,,b"),
        ("eval", "run", "p", "--benchmark", "b", "--variants", "light"),
        ("eval", "run", "p", "--benchmark", "b", "--param", "x"),
        ("eval", "run", "p", "--benchmark", "b", "--param", "x=1", "--param", "x=2"),
        ("eval", "run", "p", "--benchmark", "b", "--sweep", "x=1"),
        ("eval", "run", "p", "--benchmark", "b", "--record", "some"),
        ("eval", "run", "p", "--benchmark", "b", "--gate", "success=>0.5"),
        ("eval", "run", "p", "--benchmark", "b", "--metric", "success"),
        ("eval", "run", "p", "--benchmark", "b", "--rerun-failed", "1", "--rerun-unsuccessful", "2"),
        ("eval", "run", "p", "--benchmark", "b", "--rerun-failed", "1", "--compare", "q"),
        ("eval", "run", "p", "--benchmark", "b", "--no-wait", "--timeout", "5"),
        ("eval", "run", "p", "--benchmark", "b", "--no-wait", "--dry-run"),
        ("eval", "report", "e", "--timeout", "5"),
        ("eval", "report", "e", "--csv", "-", "--json"),
        ("policy", "ls", "--limit", "0"),
        ("policy", "ls", "--limit", "201"),
        ("policy", "status", "a/b"),
        ("policy", "logs", "p"),
        ("policy", "logs", "p", "--rid", "r-x"),
        ("policy", "logs", "p", "--build", "--rid", "r-x"),
        ("policy", "status", "p", "--timeout", "5"),
        ("key", "create", "--deployment", "d", "--account", "a"),
        ("adapter", "show", "a@latest"),
        ("adapter", "check", "a.py", "--benchmark", "b"),
        ("models", "--kind", "template", "--endpoint", "chat"),
        ("deploy",),
        ("deploy", "a.py", "-m", "b"),
        ("deploy", "a.py", "--no-wait", "--dry-run"),
        ("--base-url", "http://x", "up"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_sent(seq, gateway, arguments):
    """One line naming the mistake, exit 2, no request and no traceback."""
    ended = seq(*arguments)
    assert ended.code == 2
    assert ended.err.startswith("error[invalid_request]: ")
    assert gateway.requests == []


@pytest.mark.parametrize("path", sorted(LATER))
def test_a_command_that_is_not_there_yet_says_so(seq, gateway, path):
    """One sentence on what to do meanwhile, exit 2."""
    ended = seq(*path.split(), "--whatever", "x")
    assert ended.code == 2
    assert "is not there yet: " in ended.err
    assert len(ended.err.splitlines()) == 1
    assert gateway.requests == []


@pytest.mark.parametrize(
    "arguments",
    [("init", "toy-policy"), ("policy", "logs", "p"), ("adapter", "rm", "a"), ("eval", "run", "p", "--benchmark", "b")],
)
def test_json_of_a_command_with_nothing_to_read_back_is_refused(seq, gateway, arguments):
    """`--json` there would print nothing, so it is refused rather than ignored."""
    ended = seq(*arguments, "--json")
    assert ended.code == 2
    assert "--json" in ended.err
    assert gateway.requests == []


def test_the_log_of_a_request_is_answered_as_the_log_without_one(seq):
    """`--rid` is known, and what is not there yet is said in the same sentence."""
    bare = seq("policy", "logs", "p")
    assert "not kept yet" in bare.err
    assert seq("policy", "logs", "p", "--rid", "r-x").err == bare.err


@pytest.mark.parametrize("arguments", [("eval", "run", "p", "--benchmark", "b"), ("deploy", "a.py")])
def test_a_dry_run_has_nothing_to_wait_for(seq, arguments):
    """`--no-wait` would change nothing there, so it is refused."""
    assert "--dry-run starts nothing to wait for" in seq(*arguments, "--dry-run", "--no-wait").err


def test_help_loads_nothing_heavy():
    """`seq --help` and `seq eval run -h` import neither numpy nor an engine nor a simulator."""
    script = (
        "import sys; from seq.cli.main import main; code = main(sys.argv[1:]); "
        "heavy = {'numpy', 'ray', 'mujoco', 'PIL', 'fastapi', 'sqlalchemy', 'scipy'} & set(sys.modules); "
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    for arguments in (["--help"], ["eval", "run", "-h"], ["--version"]):
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
