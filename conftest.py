"""Which tests hold what they run to real time, so that they need the machine for themselves."""

from __future__ import annotations

import re

import pytest

REAL_TIME = re.compile(
    r"tests/e2e/test_(estimate|faults_\w+|interrupts|ten_robots|robot)\.py|tests/sequence_ai/|examples/robots/"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks them; those of the client that run on a clock moved by hand are not among them."""
    for item in items:
        here = item.path.relative_to(item.config.rootpath).as_posix()
        if REAL_TIME.match(here) and (not here.startswith("tests/sequence_ai/") or item.get_closest_marker("e2e")):
            item.add_marker(pytest.mark.realtime)
