"""The environments of other clients: made once, and what is said where they cannot be had."""

import pytest

from bench.supports import environments
from bench.supports.environments import NotMadeError, Pins, python_of
from bench.supports.rig import Clients


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    """Nothing can be fetched, and nothing was before."""
    monkeypatch.setattr(environments, "BUILD", tmp_path / "build")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))


def test_without_network_the_reason_is_told():
    """What uv said, in one line that fits a table."""
    with pytest.raises(NotMadeError, match=r"its environment could not be made: .") as told:
        python_of("published", environments.published())
    assert "\n" not in str(told.value)


def test_an_environment_is_made_once(tmp_path, monkeypatch):
    """The second time nothing is run."""
    first = python_of("empty", Pins(()))
    monkeypatch.setattr(environments, "_uv", lambda *arguments: pytest.fail(f"uv {arguments}"))
    assert python_of("empty", Pins(())) == first


def test_a_missing_client_is_a_row_without_figures():
    """Each thing it would have been measured in has its row, with the reason."""
    rows = Clients({}, "no network").absent("50 Hz", "15 Hz")
    assert [(row.what, row.not_measured) for row in rows] == [
        ("published client, 50 Hz", "no network"),
        ("published client, 15 Hz", "no network"),
    ]
    assert Clients({}, None).absent("50 Hz") == []
