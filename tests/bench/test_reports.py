"""Reading a large eval: the made-up one, and the subject in small."""

import pytest

from bench import reports
from bench.supports import million

EPISODES = 2060


@pytest.fixture
def built(tmp_path):
    """A completed eval of made-up episodes."""
    million.build(tmp_path, EPISODES).store.close()
    ctx = million.opened(tmp_path)
    yield ctx
    ctx.store.close()


def test_the_made_up_eval_reads_as_a_real_one(built):
    """It has ended; all its episodes have scores but those that failed; tasks, suites and surfaces are all there."""
    client, path = million.client(built), million.path_of(built)
    report, details = client.get(path).json(), client.get(f"{path}/details").json()
    success = report["metrics"]["success"]
    counts = details["counts"]
    assert report["status"] == "completed"
    assert (counts["planned"], counts["ran"], counts["not_run"]) == (EPISODES, EPISODES, 0)
    assert counts["scored"] == success["n"] == EPISODES - counts["errored"]
    assert 0 < counts["errored"] < 20
    assert {row["task"] for row in success["per_task"]} == set(million.TASKS)
    assert {row["suite"] for row in success["per_suite"]} == set(million.SUITES)
    assert set(details["intervals"]["success"]["per_variant"]) == {f"surface={name}" for name in million.SURFACES}
    assert [row["index"] for row in details["episodes"]] == list(range(EPISODES))


def test_any_page_can_be_asked_for(built):
    """The page that begins with an episode, without those before it."""
    asked = {"limit": reports.PAGE, "cursor": million.cursor(1800)}
    page = million.client(built).get(f"{million.path_of(built)}/episodes", params=asked).json()
    assert [row["index"] for row in page["episodes"]] == list(range(1800, 2000))


@pytest.mark.e2e
def test_a_small_run_yields_what_is_promised():
    """Every promise is about a figure that was measured, over as many episodes as asked."""
    rows = {row.what: row.figures for row in reports.run(reports.TINY)}
    assert all(promise.figure in rows[promise.what] for promise in reports.PROMISES)
    assert rows[reports.REPORT]["episodes"] == reports.TINY.episodes
    assert (rows[reports.PAGES]["pages"], rows[reports.PAGES]["read"]) == (3, 3)
