"""What `seq eval` writes: episodes as CSV or JUnit XML, recordings, trajectories, the report as a page or a picture."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from seq._html import Markup, tag
from seq._junit import junit
from seq._writing import check_folder, check_writable, writing
from seq.api import Api, named
from seq.cli._app import note
from seq.cli._failures import code_of
from seq.cli._report import csv_text
from seq.evaluating import EvalState, episodes
from seq.gates import Verdict
from seq.report import EvalReport
from sequence_ai import InvalidRequest, SequencesError

P = TypeVar("P", str, Path)
STDOUT = "-"
_VIDEO = re.compile(r"/v1/eval/[0-9A-Za-z_-]+/videos/(\d+)\.mp4")
_PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Read:
    """An eval that was read, and the way to what it left on the platform."""

    api: Api
    eval_id: str
    state: EvalState

    @cached_property
    def rows(self) -> list[Mapping[str, Any]]:
        """Every episode's row, fetched once."""
        return episodes(self.api, self.eval_id, self.state.details, note)

    @cached_property
    def report(self) -> EvalReport:
        """The report with its details."""
        return self.state.as_report(lambda: self.rows)

    @property
    def start(self) -> str:
        """How the files of this eval begin: the first 8 characters of its id."""
        manifest = self.state.details.get("manifest") or {}
        return f"eval-{(manifest.get('eval_id') or self.eval_id)[:8]}"


@dataclass(frozen=True)
class Files:
    """Where things are to be written; None for what was not asked for."""

    csv: str | None = None
    junit: Path | None = None
    videos: Path | None = None
    trajectories: Path | None = None
    html: Path | None = None
    plot: Path | None = None

    def check(self) -> None:
        """Raises InvalidRequest on what could not be written; touches nothing."""
        csv = Path(self.csv) if self.csv not in (None, STDOUT) else None
        paths = [path for path in (csv, self.junit, self.html, self.plot) if path is not None]
        twice = next((path for path, times in Counter(path.absolute() for path in paths).items() if times > 1), None)
        if twice is not None:
            raise InvalidRequest(f"two flags would write {twice}: give each a file of its own", code="invalid_request")
        for path in paths:
            check_writable(path)
        for folder in (self.videos, self.trajectories):
            if folder is not None:
                check_folder(folder)
        if self.plot is not None:
            _refuse_picture(self.plot)

    def save(self, read: Read, verdicts: Sequence[Verdict] = ()) -> bool:
        """Write all of it. What fails is told and the rest still comes; True when something failed."""
        writer = _Writer(read)
        if self._of_episodes and writer.attempt(lambda: read.rows, "its episodes"):
            writer.each(self.csv, writer.csv)
            writer.each(self.junit, lambda path: writer.junit(path, verdicts))
            writer.each(self.trajectories, writer.trajectories)
        writer.each(self.videos, writer.videos)
        writer.each(self.html, writer.html)
        writer.each(self.plot, writer.plot)
        return writer.failed

    @property
    def _of_episodes(self) -> bool:
        return any(path is not None for path in (self.csv, self.junit, self.trajectories))


class _Writer:
    def __init__(self, read: Read) -> None:
        self.read = read
        self.failed = False

    def each(self, path: P | None, save: Callable[[P], object]) -> None:
        """Write to a path that was asked for."""
        if path is not None:
            self.attempt(lambda: save(path))

    def attempt(self, work: Callable[[], object], what: str | None = None) -> bool:
        """Do it, or say why not; whether it was done."""
        try:
            work()
        except SequencesError as error:
            self.fail(code_of(error) or "internal", f"{what}: {error.message}" if what else error.message)
            return False
        return True

    def fail(self, code: str, sentence: str) -> None:
        """Tell what went wrong."""
        self.failed = True
        note(f"error[{code}]: {sentence}")

    def csv(self, path: str) -> None:
        rows = self.read.rows
        if not rows:
            self.fail("not_found", f"eval {self.read.eval_id} has no episodes to write")
        elif path == STDOUT:
            sys.stdout.write(csv_text(rows))
        else:
            _write(Path(path), csv_text(rows))
            note(f"wrote {len(rows)} episode(s) to {path}")

    def junit(self, path: Path, verdicts: Sequence[Verdict]) -> None:
        _write(path, junit(self.read.report, self.read.state.details, verdicts, self.read.rows))
        note(f"wrote {path}")

    def videos(self, folder: Path) -> None:
        _make(folder)
        links = self.read.report.videos
        for number, link in enumerate(links):
            target = folder / f"{self.read.start}-{number}.mp4"
            self.attempt(partial(self._fetch_video, link, target), link)
        if not links:
            note(f"eval {self.read.eval_id} has no recordings")

    def trajectories(self, folder: Path) -> None:
        _make(folder)
        indices = [row["index"] for row in self.read.rows if row.get("trajectory")]
        for index in indices:
            path = f"/v1/eval/{named(self.read.eval_id)}/trajectories/{index}.jsonl.gz"
            target = folder / f"{self.read.start}-{index}.jsonl.gz"
            self.attempt(partial(self._fetch, path, target), f"episode {index}")
        if not indices:
            note(f"eval {self.read.eval_id} has no trajectories")

    def html(self, path: Path) -> None:
        _write(path, _page(self.read.report, self.read.eval_id))
        note(f"wrote {path}")

    def plot(self, path: Path) -> None:
        figure = self.read.report.plot()
        with writing(path):
            figure.savefig(path)
        note(f"wrote {path}")

    def _fetch_video(self, link: str, target: Path) -> None:
        found = _VIDEO.search(link)
        if found is None:
            raise SequencesError("that is no recording's address", code="internal")
        # The path only: it is fetched from where we are, whatever name the platform gives itself.
        self._fetch(found.group(), target)

    def _fetch(self, path: str, target: Path) -> None:
        content = self.read.api.download(path)
        with writing(target):
            target.write_bytes(content)
        note(f"saved {target}")


def _page(report: EvalReport, eval_id: str) -> str:
    """The report as a document of its own."""
    head = tag("head", Markup('<meta charset="utf-8">'), tag("title", f"eval {eval_id}"))
    body = tag("body", Markup(report._repr_html_()))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _refuse_picture(path: Path) -> None:
    if path.suffix.lower() not in _PICTURES:
        raise InvalidRequest(f"--plot {path}: its name must end in {', '.join(_PICTURES)}", code="invalid_request")
    if find_spec("matplotlib") is None:
        raise InvalidRequest(
            '--plot needs matplotlib, which is not here: pip install "sequence-ai[data]"', code="invalid_request"
        )


def _make(folder: Path) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _write(path: Path, text: str) -> None:
    with writing(path):
        path.write_text(text, encoding="utf-8", newline="")
