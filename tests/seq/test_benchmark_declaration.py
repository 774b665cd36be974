"""What `@seq.benchmark` and its hooks accept, refuse and keep."""

import pytest

import seq
from seq.benchmark import declaration_of

ONE = seq.conditions(["reach"], [0])


def _batched_members() -> dict:
    return {
        "reset": seq.reset(lambda self, slots, conditions: None),
        "observation": seq.observation(lambda self, slots: []),
        "step": seq.step(lambda self, slots, actions: None),
        "check": seq.check(lambda self, slots: []),
    }


def test_a_bare_declaration_has_the_documented_defaults(benchmark_class):
    """With only `conditions=`: the class's name, one environment on an L4, 300 steps, no time limit."""
    declared = declaration_of(seq.benchmark(conditions=ONE)(benchmark_class("ToyBench")))

    assert (declared.name, declared.gpu, declared.envs) == ("ToyBench", "L4", 1)
    assert (declared.max_steps, declared.timeout_s, declared.cores) == (300, None, None)
    assert not declared.batched


def test_a_cpu_benchmark_runs_one_environment_a_core(benchmark_class):
    """Cores default to 16, environments to the cores, memory to 2 GiB each."""
    bare = declaration_of(seq.benchmark(gpu="cpu", conditions=ONE)(benchmark_class()))
    four = declaration_of(seq.benchmark(gpu="cpu", cpu=4, envs=4, memory=3.5, conditions=ONE)(benchmark_class()))

    assert (bare.cores, bare.envs, bare.memory_gb) == (16, 16, 32)
    assert (four.cores, four.envs, four.memory_gb) == (4, 4, 3.5)


def test_a_batched_cpu_benchmark_has_slots_apart_from_cores(benchmark_class):
    """For slots, `cpu` is cores and `envs` is how many slots."""
    options = {"gpu": "cpu", "cpu": 4, "envs": 64, "conditions": ONE}

    declared = declaration_of(seq.benchmark(**options)(benchmark_class(**_batched_members())))

    assert declared.batched
    assert (declared.cores, declared.envs) == (4, 64)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"conditions": []}, "empty"),
        ({"conditions": "all"}, "seq.conditions"),
        ({"conditions": [("reach", 0)]}, "seq.Condition"),
        ({"conditions": list}, "empty"),
        ({"gpu": "H100"}, "RTX-PRO-6000"),
        ({"gpu": ["cpu", "L4"]}, "alone"),
        ({"gpu": "cpu", "cpu": 65}, "from 1 to 64"),
        ({"gpu": "cpu", "cpu": 4, "envs": 2}, "must equal cpu="),
        ({"cpu": 4}, 'gpu="cpu"'),
        ({"envs": 0}, "envs="),
        ({"max_steps": 0}, "max_steps="),
        ({"max_steps": -5}, "max_steps="),
        ({"max_steps": float("nan")}, "max_steps="),
        ({"max_steps": 2.7}, "max_steps="),
        ({"timeout_s": 0}, "above 0"),
        ({"timeout_s": float("inf")}, "timeout_s="),
        ({"render": "front"}, "seq.Record"),
        ({"action_contract": {"robot": "a"}}, "action_dim"),
        ({"image": 1}, "seq.Image"),
        ({"secrets": "hf"}, "list of Secret"),
        ({"assets": "scenes"}, "list of Volume"),
        ({"name": "a b"}, "name="),
        ({"max_step": 3}, "did you mean 'max_steps'"),
    ],
)
def test_what_could_not_run_is_refused_in_a_sentence(benchmark_class, options, says):
    """Every malformed option is a BenchmarkDefinitionError that says what would be right."""
    with pytest.raises(seq.BenchmarkDefinitionError) as refused:
        seq.benchmark(**{"conditions": ONE, **options})(benchmark_class())

    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_conditions_are_needed(benchmark_class):
    """Without `conditions=` there is nothing to run; bare use says how to write it."""
    with pytest.raises(seq.BenchmarkDefinitionError, match="needs conditions="):
        seq.benchmark(name="x")
    with pytest.raises(seq.BenchmarkDefinitionError, match="with keywords"):
        seq.benchmark(benchmark_class())


@pytest.mark.parametrize("missing", ["reset", "check"])
def test_reset_and_check_are_needed(benchmark_class, missing):
    """Each is named when it is not there."""
    with pytest.raises(seq.BenchmarkDefinitionError, match=f"no @seq.{missing} method"):
        seq.benchmark(conditions=ONE)(benchmark_class(**{missing: None}))


@pytest.mark.parametrize("missing", ["observation", "step"])
def test_batched_hooks_come_together(benchmark_class, missing):
    """One of `observation` and `step` without the other is refused."""
    members = {**_batched_members(), missing: None}

    with pytest.raises(seq.BenchmarkDefinitionError, match=f"no @seq.{missing} method"):
        seq.benchmark(conditions=ONE)(benchmark_class(**members))


def test_hooks_are_called_as_documented(benchmark_class):
    """A `check` that cannot take the environment is refused before any episode."""
    with pytest.raises(seq.BenchmarkDefinitionError, match=r"called as \(self, env\)"):
        seq.benchmark(conditions=ONE)(benchmark_class(check=seq.check(lambda self: None)))


def test_policy_hooks_on_a_benchmark_are_refused(benchmark_class):
    """`@seq.infer` belongs to policies."""
    with pytest.raises(seq.BenchmarkDefinitionError, match=r"@seq\.infer"):
        seq.benchmark(conditions=ONE)(benchmark_class(infer=seq.infer(lambda self, obs: obs)))


def test_setups_keywords_are_parameters(benchmark_class):
    """A batched setup's first argument is the platform's; the keywords are an eval's to set."""

    @seq.setup
    def single(self, *, tolerance: float = 1): ...

    @seq.setup
    def batched(self, envs, *, tolerance: float = 1): ...

    one = declaration_of(seq.benchmark(conditions=ONE)(benchmark_class(setup=single)))
    many = declaration_of(seq.benchmark(conditions=ONE)(benchmark_class(setup=batched, **_batched_members())))

    assert one.params == many.params
    assert one.params["tolerance"].default == 1.0


def test_assets_have_mounts_of_their_own(benchmark_class):
    """One volume is at /assets, several below it by name."""
    scenes, looks = seq.Volume.from_name("scenes"), seq.Volume.from_name("looks")

    one = declaration_of(seq.benchmark(conditions=ONE, assets=scenes)(benchmark_class()))
    two = declaration_of(seq.benchmark(conditions=ONE, assets=[scenes, looks])(benchmark_class()))

    assert dict(one.assets) == {"/assets": scenes}
    assert dict(two.assets) == {"/assets/scenes": scenes, "/assets/looks": looks}


def test_a_steps_metrics_are_finite_numbers():
    """True counts as 1.0; text, None and NaN are refused by name."""
    step = seq.Step(True, metrics={"success": True, "distance": 3})

    assert step.metrics == {"success": 1.0, "distance": 3.0}
    assert isinstance(step.metrics["success"], float)
    for wrong in ("0.5", None, float("nan"), float("inf")):
        with pytest.raises(seq.BenchmarkDefinitionError, match="'score'"):
            seq.Step(done=True, metrics={"score": wrong})


def test_a_recording_is_checked():
    """Frames a second are above 0, and only three turns exist."""
    assert seq.Record("front", fps=20).wire().fps == 20
    assert seq.RenderSpec is seq.Record
    for wrong in ({"fps": 0}, {"fps": "fast"}, {"flip": "sideways"}):
        with pytest.raises(seq.BenchmarkDefinitionError):
            seq.Record("front", **wrong)
