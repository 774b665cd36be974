"""Platforms for the end-to-end tests; each has a home of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import CONTENT, Platform
from tests.e2e.workers import Gateway


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is an end-to-end test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)


def _make(folder: Path) -> Platform:
    home = folder / "home"
    home.mkdir(parents=True)
    return Platform(home)


@pytest.fixture
def bare_home() -> Iterator[Platform]:
    """A home with no platform in it yet; whatever was started is ended."""
    folder = Path(tempfile.mkdtemp(prefix="seq-e2e-"))
    platform = _make(folder)
    yield platform
    platform.run("down")
    left = platform.processes()
    for process in left:
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"`seq down` left processes: {left}"


@pytest.fixture
def platform(bare_home: Platform) -> Platform:
    """A platform of the test's own."""
    bare_home.seq("up")
    return bare_home


@pytest.fixture(scope="session")
def shared() -> Iterator[Platform]:
    """One platform for all tests that leave it as they found it, with the toys and the Panda deployed."""
    folder = Path(tempfile.mkdtemp(prefix="seq-e2e-"))
    platform = _make(folder)
    platform.seq("up")
    platform.deploy(*CONTENT)
    yield platform
    platform.run("down")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    """Where a worker that is started without a platform reports to."""
    made = Gateway()
    yield made
    made.server.shutdown()
    made.server.server_close()
