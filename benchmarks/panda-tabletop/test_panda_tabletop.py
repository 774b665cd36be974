"""What panda-tabletop declares, where its episodes start, and what its rules call a success."""

import importlib.util
import itertools
import math
import sys
from pathlib import Path
from types import ModuleType

import mujoco
import numpy as np
import pytest

import seq


def _load() -> ModuleType:
    path = Path(__file__).with_name("benchmark.py")
    spec = importlib.util.spec_from_file_location("panda_tabletop", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = _load()

# The names the rules read, without the robot: the hand is a thing that a test puts where it likes.
STAGE = """
<mujoco><worldbody>
  <body name="cube"><freejoint name="cube"/><geom type="box" size=".0225 .0225 .0225" mass=".1"/></body>
  <body name="block"><freejoint name="block"/><geom type="box" size=".0225 .0225 .0225" mass=".1"/></body>
  <body name="hand" mocap="true"><site name="pinch"/></body>
  <body name="left" mocap="true"><geom name="left_pad1" size=".001" contype="0"/></body>
  <body name="right" mocap="true"><geom name="right_pad1" size=".001" contype="0"/></body>
</worldbody></mujoco>
"""
REST = bench.CUBE_HALF


def stage(task, *, cube=(0.5, 0, REST), block=(0.3, 0.3, REST), hand=(0.5, 0, 0.3), opening=0.085, goal=(0, 0, 0)):
    model = mujoco.MjModel.from_xml_string(STAGE)
    data = mujoco.MjData(model)
    data.joint("cube").qpos[:3], data.joint("block").qpos[:3] = cube, block
    gap = opening + bench.PAD_THICKNESS
    data.mocap_pos[:] = [hand, (0, gap / 2, 1), (0, -gap / 2, 1)]
    mujoco.mj_forward(model, data)
    return bench.Episode(task, model, data, lambda *_: None, np.array(goal, dtype=float), ("cube", "block"))


def holds(task, **places):
    return bench.RULES[task](stage(task, **places))


def test_is_a_valid_declaration():
    """The class carries a benchmark's registration."""
    assert seq.benchmark_registration(bench.PandaTabletop) is not None


def test_plans_four_tasks_twenty_seeds_and_two_surfaces():
    """Every task is run from every seed on every surface, once."""
    planned = {(c.task, c.seed, c.variation_dict["surface"]) for c in bench.CONDITIONS}

    assert len(bench.CONDITIONS) == len(planned) == 4 * 20 * 2
    assert {task for task, _, _ in planned} == set(bench.RULES) == set(bench.INSTRUCTIONS)


@pytest.mark.parametrize("task", bench.INSTRUCTIONS)
def test_every_seed_is_another_start_and_the_same_one_again(task):
    """A start is a function of task and seed, and no two seeds share one."""
    starts = [bench._layout(task, seed) for seed in range(20)]

    assert starts == [bench._layout(task, seed) for seed in range(20)]
    assert len({start.goal for start in starts}) == 20


@pytest.mark.parametrize("task", bench.INSTRUCTIONS)
def test_nothing_is_solved_at_the_start(task):
    """Where the cubes stand at reset, with the hand at its start, no rule holds."""
    for seed in range(20):
        start = bench._layout(task, seed)
        places = {name: (x, y, REST) for name, (x, y, _) in start.cubes.items()}

        assert not holds(task, **places, hand=(0.452, 0, 0.30), goal=start.goal)


def test_reach_wants_the_hand_at_the_ball():
    """Two centimetres are near enough, three are not."""
    assert holds("reach", hand=(0.5, 0, 0.30), goal=(0.5, 0.02, 0.30))
    assert not holds("reach", hand=(0.5, 0, 0.30), goal=(0.5, 0.03, 0.30))


def test_push_wants_the_cube_at_the_goal_and_at_rest():
    """A cube that only slides through the goal is not there."""
    there = {"cube": (0.5, 0.02, REST), "goal": (0.5, 0, REST)}
    sliding = stage("push", **there)
    sliding.data.joint("cube").qvel[0] = 0.1

    assert holds("push", **there)
    assert not bench.RULES["push"](sliding)
    assert not holds("push", cube=(0.5, 0.04, REST), goal=(0.5, 0, REST))


def test_lift_wants_the_cube_up_and_between_the_fingers():
    """A cube in the air without the hand is thrown, not lifted."""
    assert holds("lift", cube=(0.5, 0, 0.1), hand=(0.5, 0, 0.1))
    assert not holds("lift", cube=(0.5, 0, 0.1), hand=(0.5, 0, 0.2))
    assert not holds("lift", cube=(0.5, 0, 0.05), hand=(0.5, 0, 0.05))


def test_stack_wants_red_on_blue_and_the_hand_gone():
    """Neither a held cube nor one beside the other counts."""
    block = (0.5, 0, REST)

    assert holds("stack", cube=(0.5, 0.01, 3 * REST), block=block)
    assert not holds("stack", cube=(0.5, 0.01, 3 * REST), block=block, hand=(0.5, 0.01, 3 * REST))
    assert not holds("stack", cube=(0.5, 0.01, 3 * REST), block=block, opening=0.045)
    assert not holds("stack", cube=(0.5, 0.06, REST), block=block)


def test_a_cube_below_the_table_ends_the_episode_without_success():
    """A lost cube cannot be won back."""
    fallen = bench.PandaTabletop.check(None, stage("push", cube=(1.2, 0, -0.3)))

    assert (fallen.done, fallen.terminated, fallen.metrics["success"]) == (True, True, 0.0)


def test_an_action_with_a_number_that_is_none_is_refused():
    """NaN reaches no actuator."""
    with pytest.raises(ValueError, match="8 finite numbers"):
        stage("reach").step([math.nan] * 8)


def test_the_gripper_is_commanded_in_metres():
    """0 is the actuator's closed end, 0.085 m its open one, and between them it only opens."""
    commands = [bench._gripper_ctrl(opening) for opening in np.linspace(0, bench.GRIPPER_MAX, 30)]

    assert (commands[0], commands[-1]) == (255.0, 0.0)
    assert all(a > b for a, b in itertools.pairwise(commands))
