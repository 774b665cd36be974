"""What an eval will do, or why it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.cluster.base import Capacity
from runner.errors import Refused
from runner.evals.plan import AdapterSide, BenchmarkSide, Known, PolicySide, layout, make_plan, plan_arms
from runner.evals.selection import select
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.contract.evals import EvalRequest
from seq.contract.robot import ObservationContract

ACTION = {"robot": "panda", "action_space": "joint_absolute", "action_dim": 8, "control_frequency_hz": 20}
VARIANTS = [{"axis": "light", "values": ["day", "night"]}, {"axis": "mass", "values": ["1", "2"]}]
BRIDGE = AdapterSide("bridge", 1, "0" * 64, "own", (), {})
TWO_CORES = Capacity(cores=2)


def bench(**what):
    given = {
        "name": "table",
        "image": {"base": "debian:12-slim"},
        "conditions": {"tasks": ["reach", "push"], "seeds": [0, 1, 2], "variants": VARIANTS},
        "handler_ref": "benchmark:Table",
        "gpu": "cpu",
        "cpu": 2,
        "suite_of": {"push": "contact"},
        "action_contract": ACTION,
        "render": {"camera": "front"},
        **what,
    }
    return BenchmarkSide("table", 1, BenchmarkRegisterRequest.model_validate(given))


def arm(action=ACTION, gpu=("cpu",), name="arm", params=None, **resources):
    request = {
        "name": name,
        "image": {"base": "debian:12-slim"},
        "resources": {"gpu": list(gpu), **resources},
        "policy": {"handler_ref": "policy:Arm", "action": action, "params": params},
    }
    return PolicySide(name, f"version of {name}", 3, "0" * 64, DeploymentRequest.model_validate(request))


def plan(benchmark=None, policy=None, adapter=BRIDGE, known=None, capacity=TWO_CORES, others=(), todo=None, **request):
    """A plan as `submit` makes it; `todo` are the starts that each arm is left with."""
    asked = EvalRequest.model_validate({"model": "arm", "benchmark": "table", **request})
    side = benchmark or bench()
    record = "none" if side.request.render is None else asked.record or "per-task"
    selection = select(side.request, asked, record)
    arms = plan_arms(asked, [policy or arm(), *others], side, adapter, selection)
    if todo is not None:
        arms = tuple(replace(one, todo=left) for one, left in zip(arms, todo, strict=True))
    return make_plan(asked, selection, arms, side, adapter, known or Known(), capacity)


def refusal(**what):
    with pytest.raises(Refused) as refused:
        plan(**what)
    return refused.value


def conditions(made):
    return list(made.selection.conditions())


def shown(made):
    return [(e.task, *(value for _, value in e.variation), e.seed) for e in conditions(made)]


def test_tasks_are_outermost_then_variants_in_axis_order_then_seeds():
    """Conditions expand in the one fixed order, numbered from 0."""
    made = plan()
    assert made.total == 2 * 4 * 3
    assert [e.index for e in conditions(made)] == list(range(24))
    assert shown(made)[:5] == [
        ("reach", "day", "1", 0),
        ("reach", "day", "1", 1),
        ("reach", "day", "1", 2),
        ("reach", "day", "2", 0),
        ("reach", "day", "2", 1),
    ]
    assert shown(made)[12] == ("push", "day", "1", 0)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            {"trials": 1, "variants": {"light": ["day"], "mass": ["2"]}},
            [("reach", "day", "2", 0), ("push", "day", "2", 0)],
        ),
        (
            {"suite": "contact", "trials": 1, "variants": {"mass": ["1"]}},
            [("push", "day", "1", 0), ("push", "night", "1", 0)],
        ),
        (
            {"tasks": ["push"], "trials": 2, "variants": {"light": ["night"], "mass": ["1"]}},
            [("push", "night", "1", 0), ("push", "night", "1", 1)],
        ),
    ],
)
def test_filters_keep_the_order(request_, expected):
    """Suite, tasks and variants only leave episodes out; trials keeps the first seeds of each task and variant."""
    assert shown(plan(**request_)) == expected


@pytest.mark.parametrize(
    ("request_", "there"),
    [
        ({"tasks": ["fly"]}, "reach, push"),
        ({"suite": "soft"}, "contact"),
        ({"variants": {"wind": ["1"]}}, "light, mass"),
        ({"variants": {"light": ["dusk"]}}, "day, night"),
    ],
)
def test_an_unknown_name_is_answered_with_the_names_there_are(request_, there):
    """A wrong task, suite, axis or value is refused and the hint lists the right ones."""
    refused = refusal(**request_)
    assert refused.code == "invalid_request"
    assert there in (refused.hint or "")


def test_filters_with_nothing_in_common_are_refused():
    """A suite and tasks outside of it leave no episode, which is said before anything runs."""
    assert "no episode is left" in refusal(suite="contact", tasks=["reach"]).detail


def test_a_written_list_runs_exactly_as_listed():
    """Listed conditions keep their order and their own caps, and take the benchmark's where they have none."""
    listed = [
        {"task": "push", "seed": 7, "variant": {"mass": "2", "light": "day"}, "max_steps": 5},
        {"task": "reach", "seed": 1, "suite": "free", "timeout_s": 2.5},
    ]
    first, second = conditions(plan(benchmark=bench(condition_list=listed, max_steps=90, timeout_s=60)))
    assert (first.task, first.seed, first.max_steps, first.timeout_s, first.suite) == ("push", 7, 5, 60, "contact")
    assert first.variation == [("light", "day"), ("mass", "2")]
    assert (second.task, second.seed, second.max_steps, second.timeout_s, second.suite) == ("reach", 1, 90, 2.5, "free")


@pytest.mark.parametrize(("record", "count"), [(None, 2), ("per-task", 2), ("all", 24), ("none", 0)])
def test_what_is_recorded(record, count):
    """By default the first episode of each task is recorded; all and none do as they say."""
    made = plan(**({"record": record} if record else {}))
    assert sum(e.record for e in conditions(made)) == count
    assert conditions(made)[12].record is (record != "none")


def test_without_render_nothing_is_recorded_and_asking_for_it_is_noted():
    """A benchmark that declares no render= has no recordings, which is no error."""
    made = plan(benchmark=bench(render=None), record="all")
    assert made.record == "none"
    assert not any(e.record for e in conditions(made))
    assert any("declares no render=" in note for note in made.notes)


def test_trials_beyond_the_seeds_are_noted():
    """More trials than a task has seeds run what there is and say so."""
    made = plan(trials=20)
    assert made.total == 24
    assert any("no task has more than 3 seeds" in note for note in made.notes)


@pytest.mark.parametrize(
    ("declared", "request_", "envs", "cores"),
    [
        ({"cpu": 2}, {}, 2, 2),
        ({"cpu": None}, {}, 16, 2),
        ({"cpu": 2}, {"envs": 8}, 8, 2),
        ({"cpu": 1, "envs": 20, "batched": True}, {}, 20, 1),
        ({"cpu": 4, "envs": 64, "batched": True}, {"envs": 8}, 8, 2),
    ],
)
def test_environments_and_cores_of_a_cpu_benchmark(declared, request_, envs, cores):
    """A single environment has a core each; a batched one declares both; never more cores than the machine has."""
    made = plan(benchmark=bench(**declared), **request_)
    assert (made.envs, made.cores_each) == (envs, cores)


def test_more_environments_than_cores_share_and_it_is_said():
    """Environments beyond the machine's cores run all the same; the notes say that they share."""
    assert "8 environments on 2 cores: they share" in plan(envs=8).notes
    assert not any("they share" in note for note in plan(envs=2).notes)


@pytest.mark.parametrize(("batched", "cores"), [(False, 8.0), (True, 2.0)])
def test_no_more_environments_start_than_an_instance_has_episodes(batched, cores):
    """The layout tells what was asked for; what starts and is paid for is what can be used, and a note says so."""
    made = plan(benchmark=bench(batched=batched), envs=100_000, benchmark_instances=3)
    assert (made.envs, made.envs_in_all, made.benchmark.cores) == (8, 24, cores)
    assert layout(made)["benchmark"]["envs"] == 100_000
    said = "300000 environments for 24 episodes: 299976 would stay unused, so 24 are started"
    assert said in made.notes
    assert not any("unused" in note for note in plan(envs=24).notes)


def test_the_layout_is_what_was_asked_for():
    """Instances of both sides are taken as given, never trimmed."""
    made = plan(policy_instances=3, benchmark_instances=2, envs=4)
    assert (made.policies[0].machines.instances, made.benchmark.instances, made.envs_in_all) == (3, 2, 8)


@pytest.mark.parametrize(
    ("ours", "theirs", "fits"),
    [
        (ACTION, ACTION, True),
        (ACTION, None, True),
        ({**ACTION, "action_dim": 7}, ACTION, False),
        ({**ACTION, "action_space": "joint_delta"}, ACTION, False),
        (None, ACTION, False),
        (None, None, False),
    ],
)
def test_unlike_action_contracts_ask_for_an_adapter(ours, theirs, fits):
    """Without an adapter both sides must mean the same by an action; with one, it is the adapter's business."""
    sides = {"policy": arm(action=ours), "benchmark": bench(action_contract=theirs)}
    assert plan(**sides).total
    if fits:
        assert plan(**sides, adapter=None).total
    else:
        assert "give an adapter" in refusal(**sides, adapter=None).detail


OBSERVED = {
    "images": {"dict": {"front": {"array": [224, 320, 3], "dtype": "uint8"}}},
    "joints": {"array": [7], "dtype": "float64"},
    "state": {"dict": {"goal": {"list": [{"number": "float"}], "len": 3}}},
}
READS = {
    "cameras": {"front": {"width": 320, "height": 224}},
    "proprio": {"joint_positions": 7},
    "state": {"goal": 3},
}


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        ({}, None),
        ({"images": "none"}, "it has no images (its keys: arm_x)"),
        ({"cameras": {"wrist": {"width": 320, "height": 224}}}, "camera wrist is not among its images (front)"),
        ({"cameras": {"front": {"width": 224, "height": 224}}}, "camera front is 320x224"),
        ({"proprio": {"joint_positions": 8}}, "joints has 7 numbers and the policy reads 8"),
        ({"proprio": {"gripper": 1}}, "gripper is not in it"),
        ({"state": {"goal": 2}}, "state goal has 3 numbers"),
    ],
)
def test_an_observation_that_does_not_fit_asks_for_an_adapter(reads, said):
    """Without an adapter the first observation is compared with what the policy reads, field by field."""
    side = arm()
    shown = {"dict": OBSERVED if "images" not in reads else {"arm_x": {"number": "float"}}}
    reads = {key: value for key, value in {**READS, **reads}.items() if key != "images"}
    policy = side.request.policy.model_copy(update={"observation": ObservationContract(**reads)})
    side = replace(side, request=side.request.model_copy(update={"policy": policy}))
    sides = {"policy": side, "benchmark": replace(bench(), observation=shown)}
    assert plan(**sides).total
    if said is None:
        assert plan(**sides, adapter=None).total
    else:
        refused = refusal(**sides, adapter=None)
        assert said in refused.detail
        assert "give an adapter" in refused.detail


def test_the_refusal_lists_adapters_used_before_else_all():
    """Whoever forgot the adapter is shown the likely ones."""
    sides = {"policy": arm(action=None), "adapter": None}
    assert refusal(**sides, known=Known(("a", "b"), ("b",))).details["adapters"] == ["b"]
    assert refusal(**sides, known=Known(("a", "b"), ())).details["adapters"] == ["a", "b"]
    assert "seq init" in (refusal(**sides).hint or "")


@pytest.mark.parametrize(
    "what",
    [
        {"policy": arm(gpu=("L4",))},
        {"policy": arm(gpu=("cpu", "L4")), "policy_gpu": "L4"},
        {"benchmark": bench(gpu="L4", cpu=None)},
        {"benchmark": bench(gpu=None, cpu=None)},
    ],
)
def test_a_card_the_platform_does_not_have_is_refused(what):
    """The refusal names the card and what the platform has."""
    refused = refusal(**what)
    assert "L4" in refused.detail
    assert "it has: cpu" in refused.detail


def test_cards_there_are_may_be_used_up_to_their_number():
    """A card of the cluster is accepted, more of it than there are is not."""
    capacity = Capacity(cores=2, cards={"L4": 1})
    assert plan(policy=arm(gpu=("L4",)), capacity=capacity).policies[0].machines.card == "L4"
    assert "it has: cpu, 1 x L4" in refusal(policy=arm(gpu=("L4",)), capacity=capacity, policy_instances=2).detail


@pytest.mark.parametrize(
    ("what", "pretend"),
    [
        ({"policy": arm(gpu=("L4",))}, True),
        ({"benchmark": bench(gpu="L4", cpu=None)}, True),
        ({}, False),
    ],
)
def test_an_eval_that_rests_on_pretend_cards_says_so(what, pretend):
    """Its first note, wherever notes are shown, and a word of the plan; one on processors alone says nothing."""
    there = {"cores": 2, "cards": {"L4": 1}}
    made = plan(capacity=Capacity(**there, pretend=True), **what)
    assert (made.pretend, any("pretend (1 x L4)" in note for note in made.notes[:1])) == (pretend, pretend)
    assert not plan(capacity=Capacity(**there), **what).pretend


def test_a_card_the_policy_was_not_deployed_for_is_refused():
    """policy_gpu chooses among the deployment's cards."""
    assert "deployed for cpu" in refusal(policy_gpu="L4", capacity=Capacity(2, {"L4": 1})).detail


def test_a_cpu_benchmark_takes_no_card():
    """benchmark_gpu has no meaning for a gpu="cpu" benchmark."""
    assert "leave out benchmark_gpu" in refusal(benchmark_gpu="L4").detail


def test_one_place_to_run_and_a_bound_that_is_none_are_refused():
    """Every accepted field has an effect or is refused in one sentence."""
    assert "leave out region" in refusal(region="eu").detail
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        assert "max_usd" in refusal(max_usd=wrong).detail


K = {"k": {"type": "int", "default": 5, "min": 1, "max": 9}, "gain": {"type": "float", "default": 1.0}}


def test_compared_policies_are_arms_with_machines_of_their_own():
    """Each plays every start beside the others, on its own policy machines and its own benchmark instances."""
    made = plan(others=[arm(name="leg"), arm(name="hand")], compare=["leg", "hand"], policy_instances=2, envs=3)
    assert [one.name for one in made.arms] == ["arm", "leg", "hand"]
    assert [side.model for side in made.policies] == ["arm", "leg", "hand"]
    assert [side.machines.instances for side in made.policies] == [2, 2, 2]
    assert (made.total, made.envs_in_all) == (3 * 24, 3 * 3)
    told = layout(made)
    assert [one["arm"] for one in told["arms"]] == ["arm", "leg", "hand"]
    assert told["episodes_per_arm"] == 24


def test_every_swept_combination_of_the_first_policy_is_an_arm_and_shares_its_machines():
    """Sweeps multiply, the first name outermost; a compared policy runs once, with what was set for all."""
    sides = {"policy": arm(params=K), "others": [arm(name="leg", params=K)]}
    made = plan(**sides, compare=["leg"], sweep={"k": [1, 2], "policy.gain": [0.5, 2]})
    names = ["arm k=1 policy.gain=0.5", "arm k=1 policy.gain=2", "arm k=2 policy.gain=0.5", "arm k=2 policy.gain=2"]
    assert [one.name for one in made.arms] == [*names, "leg"]
    assert [side.model for side in made.policies] == ["arm", "leg"]
    settings = [one.settings.wire()["policy"] for one in made.arms]
    assert settings[1] == {"k": {"value": 1, "source": "cli"}, "gain": {"value": 2.0, "source": "cli"}}
    assert settings[4] == {"k": {"value": 5, "source": "policy"}, "gain": {"value": 1.0, "source": "policy"}}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"others": [arm()], "compare": ["arm"]}, "arm would be two arms"),
        ({"others": [arm(name="leg")] * 2, "compare": ["leg", "leg"]}, "name each policy once"),
        ({"sweep": {"k": [3]}}, "at least two values, got 1"),
        ({"sweep": {"k": [3, 3]}}, "has 3 twice"),
        ({"sweep": {"gain": [1, 1.0]}}, "have the same settings"),
        ({"sweep": {"k": [1, 2]}, "params": {"k": 3}}, "both set and swept"),
        ({"sweep": {"k": [1, 2]}, "params": {"policy.k": 3}}, "policy.k is set twice"),
        ({"sweep": {"k": [1, 20]}}, "policy.k must be in [1, 9], got 20"),
        ({"sweep": {name: list(range(1, 10)) for name in ("k", "policy.k", "gain", "policy.gain")}}, "6561 arms"),
    ],
)
def test_arms_that_would_be_none_are_refused(what, said):
    """Whatever is wrong with a sweep or a comparison is said before anything is looked up or reserved."""
    assert said in refusal(policy=arm(params=K), **what).detail


def test_a_compared_policy_must_know_what_is_set():
    """A parameter that one of the policies does not declare would be a difference nobody asked for."""
    refused = refusal(policy=arm(params=K), others=[arm(name="leg")], compare=["leg"], params={"k": 2})
    assert "nobody declares a parameter 'k'" in refused.detail


def test_an_arm_with_nothing_left_to_play_has_no_machines():
    """A rerun in which only one arm lacks episodes pays for that one alone, and still lists the other."""
    capacity = Capacity(cores=2, cards={"L4": 4})
    sides = {"policy": arm(gpu=("L4",)), "others": [arm(name="leg", gpu=("L4",))], "compare": ["leg"]}
    whole = plan(**sides, capacity=capacity)
    rest = plan(**sides, capacity=capacity, todo=[(), ((3, 2),)])
    assert (whole.cards, whole.playing, whole.total) == ({"L4": 2}, 2, 48)
    assert (rest.cards, rest.playing, rest.total) == ({"L4": 1}, 1, 2)
    assert [side.machines.instances for side in rest.policies] == [0, 1]
    assert (rest.envs, rest.envs_in_all, len(rest.arms)) == (2, 2, 2)


def test_episodes_that_share_a_start_are_noted():
    """Variants of one seed, and starts that are listed twice, are no independent episodes."""
    assert any("24 episodes an arm from 6 different starts" in note for note in plan().notes)
    assert not any("share a start" in note for note in plan(benchmark=bench(conditions=PLAIN)).notes)


PLAIN = {"tasks": ["reach", "push"], "seeds": [0, 1, 2]}
