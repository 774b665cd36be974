"""Results on their way from an instance to the gateway."""

import threading

import pytest

from runner.engine.outbox import Outbox, send_leftovers
from seq.contract.internal import EpisodeOutcome


def outcome(index: int) -> EpisodeOutcome:
    return EpisodeOutcome(index=index, attempt=1, steps=1, acts=1, metrics={"success": 1.0})


def fail(error: Exception) -> None:
    raise AssertionError(f"sending failed: {error}")


def test_everything_put_is_sent_once_and_the_file_goes(tmp_path) -> None:
    """Outcomes arrive in order, and nothing is left once they were acknowledged."""
    sent: list[int] = []
    box = Outbox(tmp_path, "a", lambda batch: sent.extend(item.index for item in batch), fail)
    for index in range(250):
        box.put(outcome(index))
    box.close()
    assert sent == list(range(250))
    assert list(tmp_path.iterdir()) == []


def test_an_outcome_is_on_disk_before_it_is_sent(tmp_path) -> None:
    """A gateway that is down loses nothing: the file holds what was not acknowledged, and a successor sends it."""
    answer = threading.Event()

    def down(_batch: list[EpisodeOutcome]) -> None:
        answer.wait(30)
        raise ConnectionError("the gateway is gone for good")

    told: list[Exception] = []
    box = Outbox(tmp_path, "a", down, told.append)
    box.put(outcome(7))
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    answer.set()
    box.close()
    assert told == [box.error]
    assert isinstance(box.error, ConnectionError)

    got: list[EpisodeOutcome] = []
    assert send_leftovers(tmp_path, got.extend) == 1
    assert got == [outcome(7)]
    assert list(tmp_path.iterdir()) == []


def test_a_line_cut_short_by_a_kill_is_not_an_outcome(tmp_path) -> None:
    """Only whole lines count; the episode of the half one runs again."""
    whole = outcome(1).model_dump_json()
    (tmp_path / "dead.jsonl").write_text(f"{whole}\n{whole[:20]}")
    got: list[EpisodeOutcome] = []
    send_leftovers(tmp_path, got.extend)
    assert [item.index for item in got] == [1]


@pytest.mark.usefixtures("tmp_path")
def test_a_living_instances_outbox_is_left_alone(tmp_path) -> None:
    """A second instance of the same eval does not take what the first is still sending."""
    box = Outbox(tmp_path, "alive", lambda _batch: None, fail)
    try:
        assert send_leftovers(tmp_path, lambda _batch: None) == 0
        assert (tmp_path / "alive.jsonl").exists()
    finally:
        box.close()
