"""What an eval is foretold to take, against runs of a small model of a shared machine."""

from __future__ import annotations

import pytest

from runner.evals.estimate import BAND, HOLD_MARGIN, Check, PastEpisode, PastEval, make_estimate
from runner.evals.parameters import Declared, settings
from runner.evals.plan import ArmPlan, Machines, Plan, PolicyMachines, PolicySide
from runner.evals.selection import Block, Selection
from seq.contract.deployments import DeploymentRequest

ENV_CPU_S = {"short": 1.0, "long": 6.0, "middle": 3.0}
ACTS = {"short": 10, "long": 40, "middle": 20}
POLICY_S, LAUNCH_S, SETUP_S = 8.0, 2.0, 3.0
REQUEST = DeploymentRequest.model_validate(
    {
        "name": "arm",
        "image": {"base": "debian:12-slim"},
        "resources": {"gpu": ["cpu"]},
        "policy": {"handler_ref": "policy:Arm"},
    }
)


def plan(tasks=("short", "long"), trials=5, envs=2, cores=2, policies=1, models=("arm",), cards=("cpu",), todo=None):
    """Every model is an arm of its own; the episodes of the tasks take turns."""
    turns = [Block(task, None, (), 100, None, ((seed, 1),)) for seed in range(trials) for task in tasks]
    nothing = settings({}, Declared({}, {}, {}))
    sides = [PolicySide(model, model, 1, None, REQUEST) for model in models]
    everything = ((0, len(turns)),)
    return Plan(
        selection=Selection(tuple(turns)),
        arms=tuple(ArmPlan(side.name, side, nothing, everything if todo is None else todo) for side in sides),
        policies=tuple(
            PolicyMachines(side.name, side.name, Machines(policies, cards[0], 1.0, 1.0), cards) for side in sides
        ),
        benchmark=Machines(1, "cpu", float(envs), 2.0 * envs),
        envs=envs,
        envs_asked=envs,
        cores_each=min(envs, cores),
        machine_cores=cores,
        notes=(),
    )


def run(made, act_s, infer_s):
    """Play a plan: active episodes share the cores, one act at a time is in the policy. Run time and wall times."""
    episodes = [condition for _ in made.arms for condition in made.selection.conditions()]
    left = [ENV_CPU_S[e.task] + ACTS[e.task] * act_s for e in episodes]
    active, waiting, walls, now = {}, list(range(len(left))), {}, 0.0
    while active or waiting:
        while waiting and len(active) < made.envs_in_all:
            active[waiting.pop(0)] = now
        rate = min(1.0, made.machine_cores / len(active))
        step = min(left[i] for i in active) / rate
        now += step
        for i in list(active):
            left[i] -= step * rate
            if left[i] < 1e-9:
                walls[i] = now - active.pop(i)
    asked = sum(ACTS[e.task] for e in made.selection.conditions()) * infer_s
    return max(now, asked), walls


def past(made, act_s=0.05, infer_s=0.02, adapter="bridge", **what):
    run_s, walls = run(made, act_s, infer_s)
    played = [(one.name, condition) for one in made.arms for condition in made.selection.conditions()]
    episodes = tuple(
        PastEpisode(policy, e.task, e.record, ACTS[e.task], ENV_CPU_S[e.task], ACTS[e.task] * infer_s, walls[number])
        for number, (policy, e) in enumerate(played)
    )
    started = min(made.envs_in_all, len(episodes)) / made.machine_cores
    setup_s, policy_s = SETUP_S * max(1.0, started), POLICY_S + SETUP_S * started
    told = {"setup_s": setup_s, "run_s": run_s, "disturbed": False, **what}
    return PastEval(adapter, made.envs_in_all, made.machine_cores, policy_s, LAUNCH_S, episodes=episodes, **told)


def truth(made, act_s=0.05, infer_s=0.02):
    told = past(made, act_s, infer_s)
    return max(told.policy_s, told.launch_s + told.setup_s) + told.run_s


LEARNED = [plan(envs=1), plan(envs=8), plan(trials=1, envs=2)]
ASKED = [
    plan(envs=1, trials=20),
    plan(envs=2),
    plan(envs=8, trials=2),
    plan(envs=16, trials=20),
    plan(trials=1, envs=1),
]


@pytest.mark.parametrize("learned", LEARNED)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(("act_s", "infer_s"), [(0.05, 0.02), (0.005, 0.002), (0.5, 0.4)])
def test_the_estimate_is_within_a_factor_of_two_of_another_layout(learned, asked, act_s, infer_s):
    """Learned with some trials and environments, it foretells others."""
    found = make_estimate(asked, "bridge", [past(learned, act_s, infer_s)])
    actual = truth(asked, act_s, infer_s)
    assert actual / 2 <= found.wall_clock_s <= actual * 2
    assert not found.default_timing


def test_tasks_of_different_length_are_summed_one_by_one():
    """Learned on both tasks, an eval of the long one alone is longer than one of the short one."""
    earlier = [past(plan())]
    short, long = (make_estimate(plan(tasks=(t,), envs=1), "bridge", earlier) for t in ("short", "long"))
    assert short.parts["run_s"] < long.parts["run_s"] / 3
    assert list(make_estimate(plan(), "bridge", earlier).parts["work_s_per_task"]) == ["short", "long"]


def test_a_task_never_run_is_taken_as_the_mean_and_named():
    """Falling back from a task to all tasks is said."""
    found = make_estimate(plan(tasks=("middle",)), "bridge", [past(plan())])
    assert "middle not among them" in found.notes[0]
    actual = truth(plan(tasks=("middle",)))
    assert actual / 2 <= found.wall_clock_s <= actual * 2


@pytest.mark.parametrize(
    ("policy", "adapter", "said"),
    [
        ("arm", "bridge", "this policy, benchmark and adapter"),
        ("arm", "other", "another adapter"),
        ("leg", "bridge", "with other policies"),
    ],
)
def test_the_nearest_earlier_evals_are_learned_from(policy, adapter, said):
    """Same sides first, then the same policy, then whoever ran this benchmark; the note says which."""
    assert said in make_estimate(plan(models=(policy,)), adapter, [past(plan())]).notes[0]


def test_undisturbed_evals_are_preferred():
    """A run in which something was lost teaches nothing while there is one without."""
    calm, shaken = past(plan()), past(plan(), run_s=9000.0, disturbed=True)
    assert make_estimate(plan(), "bridge", [shaken, calm]) == make_estimate(plan(), "bridge", [calm])
    assert make_estimate(plan(), "bridge", [shaken]).wall_clock_s > 1000


def test_without_earlier_evals_the_registrations_check_is_used_and_said():
    """Every episode is then taken to its step limit."""
    found = make_estimate(plan(envs=1, trials=1), None, [], Check(setup_s=2.0, reset_s=1.0, step_s=0.1))
    assert found.default_timing
    assert "from the check" in found.notes[0]
    assert found.wall_clock_s > 2 * (1.0 + 100 * 0.1)


def test_without_any_measurement_the_defaults_are_named_as_such():
    """A number out of nothing says so."""
    assert "only defaults" in make_estimate(plan(), None, []).notes[0]


def test_a_policy_that_answers_one_act_at_a_time_bounds_the_run():
    """Environments beyond what the policy can answer help nothing; a second policy instance does."""
    earlier = [past(plan(envs=8, cores=8), act_s=0.5, infer_s=0.5)]
    one = make_estimate(plan(envs=8, cores=8, trials=10), "bridge", earlier).parts["run_s"]
    more = make_estimate(plan(envs=16, cores=8, trials=10), "bridge", earlier).parts["run_s"]
    two = make_estimate(plan(envs=8, cores=8, trials=10, policies=2), "bridge", earlier).parts["run_s"]
    assert one == more
    assert two < one


def test_more_time_and_more_machines_cost_more():
    """The dollars are the price list's for both sides' machines over the whole time."""
    small = make_estimate(plan(trials=1), "bridge", [past(plan())])
    large = make_estimate(plan(trials=10), "bridge", [past(plan())])
    assert 0 < small.cost_usd < large.cost_usd


@pytest.mark.parametrize("envs", [1, 4])
@pytest.mark.parametrize("models", [("arm", "leg"), ("arm", "leg", "hand")])
def test_arms_side_by_side_share_the_machine(models, envs):
    """Learned from one arm, an eval of several is foretold within the same factor."""
    asked = plan(models=models, envs=envs, trials=10)
    found = make_estimate(asked, "bridge", [past(plan())])
    actual = truth(asked)
    assert actual / 2 <= found.wall_clock_s <= actual * 2
    assert {row["arm"]: row["episodes"] for row in found.breakdown if row["task"] == "long"} == dict.fromkeys(
        models, 10
    )


def test_each_policy_is_learned_from_its_own_episodes():
    """Of an earlier eval of two policies, one that answers slowly does not slow the other down."""
    earlier = past(plan(models=("arm", "leg"), envs=4, cores=8))
    slow = [
        PastEpisode(
            e.policy, e.task, e.recorded, e.acts, e.env_cpu_s, e.infer_s * (20 if e.policy == "leg" else 1), e.wall_s
        )
        for e in earlier.episodes
    ]
    told = PastEval(**{**earlier.__dict__, "episodes": tuple(slow), "run_s": 20 * earlier.run_s})
    arm, leg = (
        make_estimate(plan(models=(name,), envs=8, cores=8, trials=20), "bridge", [told]).parts["run_s"]
        for name in ("arm", "leg")
    )
    assert arm < leg


def test_the_range_is_the_one_that_estimates_are_held_to():
    """Measured: a factor both ways. Unmeasured: every episode may end far sooner than at its step limit."""
    measured = make_estimate(plan(), "bridge", [past(plan())])
    assert (measured.low_s, measured.high_s) == (measured.wall_clock_s / BAND, measured.wall_clock_s * BAND)
    unmeasured = make_estimate(plan(), "bridge", [])
    assert unmeasured.low_s < unmeasured.wall_clock_s / 10


def test_what_is_held_is_the_most_it_can_cost():
    """The dearest card of the list for the longest time and a margin; never more than the eval's own bound."""
    asked = plan(cards=("L4", "H100"))
    found = make_estimate(asked, "bridge", [past(plan())])
    cheap = make_estimate(plan(cards=("L4",)), "bridge", [past(plan())])
    assert found.cost_usd == cheap.cost_usd
    assert found.held_usd > 2 * cheap.held_usd > 2 * HOLD_MARGIN * cheap.cost_usd
    assert make_estimate(asked, "bridge", [past(plan())], max_usd=0.001).held_usd == 0.001


def test_a_rerun_is_estimated_by_what_is_left():
    """A tenth of the episodes takes a tenth of the work, task by task."""
    whole = make_estimate(plan(trials=50), "bridge", [past(plan())])
    rest = make_estimate(plan(trials=50, todo=((0, 10),)), "bridge", [past(plan())])
    assert rest.parts["run_s"] == pytest.approx(whole.parts["run_s"] / 10, rel=0.01)
    assert [(row["task"], row["episodes"]) for row in rest.breakdown] == [("short", 5), ("long", 5)]
