"""What panda-expert plans from what it is shown; its kinematics run in the policy's own image only."""

import importlib.util
import itertools
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

import seq


def _load() -> ModuleType:
    path = Path(__file__).with_name("policy.py")
    spec = importlib.util.spec_from_file_location("panda_expert", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


policy = _load()
Hand, Move, Scene = policy.Hand, policy.Move, policy.Scene
REST = policy.CUBE_HALF


def scene(hand=(0.45, 0, 0.3), opening=0.085, cube=(0.5, 0.1, REST), block=(0.5, -0.1, REST), goal=(0.5, 0, REST)):
    return Scene(Hand(hand, 0.0, opening), cube, 0.3, block, 0.0, goal)


def test_is_a_valid_declaration():
    """The class carries a policy's registration."""
    assert seq.registration(policy.PandaExpert) is not None


def test_reach_goes_straight_to_the_goal():
    """One move, to the goal."""
    (move,) = policy.plan("reach", scene(goal=(0.4, 0.2, 0.3)))

    assert move.to.pos == (0.4, 0.2, 0.3)


def test_lift_comes_from_above_turned_with_the_cube_and_closes_last():
    """Far from the cube: over it, down, close; the fingers turned as the cube is."""
    over, down, shut = policy.plan("lift", scene())

    assert over.to.pos[2] > 0.1
    assert (down.to.pos, down.to.opening) == (scene().cube, policy.OPEN)
    assert (shut.to.pos, shut.to.opening, shut.to.yaw) == (scene().cube, policy.CLOSED, 0.3)


def test_lift_raises_a_cube_it_sees_between_its_fingers():
    """Fingers stopped by the cube mean it is held: up, closed."""
    held = scene(hand=(0.5, 0.1, REST), opening=2 * REST)
    (move,) = policy.plan("lift", held)

    assert move.to.pos[2] > 0.1
    assert move.to.opening == policy.CLOSED


def test_stack_lets_go_of_a_cube_that_rests_on_the_other():
    """Red on blue: open where the hand is, then leave upwards."""
    placed = scene(hand=(0.5, -0.1, 3 * REST), opening=2 * REST, cube=(0.5, -0.1, 3 * REST))
    let_go, leave = policy.plan("stack", placed)

    assert (let_go.to.pos, let_go.to.opening) == (placed.hand.pos, policy.OPEN)
    assert leave.to.pos[2] > placed.hand.pos[2]


def test_push_starts_behind_the_cube():
    """The hand goes down on the far side of the goal and ends short of it, on the line through the cube."""
    over, down, shove = policy.plan("push", scene(cube=(0.5, 0.15, REST), goal=(0.5, 0, REST)))

    assert over.to.pos[1] > 0.15 + REST
    assert down.to.pos[1] == over.to.pos[1]
    assert 0 < shove.to.pos[1] < 0.05
    assert over.to.pos[0] == pytest.approx(0.5)


def test_push_stops_when_the_cube_is_there():
    """Nothing left to do, nothing done."""
    assert policy.plan("push", scene(cube=(0.5, 0.001, REST), goal=(0.5, 0, REST))) == []


def test_an_unknown_task_or_unseen_poses_move_nothing():
    """Without a task it knows or a pose that is one, there is no plan."""
    unseen = {"cube_pos": [0, 0, 0], "cube_quat": [0, 0, 0, 0]}

    assert policy.plan(policy._task_of("Juggle the red cube."), scene()) == []
    assert policy.plan(policy._task_of(""), scene()) == []
    assert not policy._sees(unseen)


def test_gliding_keeps_to_the_speed_and_ends_at_the_last_pose():
    """No step is longer than the move's speed allows; after the moves the last pose stays."""
    start, end = Hand((0, 0, 0), 0.0, 0.0), Hand((0.1, 0.1, 0), 1.0, 0.0)
    poses = list(itertools.islice(policy.glide(start, [Move(end, speed=0.2, stay=2)]), 60))
    steps = [math.dist(a.pos, b.pos) for a, b in itertools.pairwise([start, *poses])]

    assert max(steps) <= 0.2 / policy.CONTROL_HZ + 1e-9
    assert poses[-1] == end
