"""The seed of an act."""

from runner.engine.seeds import act_seed


def test_the_same_episode_and_act_give_the_same_seed() -> None:
    """A rerun sends the policy the seeds of the first run: these are pinned."""
    assert [act_seed(3, act) for act in range(3)] == [act_seed(3, act) for act in range(3)]
    assert act_seed(0, 0) == 1427366890


def test_neighbouring_acts_and_episodes_get_different_seeds() -> None:
    """No two acts of neighbouring episodes share a seed, and every seed fits 31 bits."""
    seeds = {act_seed(seed, act) for seed in range(50) for act in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**31 for seed in seeds)
