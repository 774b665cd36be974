"""Two helpers that narrow a command."""

import pytest

import seq


def test_clip_moves_each_value_into_its_bounds():
    """Values inside stay; the lengths must agree."""
    assert seq.safety.clip([3, -4, 0.5], [(0, 1), (-2, 5), (0, 1)]) == [1, -2, 0.5]
    with pytest.raises(ValueError, match="one \\(low, high\\) a value"):
        seq.safety.clip([1], [])


def test_limit_step_keeps_each_value_near_the_last():
    """One largest change for all, or one each; it must be above 0."""
    assert seq.safety.limit_step([0, 0], [3, -4], 1) == [1, -1]
    assert seq.safety.limit_step([0, 0], [3, 4], [1, 10]) == [1, 4]
    for wrong in (0, -1, [1, 0]):
        with pytest.raises(ValueError, match="above 0"):
            seq.safety.limit_step([0, 0], [1, 1], wrong)
    with pytest.raises(ValueError, match="as many of each"):
        seq.safety.limit_step([0], [1, 1], 1)
