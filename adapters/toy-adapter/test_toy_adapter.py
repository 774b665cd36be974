"""toy-adapter says the same in the other side's words."""

from pathlib import Path

from seq import targets, testing

ToyAdapter = targets.load(str(Path(__file__).with_name("adapter.py")))


def test_fits_both_sides_and_loses_nothing():
    """An observation gets the policy's keys, an answer becomes rows, and every step is lossless."""
    adapted = testing.check_adapter(ToyAdapter, {"arm_x": [0.1], "goal_x": [0.4]}, {"delta": [[0.05], [-0.02]]})

    assert adapted.observation == {"state": [0.1], "goal": [0.4]}
    assert adapted.rows == [[0.05], [-0.02]]
    assert not adapted.lossy
