"""panda-still stays where it is."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import seq


def _load() -> ModuleType:
    path = Path(__file__).with_name("policy.py")
    spec = importlib.util.spec_from_file_location("panda_still", path)
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
    assert seq.registration(policy.PandaStill) is not None


def test_every_row_is_where_the_arm_is():
    """The answer repeats the joints and the opening it was sent, whatever the seed."""
    sent = [*OBS["proprioception"]["joint_positions"], *OBS["proprioception"]["gripper"]]

    assert policy.PandaStill().infer(OBS, seed=7) == [sent] * policy.ROWS
