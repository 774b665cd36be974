"""Where two chunks meet: the jump, its smoothing, and declared limits that hold across the seam."""

import pytest

from sequence_ai import PolicyError
from sequence_ai.testing import chunk


def answering(rig, *chunks, space="joint_absolute", action=None):
    """The policy answers with these chunks in turn, then with the last one."""
    made = [{**chunk(rows, hz=rig.hz), "action_space": space} for rows in chunks]
    rig.platform.infer = lambda body: {"action_chunk": made.pop(0) if len(made) > 1 else made[0]}
    if action is not None:
        rig.platform.connect["action"] = action


FLAT = [[0.0, 0.0]] * 5
JUMP = [[6.0, 12.0]] * 5


def test_the_seam_is_measured(by_hand):
    """max_seam_jump is the largest step of a dimension from the last action to the next chunk's first row."""
    answering(by_hand, FLAT, JUMP)
    with by_hand.connected() as policy:
        out = by_hand.run(policy, max_actions=10)
    assert out.max_seam_jump == 12.0
    assert by_hand.played == FLAT + JUMP


def test_without_a_seam_there_is_no_jump(by_hand):
    """One chunk has no seam: None, not 0."""
    answering(by_hand, FLAT)
    with by_hand.connected() as policy:
        assert by_hand.run(policy, max_actions=5).max_seam_jump is None
        assert by_hand.run(policy, max_actions=10).max_seam_jump == 0.0


@pytest.mark.parametrize("space", ["joint_absolute", "EEF_Absolute", "joint_position", "joint_pos"])
def test_an_absolute_chunk_is_led_out_of_the_last_action(by_hand, space):
    """smooth_seam=N blends the first N rows with weights (i + 1) / (N + 1), after the jump was measured."""
    answering(by_hand, FLAT, JUMP, space=space)
    with by_hand.connected() as policy:
        out = by_hand.run(policy, max_actions=10, smooth_seam=3)
    assert by_hand.played[:5] == FLAT  # never the first chunk of a run
    assert by_hand.played[5:] == [[1.5, 3.0], [3.0, 6.0], [4.5, 9.0], [6.0, 12.0], [6.0, 12.0]]
    assert out.max_seam_jump == 12.0


@pytest.mark.parametrize("space", ["joint_delta", "cartesian_delta", "joint_velocity", "eef_pos"])
def test_a_chunk_that_is_not_absolute_is_never_blended(by_hand, space):
    """Blending deltas would rescale them: such a chunk passes untouched, whatever was asked."""
    answering(by_hand, FLAT, JUMP, space=space)
    with by_hand.connected() as policy:
        by_hand.run(policy, max_actions=10, smooth_seam=3)
    assert by_hand.played == FLAT + JUMP


@pytest.mark.parametrize(("wanted", "rows", "expected"), [(8, 2, [1 / 3, 2 / 3]), (1, 5, [0.5, 1, 1, 1, 1])])
def test_no_more_rows_are_blended_than_are_played(by_hand, wanted, rows, expected):
    """N is at most the rows of the chunk that are played."""
    answering(by_hand, [[0.0]] * rows, [[1.0]] * rows)
    with by_hand.connected() as policy:
        by_hand.run(policy, max_actions=2 * rows, smooth_seam=wanted)
    assert [row[0] for row in by_hand.played[rows:]] == pytest.approx(expected)


def declared(**limits):
    return {"robot": "fake_arm", "action_space": "joint_absolute", "action_dim": 2, **limits}


def test_limits_hold_across_chunks(rig):
    """bounds, then max_delta from the row handed out before, over the seam too; validate sees the clipped row."""
    answering(rig, FLAT, JUMP, action=declared(bounds=[[-5, 5], [-5, 5]], max_delta=2.0))
    checked = []
    with rig.connected() as policy:
        out = rig.run(policy, max_actions=10, validate=lambda row: checked.append(row) or True)
    assert rig.played == [*FLAT, [2, 2], [4, 4], [5, 5], [5, 5], [5, 5]]
    assert checked == rig.played
    assert out.max_seam_jump == 12.0  # what the policy asked for


def test_a_new_run_measures_from_nothing(rig):
    """max_delta does not reach back into the run before."""
    answering(rig, FLAT, JUMP, action=declared(max_delta=2.0))
    with rig.connected() as policy:
        rig.run(policy, max_actions=5)
        rig.log.clear()
        rig.run(policy, max_actions=2)
    assert rig.played == [[6, 12], [6, 12]]


def test_rows_of_another_length_are_not_played(rig):
    """A chunk of another number of dimensions than the one before is refused, and the arm held."""
    answering(rig, FLAT, [[0.0] * 3] * 5)
    with rig.connected() as policy, pytest.raises(PolicyError, match="3 values"):
        rig.run(policy, max_actions=10)
    assert rig.log[-1] == ("hold", None)
    assert len(rig.played) == 5


def test_a_robot_that_changes_its_row_changes_nothing_else(by_hand):
    """act and validate are given lists of their own."""
    answering(by_hand, FLAT, FLAT)

    def scribble(row):
        row[0] = 99.0

    with by_hand.connected() as policy:
        out = by_hand.run(policy, act=scribble, validate=lambda row: row.append(1) or True, max_actions=10)
    assert out.max_seam_jump == 0.0
