"""When an episode is over, and what of it is reported."""

import pytest

from runner.engine.episode import Episode
from seq import Step
from seq.contract.internal import Condition, EpisodeOutcome, LeasedEpisode


def episode(max_steps: int = 3, timeout_s: float | None = None) -> Episode:
    condition = Condition(index=0, task="t", seed=0, max_steps=max_steps, timeout_s=timeout_s)
    return Episode(LeasedEpisode(condition=condition, attempt=1), "e", started=100.0)


def test_done_ends_it_with_the_metrics_of_that_step() -> None:
    """A success that was lost again does not count: the closing step's metrics are the episode's."""
    playing = episode()
    playing.stepped(Step(done=False, metrics={"success": 1.0}), 101)
    playing.stepped(Step(done=True, metrics={"success": 0.0}), 102)
    outcome = playing.outcome(103)
    assert (outcome.terminated, outcome.truncated, outcome.timed_out) == (True, False, False)
    assert outcome.metrics == {"success": 0.0}
    assert outcome.steps == 2


def test_the_step_cap_truncates() -> None:
    """An episode that never says done ends at its cap, truncated and not terminated."""
    playing = episode(max_steps=2)
    playing.stepped(Step(done=False, metrics={"success": 0.0}), 101)
    assert not playing.over
    playing.stepped(Step(done=False, metrics={"success": False}), 101)
    assert playing.over
    assert (playing.terminated, playing.truncated, playing.timed_out) == (False, True, False)
    assert playing.metrics == {"success": 0.0}


def test_the_time_limit_truncates_between_steps() -> None:
    """The declared wall clock ends an episode at the first step past it, and says so."""
    playing = episode(max_steps=100, timeout_s=5.0)
    playing.stepped(Step(done=False, metrics={"success": 0}), 104.9)
    assert not playing.over
    playing.stepped(Step(done=False, metrics={"success": 0}), 105.0)
    assert (playing.over, playing.truncated, playing.timed_out) == (True, True, True)


def test_waiting_for_a_worker_is_no_part_of_the_limit() -> None:
    """A cold start takes as long as it takes; what the policy itself takes counts."""
    playing = episode(max_steps=100, timeout_s=5.0)
    playing.acted(0.5, 0.1, waited_s=30.0)
    playing.stepped(Step(done=False, metrics={"success": 0.0}), now=134.9)
    assert not playing.over
    playing.stepped(Step(done=False, metrics={"success": 0.0}), now=135.0)
    assert (playing.over, playing.timed_out) == (True, True)
    assert playing.outcome(now=135.0).wall_s == 5.0


def test_done_on_the_last_allowed_step_is_not_a_time_out() -> None:
    """A success in the very last step is a success."""
    playing = episode(max_steps=1, timeout_s=1.0)
    playing.stepped(Step(done=True, metrics={"success": 1}), 200)
    assert (playing.terminated, playing.truncated, playing.timed_out) == (True, False, False)


def test_an_error_has_no_score() -> None:
    """An episode that failed reports its error and no metric at all."""
    playing = episode()
    playing.fail("the benchmark's step failed: ValueError: x", "trace")
    outcome = playing.outcome(101)
    assert outcome.error == "the benchmark's step failed: ValueError: x"
    assert outcome.metrics == {}


def test_phases_add_up() -> None:
    """Seconds and counts of a phase are sums."""
    playing = episode()
    playing.spent("step", 0.25)
    playing.spent("step", 0.5)
    assert playing.outcome(101).phase_s == {"step": pytest.approx(0.75)}
    assert playing.outcome(101).phase_n == {"step": 2}


def test_a_closing_step_without_metrics_is_an_error() -> None:
    """Nothing to score is said, never counted as an episode that is simply missing from the mean."""
    playing = episode()
    playing.stepped(Step(done=True), 101)
    assert "no metric" in playing.outcome(102).error


def test_where_the_benchmark_scores_itself_no_metric_is_needed() -> None:
    """`score` is given the episode all the same."""
    playing = episode()
    playing.has_score = True
    playing.stepped(Step(done=True), 101)
    assert (playing.over, playing.outcome(102).error) == (True, None)


def test_acts_add_up() -> None:
    """The policy's time in all, its longest act, and what of it was inference."""
    playing = episode()
    playing.acted(0.5, 0.2, 0.0)
    playing.acted(0.25, 0.1, 0.0)
    told = playing.outcome(101)
    assert (told.acts, told.act_s, told.act_max_s) == (2, 0.75, 0.5)
    assert told.infer_s == pytest.approx(0.3)
    assert told.phase_n["act"] == 2


def test_text_that_is_no_unicode_is_told_in_escapes() -> None:
    """Half a surrogate pair, as odd file names have it, could be neither sent nor kept: it would end the whole eval."""
    failed, scored = episode(), episode()
    failed.fail("ValueError: no file \ud800", "Traceback: \udcff")
    outcome = EpisodeOutcome.model_validate_json(failed.outcome(103).model_dump_json())
    assert (outcome.error, outcome.traceback) == ("ValueError: no file \\ud800", "Traceback: \\udcff")
    scored.stepped(Step(done=True, metrics={"\ud800": 1.0}), 101)
    assert EpisodeOutcome.model_validate_json(scored.outcome(103).model_dump_json()).metrics == {"\\ud800": 1.0}
