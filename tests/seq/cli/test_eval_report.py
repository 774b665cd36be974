"""`seq eval report` and `seq eval status`: what is shown, what is written where, and what happens when it cannot be."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import pytest

from seq.contract.errors import CODES
from tests.supports.outcome import leaf, outcome

ID = "0123456789abcdef0123456789abcdef"
REPORT = ("eval", "report", ID)
MP4 = b"\0\0\0\x20ftypisom"
GZIP = b"\x1f\x8b\x08"


@pytest.fixture
def there(gateway):
    """A completed eval of two tasks and four episodes with two recordings; of the third there is no trajectory."""
    body, details = outcome(seeds=2, rates={"arm-a": 1.0})
    details["episodes"][2]["trajectory"] = False
    details["manifest"]["eval_id"] = ID
    body["videos"] = [f"https://elsewhere.example/v1/eval/{ID}/videos/{index}.mp4" for index in (0, 3)]
    gateway.on("GET", f"/v1/eval/{ID}", body)
    gateway.on("GET", f"/v1/eval/{ID}/details", details)
    for index in range(4):
        gateway.on("GET", f"/v1/eval/{ID}/videos/{index}.mp4", MP4 + bytes([index]))
        gateway.on("GET", f"/v1/eval/{ID}/trajectories/{index}.jsonl.gz", GZIP + bytes([index]))
    return body, details


def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_recordings_are_saved_by_running_number(seq, there):
    """Fetched from the platform that was asked, whatever host the links name; each is told."""
    ended = seq(*REPORT, "--videos", "clips/new")
    assert ended.code == 0, ended.err
    assert files("clips/new") == {"eval-01234567-0.mp4": MP4 + b"\0", "eval-01234567-1.mp4": MP4 + b"\3"}
    assert "saved clips/new/eval-01234567-1.mp4" in ended.err.splitlines()
    assert "report: completed" in ended.out


def test_trajectories_are_saved_by_index_where_there_are_any(seq, gateway, there):
    """Of the episodes whose row says so, and no others are asked for."""
    ended = seq(*REPORT, "--trajectories", "acts")
    assert ended.code == 0, ended.err
    assert files("acts") == {f"eval-01234567-{index}.jsonl.gz": GZIP + bytes([index]) for index in (0, 1, 3)}
    assert f"/v1/eval/{ID}/trajectories/2.jsonl.gz" not in [request.url.path for request in gateway.requests]


def test_an_id_that_was_shortened_names_the_same_files(seq, gateway, there):
    """The platform tells the whole id."""
    for path in ("", "/details", "/trajectories/0.jsonl.gz"):
        gateway.answers["GET", f"/v1/eval/01234567-89AB{path}"] = gateway.answers["GET", f"/v1/eval/{ID}{path}"]
    seq("eval", "report", "01234567-89AB", "--trajectories", "acts")
    assert "eval-01234567-0.jsonl.gz" in files("acts")


@pytest.mark.parametrize(("flag", "what"), [("--videos", "recordings"), ("--trajectories", "trajectories")])
def test_nothing_to_save_is_said(seq, gateway, there, flag, what):
    """An empty folder alone would leave one wondering; nothing has failed."""
    body, details = there
    gateway.on("GET", f"/v1/eval/{ID}", {**body, "videos": []})
    gateway.on("GET", f"/v1/eval/{ID}/details", {**details, "episodes": [], "episodes_total": 0})
    ended = seq(*REPORT, flag, "out")
    assert ended.code == 0
    assert f"eval {ID} has no {what}" in ended.err


def test_what_cannot_be_fetched_is_told_and_the_rest_still_comes(seq, gateway, there):
    """A refusal, a lost connection and a link that leads elsewhere: 1, each named, and all other files are there."""
    body, _ = there
    gateway.on("GET", f"/v1/eval/{ID}", {**body, "videos": ["file:///etc/passwd", *body["videos"]]})
    gateway.refuse("GET", f"/v1/eval/{ID}/videos/0.mp4", "not_found", 404)
    gateway.on("GET", f"/v1/eval/{ID}/trajectories/1.jsonl.gz", httpx.ReadError("gone"))
    ended = seq(*REPORT, "--videos", "clips", "--trajectories", "acts", "--csv", "out.csv")
    assert ended.code == 1
    assert "report: completed" in ended.out
    assert sorted(files("clips")) == ["eval-01234567-2.mp4"]
    assert sorted(files("acts")) == ["eval-01234567-0.jsonl.gz", "eval-01234567-3.jsonl.gz"]
    assert Path("out.csv").exists()
    errors = [line for line in ended.err.splitlines() if line.startswith("error")]
    assert [line.partition(": ")[0] for line in errors] == ["error[unavailable]", "error[internal]", "error[not_found]"]
    assert "episode 1" in errors[0]
    assert "file:///etc/passwd" in errors[1]
    assert f"/v1/eval/{ID}/videos/0.mp4" in errors[2]


def test_the_csv_goes_to_a_file_or_to_stdout(seq, there):
    """A row an episode; on stdout nothing else, so that it can be piped, and the rest aside."""
    ended = seq(*REPORT, "--csv", "out.csv", "--gate", "success >= 1")
    assert ended.code == 0
    assert "report: completed" in ended.out
    assert "wrote 4 episode(s) to out.csv" in ended.err
    piped = seq(*REPORT, "--csv", "-", "--gate", "success >= 1")
    assert piped.out == Path("out.csv").read_text()
    assert "gate passed: success >= 1" in piped.err
    rows = list(csv.DictReader(io.StringIO(piped.out)))
    assert [row["index"] for row in rows] == ["0", "1", "2", "3"]
    assert rows[0]["variation"] == "light=bright"


def test_junit_and_page_and_picture_are_written(seq, there):
    """JUnit XML with the gates, one self-contained page, a picture in each form."""
    plots = [word for form in ("png", "svg", "pdf") for word in ("--plot", f"plot.{form}")]
    ended = seq(*REPORT, "--junit", "out.xml", "--html", "out.html", "--gate", "success >= 1")
    assert ended.code == 0, ended.err
    suites = {suite.get("name"): suite for suite in ET.parse("out.xml").getroot()}
    assert suites["arm-a"].get("tests") == "4"
    assert suites["gates"].get("failures") == "0"
    page = Path("out.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>\n<html")
    assert f"<title>eval {ID}</title>" in page
    assert "arm-a v3" in page
    assert_fetches_nothing(page)
    for flag, path in zip(plots[::2], plots[1::2], strict=True):
        assert seq(*REPORT, flag, path).code == 0
    assert Path("plot.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path("plot.svg").read_text()
    assert Path("plot.pdf").read_bytes().startswith(b"%PDF")


def assert_fetches_nothing(page):
    """No script, no style sheet, no picture from elsewhere, and every element that was opened is closed."""

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open = []

        def handle_starttag(self, tag, attrs):
            assert tag not in ("script", "link", "img", "iframe")
            assert not {"src", "srcset"} & dict(attrs).keys()
            if tag != "meta":
                self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    reader = Reader()
    reader.feed(page)
    assert reader.open == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--csv", "no/out.csv"), "cannot write no/out.csv: no such folder"),
        (("--junit", "no/out.xml"), "cannot write no/out.xml: no such folder"),
        (("--html", "."), "cannot write .: it is a folder"),
        (("--plot", "no/p.png"), "cannot write no/p.png: no such folder"),
        (("--plot", "p.bmp"), "--plot p.bmp: its name must end in .png, .svg, .pdf"),
        (("--plot", "p"), "--plot p: its name must end in .png, .svg, .pdf"),
        (("--videos", "file"), "cannot write file: it is a file"),
        (("--trajectories", "file/in"), "cannot write file/in: what it should lie in is a file"),
        (("--csv", "a.txt", "--html", "./a.txt"), "two flags would write"),
        (("--timeout", "5"), "--timeout goes with --wait"),
        (("--wait", "--timeout", "inf"), "--timeout: give a number of seconds of at least 0 (got inf)"),
        (("--gate", "success"), "METRIC OP NUMBER"),
        (("--csv", "-", "--json"), "both go to stdout"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_asked(seq, gateway, arguments, says):
    """Exit 2, one sentence, nothing made."""
    Path("file").touch()
    ended = seq(*REPORT, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err.splitlines()[0]
    assert gateway.requests == []
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_a_picture_without_matplotlib_is_refused_before_anything_is_asked(seq, gateway, monkeypatch):
    """With what to install."""
    monkeypatch.setattr("seq.cli._eval_files.find_spec", lambda name: None)
    ended = seq(*REPORT, "--plot", "p.png")
    assert ended.code == 2
    assert 'pip install "sequence-ai[data]"' in ended.err
    assert gateway.requests == []


def test_many_episodes_are_read_once_for_all_that_is_written(seq, gateway, there):
    """Page by page, lost contact waited out, and not again for each file."""
    _, details = there
    rows = details["episodes"]
    gateway.on("GET", f"/v1/eval/{ID}/details", {**details, "episodes": [], "episodes_total": 4})
    gateway.on(
        *("GET", f"/v1/eval/{ID}/episodes"),
        {"episodes": rows[:2], "next_cursor": "o2"},
        httpx.ConnectError("refused"),
        {"episodes": rows[2:], "next_cursor": None},
    )
    ended = seq(*REPORT, "--csv", "out.csv", "--junit", "out.xml", "--trajectories", "acts")
    assert ended.code == 0, ended.err
    assert len(Path("out.csv").read_text().splitlines()) == 5
    assert len(files("acts")) == 3
    asked = [str(request.url.query, "ascii") for request in gateway.requests if request.url.path.endswith("/episodes")]
    assert asked == ["limit=200", "limit=200&cursor=o2", "limit=200&cursor=o2"]
    assert "lost contact" in ended.err


def test_pages_that_lead_in_a_circle_are_told(seq, gateway, there):
    """Instead of reading for ever."""
    _, details = there
    gateway.on("GET", f"/v1/eval/{ID}/details", {**details, "episodes": [], "episodes_total": 4})
    gateway.on("GET", f"/v1/eval/{ID}/episodes", {"episodes": details["episodes"], "next_cursor": "o2"})
    ended = seq(*REPORT, "--csv", "out.csv")
    assert ended.code == 1
    assert "in a circle" in ended.err


def test_waiting_for_a_report(seq, gateway, there):
    """It is looked at until it has ended; 7 when the time is over; 130 at Ctrl-C, with how to wait again."""
    body, _ = there
    running = {**body, "status": "running"}
    assert seq(*REPORT).code == 0
    gateway.on("GET", f"/v1/eval/{ID}", running, running, body)
    assert seq(*REPORT, "--wait").code == 0
    gateway.on("GET", f"/v1/eval/{ID}", running)
    assert seq(*REPORT).code == 1
    ended = seq(*REPORT, "--wait", "--timeout", "30")
    assert ended.code == 7
    assert f"`seq eval report {ID} --wait` waits again" in ended.err
    gateway.on("GET", f"/v1/eval/{ID}", KeyboardInterrupt())
    ended = seq(*REPORT, "--wait")
    assert ended.code == 130
    assert f"`seq eval report {ID} --wait` waits again" in ended.err


def test_gates_of_a_report_end_with_8(seq, gateway, there):
    """Also where the eval still runs: what has not ended meets no bar."""
    body, _ = there
    assert seq(*REPORT, "--gate", "success >= 1").code == 0
    assert seq(*REPORT, "--gate", "success > 1").code == 8
    gateway.on("GET", f"/v1/eval/{ID}", {**body, "status": "running"})
    assert seq(*REPORT, "--gate", "success >= 1").code == 8


def test_the_report_as_json(seq, there):
    """Before the command and at its end; what the platform sent, and how each bar was met."""
    body, details = there
    shown = json.loads(seq(*REPORT, "--json").out)
    assert shown == {"report": body, "details": details} == json.loads(seq("--json", *REPORT).out)
    ended = seq(*REPORT, "--json", "--gate", "success > 1", "--csv", "out.csv")
    assert ended.code == 8
    assert [(each["gate"], each["passed"]) for each in json.loads(ended.out)["gates"]] == [("success > 1", False)]
    assert Path("out.csv").exists()


def test_a_report_over_several_arms_is_whole(seq, gateway):
    """The CSV names the arm, and trajectories of every arm are saved, their indices being the eval's."""
    body, details = outcome(("go",), 2, {"arm-a": 1.0, "arm-b": 0.5})
    details["episodes"] = [{**row, "index": index} for index, row in enumerate(details["episodes"])]
    gateway.on("GET", f"/v1/eval/{ID}", body)
    gateway.on("GET", f"/v1/eval/{ID}/details", details)
    for index in range(4):
        gateway.on("GET", f"/v1/eval/{ID}/trajectories/{index}.jsonl.gz", GZIP)
    ended = seq(*REPORT, "--csv", "out.csv", "--trajectories", "acts")
    assert ended.code == 0, ended.err
    rows = list(csv.DictReader(io.StringIO(Path("out.csv").read_text())))
    assert [row["arm"] for row in rows] == ["arm-a", "arm-a", "arm-b", "arm-b"]
    assert len(files("acts")) == 4


# Status and cancel.


def test_the_wait_in_line_is_shown(seq, gateway):
    """What it needs, what is free, how long it has waited, when it gives up."""
    queue = {"cards": 3, "available": None, "waited_s": 42.0, "gives_up_at": "2026-01-01T00:10:00.000Z"}
    gateway.on("GET", f"/v1/eval/{ID}", {**outcome()[0], "status": "queued", "metrics": {}})
    gateway.on("GET", f"/v1/eval/{ID}/details", {"queue": queue, "progress": {"done": 0, "total": 20}})
    assert seq("eval", "status", ID).out.splitlines() == [
        f"eval {ID}: queued  0 of 20 episodes done",
        "  in line: needs 3 card(s), unknown free now, waited 42 s, gives up at 2026-01-01T00:10:00.000Z",
    ]


def test_the_metrics_so_far_are_shown_with_their_intervals(seq, gateway, there):
    """Of one arm, as in its report; and what runs, failed, or will not run."""
    body, details = there
    progress = {"done": 4, "total": 9, "running": 2, "failed": 1, "not_run": 0}
    gateway.on("GET", f"/v1/eval/{ID}", {**body, "status": "running"})
    gateway.on("GET", f"/v1/eval/{ID}/details", {**details, "progress": progress})
    ended = seq("eval", "status", ID)
    assert ended.code == 0
    assert ended.out.splitlines()[0] == f"eval {ID}: running  4 of 9 episodes done, 2 running, 1 failed"
    assert "success:                 1.000  n=4  95% CI [0.510, 1.000] *" in ended.out


def test_several_arms_are_shown_one_by_one(seq, gateway, there):
    """How far each is and its metrics so far."""
    body, details = there
    arms = [
        {"arm": "arm-a", "done": 12, "total": 20, "running": 1, "metrics": {"success": leaf([1.0] * 9 + [0.0] * 3)}},
        {"arm": "arm-b", "done": 2, "total": 20, "metrics": {"success": leaf([0.0, 1.0])}},
        {"arm": "arm-c", "done": 0, "total": 20, "metrics": {}},
    ]
    gateway.on("GET", f"/v1/eval/{ID}", {**body, "status": "running"})
    gateway.on("GET", f"/v1/eval/{ID}/details", {**details, "progress": {"done": 14, "total": 60, "arms": arms}})
    assert seq("eval", "status", ID).out.splitlines()[1:] == [
        "  arm arm-a:  12 of 20 episodes done, 1 running  success 0.750 n=12 95% CI [0.468, 0.911]",
        "  arm arm-b:  2 of 20 episodes done  success 0.500 n=2 95% CI [0.095, 0.905] *",
        "  arm arm-c:  0 of 20 episodes done",
    ]


def test_watching_an_eval(seq, gateway, there):
    """It is followed to its end, as often as asked, for longer than a report is waited for; 1 where it failed."""
    body, _ = there
    running = {**body, "status": "running"}
    gateway.on("GET", f"/v1/eval/{ID}", running, running, running, {**body, "status": "failed"})
    ended = seq("eval", "status", ID, "--watch", "--every", "3600")
    assert ended.code == 1
    assert gateway.clock.slept == [3600.0, 3600.0, 3600.0]
    assert ended.err.splitlines() == ["running", "failed"]
    assert ended.out.splitlines()[0] == f"eval {ID}: failed"


def test_watching_ends_at_ctrl_c_with_how_to_go_on(seq, gateway, there):
    """130."""
    body, _ = there
    gateway.on("GET", f"/v1/eval/{ID}", {**body, "status": "running"}, KeyboardInterrupt())
    ended = seq("eval", "status", ID, "--watch")
    assert ended.code == 130
    assert f"`seq eval status {ID} --watch` waits again" in ended.err


@pytest.mark.parametrize(
    "flags", [("--every", "5"), ("--watch", "--every", "0"), ("--watch", "--every", "nan"), ("--watch", "--every", "x")]
)
def test_a_pace_that_cannot_be_is_refused(seq, gateway, flags):
    """`--every` without `--watch` would change nothing."""
    assert seq("eval", "status", ID, *flags).code == 2
    assert gateway.requests == []


def test_the_status_as_json(seq, there):
    """Everything that was read."""
    body, details = there
    shown = json.loads(seq("eval", "status", ID, "--json").out)
    assert shown == {"status": "completed", "report": body, "details": details}


def test_a_cancel_says_the_new_state(seq, gateway):
    """And nothing else is asked."""
    gateway.on("POST", f"/v1/eval/{ID}/cancel", {"eval_id": ID, "status": "canceled"})
    assert seq("eval", "cancel", ID).out == f"eval {ID}: canceled\n"
    assert len(gateway.requests) == 1


@pytest.mark.parametrize("arguments", [REPORT, ("eval", "status", ID), ("eval", "cancel", ID)])
@pytest.mark.parametrize("code", sorted(CODES))
def test_every_refusal_ends_with_its_number(seq, gateway, arguments, code):
    """Of each command that reads or stops an eval."""
    method, path = ("POST", f"/v1/eval/{ID}/cancel") if "cancel" in arguments else ("GET", f"/v1/eval/{ID}")
    gateway.refuse(method, path, code, CODES[code].status)
    ended = seq(*arguments)
    assert ended.code == CODES[code].exit
    assert ended.err.startswith(f"error[{code}]: ")
