"""Declarations as wire bodies, held against golden files; what is not served yet is refused."""

import json
from pathlib import Path

import pytest

import seq
from seq import targets
from seq.contract.adapters import AdapterRegisterRequest
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import DeploymentRequest
from seq.requests import declared_name, request_of

GOLDEN = Path(__file__).parent / "golden"
FULL_POLICY = """
    import seq

    @seq.policy(
        name="full",
        gpu=["H100:2", "A100:2"],
        cpu=(4, 8),
        memory=16,
        image=seq.Image.from_registry("ubuntu:22.04", python="3.12").apt_install("git").run_commands("make"),
        deps=["numpy"],
        weights={"vision": "hf://org/vision@abc", "action": seq.Volume.from_name("head")},
        secrets=[seq.Secret.from_name("hf")],
        min_workers=1, buffer_workers=2, idle_timeout=300, max_gpus=8, on_full="reject", queue_timeout_s=60,
        streaming=True,
        embodiments={
            "left": seq.Embodiment(
                action=seq.ActionContract(
                    robot="arm", action_space="joint_delta", action_dim=2, control_frequency_hz=15,
                    bounds=[(-1, 1), (0, 1)], max_delta=0.1, on_violation="refuse",
                ),
                observation=seq.ObservationContract(
                    cameras={"wrist": seq.Camera(width=64, height=48, depth=True)}, history=2
                ),
            )
        },
        region="eu",
        timeouts=seq.Timeouts(startup=900, request=5),
        io="{image} -> {steps}",
        models=["vlm", "accounts/sequences/models/decider"],
        family="pi",
    )
    @seq.concurrent(gpus_per_replica=2, target_inputs=1, max_inputs=2)
    class Full:
        @seq.load
        def load(self, weights_dir): ...
        @seq.infer
        def infer(self, obs, *, seed=None, steps: int = 4): ...
        @seq.on_episode
        def forget(self, episode_id): ...
"""
FULL_BENCHMARK = """
    import seq

    @seq.benchmark(
        name="full-bench",
        gpu=["RTX-PRO-6000", "L4"],
        envs=8,
        conditions=[seq.Condition("a", 1, {"x": "1"}, suite="s"), seq.Condition("b", 2, max_steps=9, timeout_s=3)],
        max_steps=50,
        timeout_s=30,
        assets=seq.Volume.from_name("scenes"),
        render=seq.Record("front", fps=20, flip="vertical"),
        action_contract={"robot": "arm", "action_space": "ee_delta", "action_dim": 3, "control_frequency_hz": 20},
        secrets=[seq.Secret.from_name("lab")],
        engine="mujoco",
    )
    class FullBench:
        @seq.setup
        def setup(self, envs, *, friction: float = 1.0): ...
        @seq.reset
        def reset(self, slots, conditions): ...
        @seq.observation
        def observe(self, slots): ...
        @seq.step
        def step(self, slots, actions): ...
        @seq.check
        def check(self, slots): ...
        @seq.score
        def score(self, results): ...
"""
FULL_ADAPTER = """
    import seq

    @seq.adapter(name="full-adapter")
    class FullAdapter(seq.Adapter):
        obs_transforms = [seq.tf.rename({"a": "b"}), seq.tf.resize("b", (8, 8), (4, 4), lossy="the policy's size")]
        action_transforms = [seq.tf.custom("turn", lambda rows: rows, lossless=True)]

        def __init__(self, *, size: int = 4):
            self.size = size
"""


def _body(cls: type) -> dict:
    """The wire body without what differs between zlib builds."""
    body = request_of(cls).wire()
    if "code" in body:
        assert set(body["code"]) == {"format", "data", "sha256"}
        body["code"] = {"format": body["code"]["format"]}
    return body


@pytest.mark.parametrize(
    ("name", "source"), [("policy", FULL_POLICY), ("benchmark", FULL_BENCHMARK), ("adapter", FULL_ADAPTER)]
)
def test_every_field_lands_where_the_wire_has_it(write, name, source):
    """A declaration that uses every option makes the golden body."""
    body = _body(targets.load(str(write(f"full_{name}.py", source))))

    assert body == json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def test_the_kind_decides_the_body(toy):
    """`request_of` and `declared_name` take any decorated class."""
    assert isinstance(request_of(toy["policy"]), DeploymentRequest)
    assert isinstance(request_of(toy["benchmark"]), BenchmarkRegisterRequest)
    assert isinstance(request_of(toy["adapter"]), AdapterRegisterRequest)
    assert [declared_name(cls) for cls in toy.values()] == ["toy-policy", "toy-benchmark", "toy-adapter"]


def test_the_wrong_kind_raises_the_matching_error(toy):
    """Asking for a policy's request of a benchmark is a policy's definition error, and so on."""
    with pytest.raises(seq.PolicyDefinitionError, match="not a policy"):
        seq.deployment_request(toy["benchmark"])
    with pytest.raises(seq.BenchmarkDefinitionError, match="not a benchmark"):
        seq.benchmark_registration(toy["adapter"])
    with pytest.raises(seq.AdapterDefinitionError, match="not an adapter"):
        seq.adapter_registration(toy["policy"])
    with pytest.raises(seq.SeqAuthoringError, match="decorate"):
        request_of(int)
    assert seq.registration(toy["policy"]).name == "toy-policy"


@pytest.mark.parametrize(
    ("options", "members", "says"),
    [
        ({"volumes": {"/cache": seq.Volume("c")}}, {}, "volumes="),
        ({}, {"plan": seq.plan(every_s=1)(lambda self: None)}, r"@seq\.plan"),
        ({"timeouts": seq.Timeouts(startup=20_000)}, {}, "startup"),
        ({"models": [f"m{n}" for n in range(16)], "gpu": "L4"}, {}, None),
    ],
)
def test_what_is_not_served_yet_is_refused_when_it_would_be_sent(policy_class, options, members, says):
    """It declares, and the request says that it cannot be run."""
    cls = seq.policy(**{"gpu": "cpu", **options})(policy_class(**members))

    if says is None:
        assert len(seq.deployment_request(cls).policy.models) == 16
        return
    with pytest.raises(seq.PolicyDefinitionError, match=says):
        seq.deployment_request(cls)


def test_max_containers_is_refused_at_deploy(policy_class):
    """The decorator warns, the deploy refuses."""
    with pytest.warns(DeprecationWarning, match="max_gpus"):
        cls = seq.policy(gpu="cpu", max_containers=2)(policy_class())

    with pytest.raises(seq.PolicyDefinitionError, match="max_containers"):
        seq.deployment_request(cls)


def test_a_default_adapter_is_refused_at_registration(benchmark_class):
    """The message says what to do instead."""
    cls = seq.benchmark(conditions=seq.conditions(["a"], [0]), default_adapter="x")(benchmark_class())

    with pytest.raises(seq.BenchmarkDefinitionError, match="name it in the eval"):
        seq.benchmark_registration(cls)


def test_an_adapters_file_travels_as_text(toy):
    """The source is the whole file, so that its content names the version."""
    body = seq.adapter_registration(toy["adapter"])

    assert body.source == (Path(seq.__file__).parent.parent / "adapters/toy-adapter/adapter.py").read_text(
        encoding="utf-8"
    )
