"""Finished episodes of large evals filed in Parquet: nothing a reader sees tells where an episode lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert

from runner.evals import columns, parts, queue, table
from runner.store.blobs import Blobs
from runner.store.queries import episodes, evals
from runner.store.tables import Episode, Part
from seq.contract.internal import EpisodeOutcome, LeaseRequest

from .conftest import BENCHMARK, POLICY, add_benchmark, add_policy, failing, open_instances, outcome, play, run

BODY = {"model": "arm", "benchmark": "table"}
LARGE = {**BENCHMARK, "conditions": {"tasks": ["reach", "push"], "seeds": list(range(20))}}
SIZE = 10


@pytest.fixture
def large(ctx, account):
    """The benchmark's next version has 40 starts."""
    add_benchmark(ctx, account, LARGE)


@pytest.fixture
def start(client, large):
    """Submit an eval; its id."""

    def begin(**what):
        return client.post("/v1/eval", json={**BODY, **what}).json()["eval_id"]

    return begin


def result(leased):
    """Values, times and endings that differ from episode to episode; some end in errors."""
    index = leased.condition.index
    if index % 7 == 3:
        return outcome(leased, **failing(f"ValueError: row {index % 2}"), phase_s={"reset": 0.1}, phase_n={"reset": 1})
    return outcome(
        leased,
        metrics={"success": float(index % 3 == 0), **({"dist": index / 7} if index % 2 else {})},
        steps=index,
        truncated=index % 5 == 0,
        trajectory=index % 2 == 0,
        recorded=index % 20 == 0,
        record_error="the disk is full" if index == 4 else None,
        act_max_s=index / 100,
        phase_s={"step": 0.1 * index, "act": 0.2},
        phase_n={"step": index, "act": 2},
    )


def seen(client, eval_id):
    """Everything that is told of an eval, sums of times to nine digits: they depend on the order of adding."""
    details = client.get(f"/v1/eval/{eval_id}/details").json()
    report = client.get(f"/v1/eval/{eval_id}").json()
    kept = ("intervals", "means", "arms", "paired", "episodes", "errors", "progress", "counts")
    rounded = {
        "timing": {name: pytest.approx(mean, rel=1e-9) for name, mean in report.pop("timing")["step_ms"].items()},
        "latency": {name: pytest.approx(value, rel=1e-9) for name, value in details["latency"].items()},
    }
    return report, {name: details[name] for name in kept}, rounded


def filed(ctx, eval_id):
    with ctx.store.read() as session:
        arms = [(arm.filed, arm.filed_failed) for arm in evals.arms(session, eval_id)]
        found = [(part.arm, part.first, part.last, part.rows) for part in episodes.parts(session, eval_id)]
        return arms, found, episodes.unfiled(session, eval_id)


def test_filing_changes_nothing_that_is_told(ctx, client, controller, start):
    """Report, intervals, errors, episodes, progress: equal to the last bit, before and after."""
    eval_id = start()
    controller.tick()
    play(ctx, eval_id, lambda e: result(e) if e.condition.index < 35 else None)
    before = seen(client, eval_id)
    assert [parts.file_finished(ctx, SIZE) for _ in range(5)] == [1, 1, 1, 0, 0]
    assert filed(ctx, eval_id) == ([(30, 4)], [(0, 0, 9, 10), (0, 10, 19, 10), (0, 20, 29, 10)], {0: 5})
    assert seen(client, eval_id) == before


def test_pages_go_across_parts_and_rows(ctx, client, controller, start):
    """Every episode once, by index, however small the page and wherever it begins."""
    eval_id = start()
    controller.tick()
    play(ctx, eval_id, result)
    parts.file_finished(ctx, SIZE)
    parts.file_finished(ctx, SIZE)
    whole = client.get(f"/v1/eval/{eval_id}/episodes", params={"limit": 200}).json()["episodes"]
    assert [row["index"] for row in whole] == list(range(40))
    for limit in (1, 7, 10, 11):
        found, cursor = [], None
        while not found or cursor is not None:
            asked = {"limit": limit, **({"cursor": cursor} if cursor else {})}
            body = client.get(f"/v1/eval/{eval_id}/episodes", params=asked).json()
            found, cursor = [*found, *body["episodes"]], body["next_cursor"]
        assert found == whole


def test_a_result_that_comes_again_after_filing_changes_nothing(ctx, client, controller, start):
    """It is acknowledged, counted as nothing new, and makes no row; an index that the eval has not is still refused."""
    eval_id = start()
    controller.tick()
    (instance,) = open_instances(ctx, eval_id)
    leased = queue.lease(ctx, instance.id, LeaseRequest(free=12)).episodes
    assert queue.take_results(ctx, instance.id, [result(one) for one in leased]) == 12
    parts.file_finished(ctx, SIZE)
    before = seen(client, eval_id)
    again = [outcome(one, metrics={"success": 0.5}) for one in leased]
    assert queue.take_results(ctx, instance.id, again) == 0
    assert seen(client, eval_id) == before
    assert filed(ctx, eval_id)[2] == {0: 2}
    with pytest.raises(queue.Refused, match="no episode 40"):
        queue.take_results(ctx, instance.id, [EpisodeOutcome(index=40, attempt=1, steps=1, acts=1)])


def test_only_what_is_finished_in_order_is_filed(ctx, controller, start):
    """One that is still under way holds back what comes after it, so that a part is a run of an arm's episodes."""
    eval_id, held = start(), []
    controller.tick()
    play(ctx, eval_id, lambda e: result(e) if e.condition.index != 12 else held.append(e))
    assert [parts.file_finished(ctx, SIZE) for _ in range(3)] == [1, 0, 0]
    (instance,) = open_instances(ctx, eval_id)
    queue.take_results(ctx, instance.id, [result(one) for one in held])
    assert [parts.file_finished(ctx, SIZE) for _ in range(3)] == [1, 1, 0]
    assert filed(ctx, eval_id)[2] == {0: 10}


def test_the_newest_stay_rows(ctx, clock, controller, start):
    """They tell that an eval gets on: losses before them are not counted against it, however much was filed."""
    eval_id = start()
    for _ in range(4):
        controller.tick()
        (instance,) = open_instances(ctx, eval_id)
        ctx.cluster.lose(instance.id)
        clock.sleep(1)
        controller.tick()
    controller.tick()
    play(ctx, eval_id, result, most=11)
    clock.sleep(1)
    parts.file_finished(ctx, SIZE)
    (instance,) = open_instances(ctx, eval_id)
    ctx.cluster.lose(instance.id)
    controller.tick()
    with ctx.store.read() as session:
        assert evals.get(session, eval_id).status == "running"


def test_errors_after_what_was_filed_are_no_failure_from_the_start(ctx, client, controller, start):
    """A long eval whose later episodes fail goes on to its end."""
    eval_id = start()
    controller.tick()
    play(ctx, eval_id, outcome, most=11)
    parts.file_finished(ctx, SIZE)
    play(ctx, eval_id, lambda e: outcome(e, **failing()), most=20)
    controller.tick()
    assert client.get(f"/v1/eval/{eval_id}").json()["status"] == "running"
    run(ctx, controller, eval_id, lambda e: outcome(e, **failing()))
    report = client.get(f"/v1/eval/{eval_id}").json()
    assert (report["status"], report["metrics"]["success"]["n"]) == ("completed", 11)


def test_a_rerun_goes_over_parts(ctx, client, controller, start):
    """Of its own and of the earlier eval's: what is played again is left out of the parts that had it as an error."""
    first = start()
    controller.tick()
    play(ctx, first, result)
    for _ in range(3):
        parts.file_finished(ctx, SIZE)
    controller.tick()
    errors = [index for index in range(40) if index % 7 == 3]
    assert client.get(f"/v1/eval/{first}").json()["status"] == "completed"
    second = start(rerun_of=first)
    controller.tick()
    play(ctx, second, lambda e: outcome(e, metrics={"success": 0.0, "dist": 1.0}))
    assert parts.file_finished(ctx, 3) == 1
    controller.tick()
    report, told, _ = seen(client, second)
    assert report["status"] == "completed"
    assert report["errors"][0] == "recording failed: the disk is full (1 episodes; their scores stand)"
    assert report["metrics"]["success"]["n"] == 40
    assert [row["metrics"]["success"] for row in told["episodes"]] == [
        0.0 if index in errors else float(index % 3 == 0) for index in range(40)
    ]
    assert told["counts"]["errored"] == 0
    ctx.blobs.put(f"eval/{first}/2/1/trajectory.jsonl.gz", b"old")
    assert client.get(f"/v1/eval/{second}/trajectories/2.jsonl.gz").content == b"old"


def test_every_arm_is_filed_by_itself(ctx, client, controller, account, start):
    """A part holds episodes of one arm alone, and pairs are found across the parts of both."""
    add_policy(ctx, account, {**POLICY, "name": "leg"})
    eval_id = start(compare=["leg"])
    controller.tick()
    play(ctx, eval_id, result)
    before = seen(client, eval_id)
    for _ in range(4):
        parts.file_finished(ctx, SIZE)
    assert filed(ctx, eval_id)[1] == [
        (arm, 40 * arm + at, 40 * arm + at + 9, 10) for arm in (0, 1) for at in (0, 10, 20)
    ]
    assert seen(client, eval_id) == before
    assert before[0]["paired"]


class CrashError(Exception):
    """The gateway was killed."""


def test_a_crash_between_the_file_and_its_row_loses_nothing(ctx, client, controller, start, monkeypatch):
    """The rows are there until the part's row is; the next try writes the same file again."""
    eval_id = start()
    controller.tick()
    play(ctx, eval_id, result, most=12)
    before = seen(client, eval_id)

    def killed(*_):
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(parts.rows, "file", killed)
        with pytest.raises(CrashError):
            parts.file_finished(ctx, SIZE)
    assert ctx.blobs.exists(parts.key(eval_id, 0, 0))
    assert (filed(ctx, eval_id)[1:], seen(client, eval_id)) == (([], {0: 12}), before)
    content = ctx.blobs.get(parts.key(eval_id, 0, 0))
    assert parts.file_finished(ctx, SIZE) == 1
    assert ctx.blobs.get(parts.key(eval_id, 0, 0)) == content
    assert seen(client, eval_id) == before


def test_a_file_that_cannot_be_written_moves_nothing(ctx, client, controller, start, monkeypatch):
    """A full disk leaves the rows, and the loop goes on."""
    eval_id = start()
    controller.tick()
    play(ctx, eval_id, result, most=12)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(parts, "SIZE", SIZE)
    monkeypatch.setattr(Blobs, "put", full)
    controller._file()
    with pytest.raises(OSError, match="no space"):
        parts.file_finished(ctx, SIZE)
    assert filed(ctx, eval_id)[2] == {0: 12}


def test_two_at_once_file_one_part(ctx, controller, start, monkeypatch):
    """Whoever comes second finds that the arm has moved on."""
    eval_id = start()
    controller.tick()
    play(ctx, eval_id, result, most=25)
    put = ctx.blobs.put

    def meanwhile(key, data):
        put(key, data)
        monkeypatch.setattr(Blobs, "put", lambda _, *given: put(*given))
        assert parts.file_finished(ctx, SIZE) == 1

    monkeypatch.setattr(Blobs, "put", lambda _, *given: meanwhile(*given))
    assert parts.file_finished(ctx, SIZE) == 0
    assert filed(ctx, eval_id)[:2] == ([(10, 1)], [(0, 0, 9, 10)])


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SECONDS = st.floats(0, 1e6)
TEXTS = st.none() | st.text(max_size=20)
NAMES = st.text(min_size=1, max_size=8)


@st.composite
def outcomes_(draw):
    """Any finished episodes, by index."""
    fields = {
        "steps": st.integers(0, 2**40), "acts": st.integers(0, 9), "attempt": st.integers(1, 5),
        "terminated": st.booleans(), "truncated": st.booleans(), "timed_out": st.booleans(),
        "error": TEXTS, "traceback": TEXTS, "record_error": TEXTS, "recorded": st.booleans(),
        "trajectory": st.booleans(), "restarts": st.integers(0, 3), "wall_s": SECONDS, "env_cpu_s": SECONDS,
        "act_s": SECONDS, "act_max_s": SECONDS, "infer_s": SECONDS,
        "metrics": st.dictionaries(NAMES, FLOATS, max_size=4),
        "phase_s": st.dictionaries(NAMES, SECONDS, max_size=3),
        "phase_n": st.dictionaries(NAMES, st.integers(0, 2**40), max_size=3),
    }  # fmt: skip
    indices = sorted(draw(st.sets(st.integers(0, 10_000), min_size=1, max_size=8)))
    return [EpisodeOutcome(index=index, **draw(st.fixed_dictionaries(fields))) for index in indices]


@given(found=outcomes_())
def test_a_part_reads_back_to_the_bit(found, tmp_path_factory):
    """Whatever an episode told, names and texts included."""
    blobs = Blobs(f"file://{tmp_path_factory.mktemp('blobs')}")
    rows = [Episode(index=one.index, outcome=one.wire()) for one in found]
    part = Part(eval_id="e", arm=0, first=found[0].index, last=found[-1].index, rows=len(found))
    blobs.put(parts.key("e", 0, part.first), parts._written(rows))
    read = parts.outcomes(blobs, part, part.first, part.last)
    assert [EpisodeOutcome.model_validate(body) for body in read.values()] == found
    assert [EpisodeOutcome.model_validate(body).wire() for body in read.values()] == [one.wire() for one in found]
    assert list(parts.outcomes(blobs, part, found[-1].index, found[-1].index + 5)) == [found[-1].index]


@given(found=outcomes_())
def test_arrays_of_parts_and_of_rows_are_the_same(found, tmp_path_factory):
    """Every array, sum and cause; only where they were read from differs."""
    blobs = Blobs(f"file://{tmp_path_factory.mktemp('blobs')}")
    part = Part(eval_id="e", arm=0, first=found[0].index, last=found[-1].index, rows=len(found))
    blobs.put(parts.key("e", 0, part.first), parts._written([Episode(index=o.index, outcome=o.wire()) for o in found]))
    of_part, of_rows = columns.Gathering(), columns.Gathering()
    of_part.add_part(parts.read(blobs, part))
    of_rows.add_outcomes((one.index, one.wire()) for one in found)
    one, other = of_part.columns(), of_rows.columns()
    for mine, its in ((one.metrics, other.metrics), (one.counts, other.counts), (one.flags, other.flags)):
        assert mine.keys() == its.keys()
        assert all(np.array_equal(mine[name], its[name], equal_nan=name in one.metrics) for name in mine)
    assert (one.index.tolist(), one.failed.tolist()) == (other.index.tolist(), other.failed.tolist())
    assert (one.causes, one.unrecorded, one.phase_n) == (other.causes, other.unrecorded, other.phase_n)
    sums = ((one.totals, other.totals), (one.phase_s, other.phase_s))
    for mine, its in sums:
        assert mine == {name: pytest.approx(seconds, rel=1e-9, abs=1e-9) for name, seconds in its.items()}


def test_errors_that_all_differ_are_kept_as_a_thousand_and_the_rest():
    """A message with a number in it must not cost a report its memory."""
    gathering = columns.Gathering()
    gathering.add_outcomes((index, {"error": f"bad row {index}"}) for index in range(1500))
    found = gathering.columns().causes
    assert (found[0].text, found[0].count) == (columns.OTHERS, 500)
    assert len(found) == columns.MOST_CAUSES


@pytest.mark.slow
def test_a_report_over_a_hundred_thousand_episodes(ctx, client, account, controller):
    """Parts of the real size and what is not filed: means, intervals, counts and pages are those of all of them."""
    many, total = {**LARGE["conditions"], "seeds": list(range(50_000))}, 100_000
    add_benchmark(ctx, account, {**LARGE, "conditions": many})
    eval_id = client.post("/v1/eval", json=BODY).json()["eval_id"]
    made = 0
    for first in range(0, total, parts.SIZE):
        _insert(ctx, eval_id, range(first, first + parts.SIZE))
        made += parts.file_finished(ctx)
    assert made == 4
    assert filed(ctx, eval_id)[2] == {0: parts.SIZE}
    report = client.get(f"/v1/eval/{eval_id}").json()
    success = report["metrics"]["success"]
    assert (success["n"], report["incomplete"]) == (total - total // 100, True)
    assert success["overall"] == pytest.approx((total // 4 - total // 100) / success["n"])
    assert report["errors"] == [f"ValueError: bad row (1000 of {total} episodes)\nTraceback: mine"]
    assert report["timing"]["step_ms"] == pytest.approx({"step": 20.0})
    assert report["timing"]["steps"] == 10 * total
    details = client.get(f"/v1/eval/{eval_id}/details").json()
    assert (details["episodes"], details["episodes_total"]) == ([], total)
    overall = details["intervals"]["success"]["overall"]
    assert 0 < overall["high"] - overall["low"] < 0.01
    with ctx.store.read() as session:
        page = table.page_rows(session, ctx.blobs, evals.get(session, eval_id), 79_950, 100)
    assert [row.index for row in page] == list(range(79_950, 80_050))
    assert all((row.error is not None) == (row.index % 100 == 0) for row in page)


def _insert(ctx, eval_id, indices):
    """Rows of finished episodes: every fourth a success, every hundredth an error."""
    told = {"attempt": 1, "steps": 10, "acts": 2, "wall_s": 1.0, "phase_s": {"step": 0.2}, "phase_n": {"step": 10}}
    rows = []
    for index in indices:
        error = {"error": "ValueError: bad row", "traceback": "Traceback: mine"} if index % 100 == 0 else {}
        metrics = {} if error else {"success": float(index % 4 == 0)}
        body = {"index": index, **told, "metrics": metrics, **error}
        rows.append(
            {"eval_id": eval_id, "index": index, "arm": 0, "state": "done", "attempt": 1, "outcome": body,
             "failed": bool(error), "ended_at": ctx.clock.now(), "instance_id": None}
        )  # fmt: skip
    with ctx.store.write() as session:
        session.execute(insert(Episode), rows)
        evals.arm(session, eval_id, 0).next = indices[-1] + 1
