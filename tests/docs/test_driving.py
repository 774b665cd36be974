"""The page on the client names a test for each rule of its loop."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_that_the_page_names_is_there() -> None:
    """A rule whose test was renamed or removed is found here."""
    named = re.findall(r"`(test_\w+)::(test_\w+)`", (ROOT / "docs/driving.md").read_text(encoding="utf-8"))
    assert len(named) > 40
    missing = [
        f"{file}::{name}"
        for file, name in named
        if f"def {name}(" not in (ROOT / f"tests/sequence_ai/{file}.py").read_text(encoding="utf-8")
    ]
    assert missing == []
