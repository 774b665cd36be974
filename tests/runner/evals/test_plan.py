"""What an eval will do, or why it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.cluster.base import Capacity
from runner.errors import Refused
from runner.evals.plan import AdapterSide, BenchmarkSide, Known, PolicySide, layout, make_plan
from runner.evals.unbuilt import UNBUILT
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.contract.evals import EvalRequest
from seq.contract.robot import ObservationContract

ACTION = {"robot": "panda", "action_space": "joint_absolute", "action_dim": 8, "control_frequency_hz": 20}
VARIANTS = [{"axis": "light", "values": ["day", "night"]}, {"axis": "mass", "values": ["1", "2"]}]
BRIDGE = AdapterSide("bridge", 1, "0" * 64, "own", ())
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


def arm(action=ACTION, gpu=("cpu",), **resources):
    request = {
        "name": "arm",
        "image": {"base": "debian:12-slim"},
        "resources": {"gpu": list(gpu), **resources},
        "policy": {"handler_ref": "policy:Arm", "action": action},
    }
    return PolicySide("arm", 3, DeploymentRequest.model_validate(request))


def plan(benchmark=None, policy=None, adapter=BRIDGE, known=None, capacity=TWO_CORES, **request):
    asked = EvalRequest.model_validate({"model": "arm", "benchmark": "table", **request})
    return make_plan(asked, policy or arm(), benchmark or bench(), adapter, known or Known(), capacity)


def refusal(**what):
    with pytest.raises(Refused) as refused:
        plan(**what)
    return refused.value


def shown(made):
    return [(e.task, *(value for _, value in e.variation), e.seed) for e in made.episodes]


def test_tasks_are_outermost_then_variants_in_axis_order_then_seeds():
    """Conditions expand in the one fixed order, numbered from 0."""
    made = plan()
    assert len(made.episodes) == 2 * 4 * 3
    assert [e.index for e in made.episodes] == list(range(24))
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
    first, second = plan(benchmark=bench(condition_list=listed, max_steps=90, timeout_s=60)).episodes
    assert (first.task, first.seed, first.max_steps, first.timeout_s, first.suite) == ("push", 7, 5, 60, "contact")
    assert first.variation == [("light", "day"), ("mass", "2")]
    assert (second.task, second.seed, second.max_steps, second.timeout_s, second.suite) == ("reach", 1, 90, 2.5, "free")


@pytest.mark.parametrize(("record", "count"), [(None, 2), ("per-task", 2), ("all", 24), ("none", 0)])
def test_what_is_recorded(record, count):
    """By default the first episode of each task is recorded; all and none do as they say."""
    made = plan(**({"record": record} if record else {}))
    assert sum(e.record for e in made.episodes) == count
    assert made.episodes[12].record is (record != "none")


def test_without_render_nothing_is_recorded_and_asking_for_it_is_noted():
    """A benchmark that declares no render= has no recordings, which is no error."""
    made = plan(benchmark=bench(render=None), record="all")
    assert made.record == "none"
    assert not any(e.record for e in made.episodes)
    assert any("declares no render=" in note for note in made.notes)


def test_trials_beyond_the_seeds_are_noted():
    """More trials than a task has seeds run what there is and say so."""
    made = plan(trials=20)
    assert len(made.episodes) == 24
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
    assert not any("share" in note for note in plan(envs=2).notes)


@pytest.mark.parametrize(("batched", "cores"), [(False, 8.0), (True, 2.0)])
def test_no_more_environments_start_than_an_instance_has_episodes(batched, cores):
    """The layout tells what was asked for; what starts and is paid for is what can be used, and a note says so."""
    made = plan(benchmark=bench(batched=batched), envs=100_000, benchmark_instances=3)
    assert (made.envs, made.envs_in_all, made.benchmark.cores) == (8, 24, cores)
    assert layout(made, arm())["benchmark"]["envs"] == 100_000
    said = "300000 environments for 24 episodes: 299976 would stay unused, so 24 are started"
    assert said in made.notes
    assert not any("unused" in note for note in plan(envs=24).notes)


def test_the_layout_is_what_was_asked_for():
    """Instances of both sides are taken as given, never trimmed."""
    made = plan(policy_instances=3, benchmark_instances=2, envs=4)
    assert (made.policy.instances, made.benchmark.instances, made.envs_in_all) == (3, 2, 8)


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
    assert plan(**sides).episodes
    if fits:
        assert plan(**sides, adapter=None).episodes
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
    side = PolicySide("arm", 3, side.request.model_copy(update={"policy": policy}))
    sides = {"policy": side, "benchmark": replace(bench(), observation=shown)}
    assert plan(**sides).episodes
    if said is None:
        assert plan(**sides, adapter=None).episodes
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
    assert plan(policy=arm(gpu=("L4",)), capacity=capacity).policy.card == "L4"
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


UNBUILT_VALUES = {
    "compare": ["other"],
    "sweep": {"policy.k": [1, 2]},
    "params": {"k": 1},
    "max_usd": 1.0,
    "region": "eu",
    "rerun_of": "a" * 32,
    "rerun_unsuccessful_of": "a" * 32,
    "metric": "success",
}


@pytest.mark.parametrize("field", sorted(UNBUILT))
def test_what_is_not_built_is_refused_by_name(field):
    """Every accepted field has an effect or is refused in one sentence."""
    refused = refusal(**{field: UNBUILT_VALUES[field]})
    assert (refused.code, refused.detail) == ("invalid_request", UNBUILT[field])
