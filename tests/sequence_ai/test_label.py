"""How an episode went, told to what the deployment captured of it."""

import pytest

from sequence_ai import InvalidRequest, NotFound, SequencesError
from sequence_ai.testing import error


def labels(rig):
    return [
        (sent.path.split("/episodes/")[1].removesuffix("/label"), sent.body)
        for sent in rig.platform.sent
        if sent.path.endswith("/label")
    ]


def test_the_last_run_is_labelled(by_hand):
    """label() names the last run's episode and returns its id."""
    with by_hand.connected() as policy:
        by_hand.run(policy)
        by_hand.run(policy, episode_id="e2")
        assert policy.label(True, "clean grasp") == "e2"
        assert policy.label(False, episode_id="e7") == "e7"
    assert labels(by_hand) == [
        ("e2", {"success": True, "notes": "clean grasp"}),
        ("e7", {"success": False, "notes": ""}),
    ]


def test_every_worker_that_played_a_part_is_told(by_hand):
    """After a change of worker in mid-run, the label goes to each id that the episode had; the run counts the reset."""

    def act(row):
        by_hand.act(row)
        if len(by_hand.played) == 1:
            by_hand.replace_worker()

    with by_hand.connected() as policy:
        with pytest.warns(UserWarning, match="the worker changed in the middle of episode e1"):
            out = by_hand.run(policy, act=act, episode_id="e1")
        assert policy.label(True) == "e1"
    assert (out.episode_resets, out.reason) == (1, "completed")
    first, second = [name for name, _ in labels(by_hand)]
    assert first == "e1"
    assert second == by_hand.acts()[-1]["episode_id"] != "e1"
    assert [sent.body["episode_id"] for sent in by_hand.platform.to("/act/episode_end")] == [second]


def test_without_an_episode_there_is_nothing_to_label(by_hand):
    """Before any run, and for a name that cannot be one, it is refused and nothing is sent."""
    with by_hand.connected() as policy:
        for wrong in (None, "a/b", ""):
            with pytest.raises(InvalidRequest):
                policy.label(True, episode_id=wrong)
        assert by_hand.platform.sent == []


def test_what_the_platform_says_of_a_label_is_raised(by_hand):
    """An episode that was not captured is the platform's own error."""
    by_hand.platform.answer_next("/v1/deployments/toy/episodes/e1/label", error(404, "not_found", "not captured"))
    with by_hand.connected() as policy, pytest.raises(NotFound, match="not captured"):
        policy.label(True, episode_id="e1")
    with pytest.raises(SequencesError, match="closed"):
        policy.label(True, episode_id="e1")
