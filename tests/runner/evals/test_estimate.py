"""What an eval is foretold to take, against runs of a small model of a shared machine."""

from __future__ import annotations

import pytest

from runner.evals.estimate import Check, PastEpisode, PastEval, make_estimate
from runner.evals.plan import Machines, Plan
from seq.contract.internal import Condition

ENV_CPU_S = {"short": 1.0, "long": 6.0, "middle": 3.0}
ACTS = {"short": 10, "long": 40, "middle": 20}
POLICY_S, LAUNCH_S, SETUP_S = 8.0, 2.0, 3.0


def plan(tasks=("short", "long"), trials=5, envs=2, cores=2, policies=1):
    episodes = [Condition(index=i, task=task, seed=i, max_steps=100) for i, task in enumerate(tasks * trials)]
    return Plan(
        episodes=tuple(episodes),
        policy=Machines(policies, "cpu", 1.0, 1.0),
        benchmark=Machines(1, "cpu", float(envs), 2.0 * envs),
        envs=envs,
        envs_asked=envs,
        cores_each=min(envs, cores),
        machine_cores=cores,
        record="none",
        notes=(),
    )


def run(made, act_s, infer_s):
    """Play a plan: active episodes share the cores, one act at a time is in the policy. Run time and wall times."""
    left = [ENV_CPU_S[e.task] + ACTS[e.task] * act_s for e in made.episodes]
    active, waiting, walls, now = {}, list(range(len(left))), {}, 0.0
    while active or waiting:
        while waiting and len(active) < made.envs:
            active[waiting.pop(0)] = now
        rate = min(1.0, made.machine_cores / len(active))
        step = min(left[i] for i in active) / rate
        now += step
        for i in list(active):
            left[i] -= step * rate
            if left[i] < 1e-9:
                walls[i] = now - active.pop(i)
    asked = sum(ACTS[e.task] for e in made.episodes) * infer_s
    return max(now, asked), walls


def past(made, act_s=0.05, infer_s=0.02, policy="arm", adapter="bridge", **what):
    run_s, walls = run(made, act_s, infer_s)
    episodes = tuple(
        PastEpisode(e.task, e.record, ACTS[e.task], ENV_CPU_S[e.task], ACTS[e.task] * infer_s, walls[e.index])
        for e in made.episodes
    )
    started = min(made.envs, len(episodes)) / made.machine_cores
    setup_s, policy_s = SETUP_S * max(1.0, started), POLICY_S + SETUP_S * started
    told = {"setup_s": setup_s, "run_s": run_s, "disturbed": False, **what}
    return PastEval(policy, adapter, made.envs, made.machine_cores, policy_s, LAUNCH_S, episodes=episodes, **told)


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
    found = make_estimate(asked, "arm", "bridge", [past(learned, act_s, infer_s)])
    actual = truth(asked, act_s, infer_s)
    assert actual / 2 <= found.wall_clock_s <= actual * 2
    assert not found.default_timing


def test_tasks_of_different_length_are_summed_one_by_one():
    """Learned on both tasks, an eval of the long one alone is longer than one of the short one."""
    earlier = [past(plan())]
    short, long = (make_estimate(plan(tasks=(t,), envs=1), "arm", "bridge", earlier) for t in ("short", "long"))
    assert short.parts["run_s"] < long.parts["run_s"] / 3
    assert list(make_estimate(plan(), "arm", "bridge", earlier).parts["work_s_per_task"]) == ["short", "long"]


def test_a_task_never_run_is_taken_as_the_mean_and_named():
    """Falling back from a task to all tasks is said."""
    found = make_estimate(plan(tasks=("middle",)), "arm", "bridge", [past(plan())])
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
    assert said in make_estimate(plan(), policy, adapter, [past(plan())]).notes[0]


def test_undisturbed_evals_are_preferred():
    """A run in which something was lost teaches nothing while there is one without."""
    calm, shaken = past(plan()), past(plan(), run_s=9000.0, disturbed=True)
    assert make_estimate(plan(), "arm", "bridge", [shaken, calm]) == make_estimate(plan(), "arm", "bridge", [calm])
    assert make_estimate(plan(), "arm", "bridge", [shaken]).wall_clock_s > 1000


def test_without_earlier_evals_the_registrations_check_is_used_and_said():
    """Every episode is then taken to its step limit."""
    found = make_estimate(plan(envs=1, trials=1), "arm", None, [], Check(setup_s=2.0, reset_s=1.0, step_s=0.1))
    assert found.default_timing
    assert "from the check" in found.notes[0]
    assert found.wall_clock_s > 2 * (1.0 + 100 * 0.1)


def test_without_any_measurement_the_defaults_are_named_as_such():
    """A number out of nothing says so."""
    assert "only defaults" in make_estimate(plan(), "arm", None, []).notes[0]


def test_a_policy_that_answers_one_act_at_a_time_bounds_the_run():
    """Environments beyond what the policy can answer help nothing; a second policy instance does."""
    earlier = [past(plan(envs=8, cores=8), act_s=0.5, infer_s=0.5)]
    one = make_estimate(plan(envs=8, cores=8, trials=10), "arm", "bridge", earlier).parts["run_s"]
    more = make_estimate(plan(envs=16, cores=8, trials=10), "arm", "bridge", earlier).parts["run_s"]
    two = make_estimate(plan(envs=8, cores=8, trials=10, policies=2), "arm", "bridge", earlier).parts["run_s"]
    assert one == more
    assert two < one


def test_more_time_and_more_machines_cost_more():
    """The dollars are the price list's for both sides' machines over the whole time."""
    small = make_estimate(plan(trials=1), "arm", "bridge", [past(plan())])
    large = make_estimate(plan(trials=10), "arm", "bridge", [past(plan())])
    assert 0 < small.cost_usd < large.cost_usd
