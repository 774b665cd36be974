"""The sentence: put into every observation, changed without stopping, gone when act returns."""

import pytest


def sentences(rig):
    return [body["observation"]["instruction"] for body in rig.acts()]


def test_act_overwrites_the_observations_own(rig):
    """Every request of an act carries its sentence; the caller's observation is left alone."""
    with rig.connected() as policy:
        out = policy.act(
            "pick up the cup", rig.observe, rig.act, max_seconds=60, max_actions=8, validate=lambda row: True
        )
        assert policy.instruction is None
        assert rig.run(policy, max_actions=4).instruction_swaps == 0
    assert sentences(rig) == ["pick up the cup", "pick up the cup", "seen"]
    assert (out.instruction_swaps, out.reason) == (1, "completed")


def test_act_is_bounded_by_time(by_hand):
    """Without max_actions an act plays until its seconds are over, and hold is called."""
    with by_hand.connected() as policy:
        out = policy.act(
            "go", by_hand.observe, by_hand.act, max_seconds=3, validate=lambda row: True, hold=by_hand.hold
        )
    assert (out.reason, by_hand.log[-1]) == ("timeout", ("hold", None))
    assert out.elapsed_s == pytest.approx(3)
    assert out.actions == pytest.approx(58, abs=1)


def test_a_new_sentence_counts_from_the_next_request(by_hand):
    """set_instruction changes nothing that is under way; the outcome tells swaps and the longest wait for one."""
    with by_hand.connected() as policy:

        def act(row):
            by_hand.act(row)
            if len(by_hand.played) == 6:
                policy.set_instruction("left")
                policy.set_instruction("left")

        out = policy.act(
            "right", by_hand.observe, act, max_seconds=60, max_actions=16, prefetch=False, validate=lambda row: True
        )
    assert sentences(by_hand) == ["right", "right", "left", "left"]
    assert out.instruction_swaps == 2
    assert out.max_instruction_lag_s == pytest.approx(3 * 0.05)


def test_a_sentence_set_before_a_run_is_used_by_it(rig):
    """A latched sentence stays for every run until it is replaced; act takes it away."""
    with rig.connected() as policy:
        policy.set_instruction("wait")
        assert policy.instruction == "wait"
        assert rig.run(policy, max_actions=4).instruction_swaps == 1
        assert rig.run(policy, max_actions=4).instruction_swaps == 0
        policy.predict(rig.observe())
    assert sentences(rig) == ["wait", "wait", "seen"]


def test_the_sentence_is_gone_even_when_act_raised(by_hand):
    """No sentence of an act that failed leaks into what comes after it."""
    with by_hand.connected() as policy:
        with pytest.raises(ZeroDivisionError):
            policy.act("go", by_hand.observe, lambda row: 1 / 0, max_seconds=5, validate=lambda row: True)
        assert policy.instruction is None


@pytest.mark.parametrize("wrong", [None, 5, b"go", ["go"]])
def test_a_sentence_is_text(by_hand, wrong):
    """Anything but text is a TypeError, and an earlier sentence stays."""
    with by_hand.connected() as policy:
        policy.set_instruction("before")
        with pytest.raises(TypeError, match="instruction"):
            policy.set_instruction(wrong)
        with pytest.raises(TypeError, match="instruction"):
            policy.act(wrong, by_hand.observe, by_hand.act, max_seconds=5)
        assert policy.instruction == "before"
        assert by_hand.log == []
