"""panda-random moves by its seed alone."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import seq


def _load() -> ModuleType:
    path = Path(__file__).with_name("policy.py")
    spec = importlib.util.spec_from_file_location("panda_random", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


policy = _load()

OBS = {
    "images": [],
    "proprioception": {"joint_positions": [0.0, -0.3, 0.0, -2.35, 0.0, 2.05, 0.785], "gripper": [0.085]},
}


def test_is_a_valid_declaration():
    """The class carries a policy's registration."""
    assert seq.registration(policy.PandaRandom) is not None


def test_rows_stay_within_the_bounds():
    """From a pose within the bounds every row of every seed is within them too."""
    for seed in range(50):
        rows = policy.PandaRandom().infer(OBS, seed=seed)

        assert len(rows) == policy.ROWS
        assert all(low <= v <= high for row in rows for v, (low, high) in zip(row, policy.BOUNDS, strict=True))


def test_equal_seeds_give_equal_rows():
    """The seed is all there is to it: same seed same rows, other seed other rows."""
    first, again, other = (policy.PandaRandom().infer(OBS, seed=seed) for seed in (1, 1, 2))

    assert first == again
    assert first != other
