"""What `@seq.policy` and its hooks accept, refuse and keep."""

import pytest

import seq
from seq.params import PLATFORM_KEYWORDS
from seq.policy import declaration_of

ACTION = {"robot": "arm", "action_space": "joint_absolute", "action_dim": 2, "control_frequency_hz": 10}


def test_a_bare_declaration_has_the_documented_defaults(policy_class):
    """With only `gpu=`, everything else is as the specification says."""
    declared = declaration_of(seq.policy(gpu="L4")(policy_class("ToyPolicy")))

    assert declared.name == "toy-policy"
    assert declared.handler.ref.endswith(":ToyPolicy")
    assert declared.hooks == {"infer": "infer"}
    assert declared.image == seq.Image.debian_slim()
    assert (declared.scaling.idle_timeout, declared.scaling.queue_timeout_s, declared.scaling.on_full) == (
        600,
        120,
        "queue",
    )
    assert (declared.timeouts.startup, declared.timeouts.request) == (1800, 300)
    assert declared.scaling.max_gpus is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "needs gpu="),
        ({"gpu": ""}, "is no card"),
        ({"gpu": []}, "must be a card"),
        ({"gpu": ["L4:2", "H100"]}, "same number of cards"),
        ({"cpu": True}, "cores"),
        ({"cpu": 0.1}, "0.125"),
        ({"cpu": (4, 2)}, "limit must be at least"),
        ({"cpu": (4, 200)}, "128"),
        ({"memory": "16"}, "GiB"),
        ({"image": "debian"}, "seq.Image"),
        ({"deps": "numpy"}, "must be a list"),
        ({"weights": "ftp://x"}, "'ftp'"),
        ({"weights": {}}, "1 to 8"),
        ({"weights": {"A": "hf://o/m"}}, "lowercase"),
        ({"volumes": {"/data": seq.Volume("x")}}, "taken"),
        ({"volumes": {"cache": seq.Volume("x")}}, "absolute"),
        ({"volumes": {"/a/../b": seq.Volume("x")}}, "absolute"),
        ({"secrets": ["hf"]}, "list of Secret"),
        ({"min_workers": -1}, "min_workers="),
        ({"idle_timeout": 1.5}, "whole number"),
        ({"max_gpus": 257}, "from 1 to 256"),
        ({"on_full": "wait"}, "'queue', 'reject'"),
        ({"queue_timeout_s": 4}, "from 5 to 3600"),
        ({"streaming": True}, "@seq.on_episode"),
        ({"streaming": 1}, "True or False"),
        ({"action": {"robot": "a"}}, "action_dim: Field required"),
        ({"action": {**ACTION, "surprise": 1}}, "surprise"),
        ({"action": 3}, "ActionContract"),
        ({"observation": {"proprio": {"wings": 2}}}, "joint_positions"),
        ({"embodiments": {}}, "embodiments="),
        ({"embodiments": {"a": {"action": {"robot": "a"}}}}, "action.action_dim"),
        ({"region": "us west"}, "one word"),
        ({"timeouts": {"startup": 0}}, "startup="),
        ({"timeouts": {"boot": 3}}, "'boot'"),
        ({"name": "-x"}, "starting with a letter or digit"),
        ({"name": "x" * 65}, "1-64"),
        ({"io": "x" * 4001}, "4000"),
        ({"models": "vlm"}, "must be a list"),
        ({"models": ["a", "a"]}, "twice"),
        ({"family": "Pi"}, "family="),
        ({"gpus": 1}, "did you mean 'gpu'"),
        ({"keep_warm": 1}, "min_workers"),
        ({"container_idle_timeout": 1}, "idle_timeout"),
        ({"concurrency": 1}, "@seq.concurrent"),
        ({"allow_concurrent_inputs": 1}, "@seq.concurrent"),
        ({"frames_per_chunk": 1}, "history"),
    ],
)
def test_what_could_not_run_is_refused_in_a_sentence(policy_class, options, says):
    """Every malformed option is a PolicyDefinitionError that says what would be right."""
    given = options if options == {} or "gpu" in options else {"gpu": "cpu", **options}

    with pytest.raises(seq.PolicyDefinitionError) as refused:
        seq.policy(**given)(policy_class())

    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("old", "kept"),
    [
        ({"min_containers": 2}, ("min_workers", 2)),
        ({"buffer_containers": 1}, ("buffer_workers", 1)),
        ({"scaledown_window": 60}, ("idle_timeout", 60)),
    ],
)
def test_old_names_warn_and_mean_the_new_ones(policy_class, old, kept):
    """A renamed option still works, with a warning."""
    with pytest.warns(FutureWarning, match=kept[0]):
        declared = declaration_of(seq.policy(gpu="cpu", **old)(policy_class()))

    assert getattr(declared.scaling, kept[0]) == kept[1]


def test_a_bare_decorator_is_refused(policy_class):
    """`@seq.policy` without keywords says how to write it."""
    with pytest.raises(seq.PolicyDefinitionError, match="with keywords"):
        seq.policy(policy_class())


def test_only_a_top_level_class_is_taken():
    """A class inside a function could not be imported by a worker."""

    class Inner:
        @seq.infer
        def infer(self, obs): ...

    with pytest.raises(seq.PolicyDefinitionError, match="top level"):
        seq.policy(gpu="cpu")(Inner)


def test_decorating_twice_is_refused(policy_class):
    """One class is one policy."""
    with pytest.raises(seq.PolicyDefinitionError, match="twice"):
        seq.policy(gpu="cpu")(seq.policy(gpu="cpu")(policy_class()))


def test_infer_is_needed_and_takes_an_observation(policy_class):
    """A class without an infer method, or with one that takes nothing, is refused."""
    with pytest.raises(seq.PolicyDefinitionError, match=r"no @seq\.infer"):
        seq.policy(gpu="cpu")(policy_class(infer=None))
    with pytest.raises(seq.PolicyDefinitionError, match=r"called as \(self, obs\)"):
        seq.policy(gpu="cpu")(policy_class(infer=seq.infer(lambda self: None)))


def test_two_hooks_on_one_method_merge(policy_class):
    """A method may be load and warmup at once."""

    @seq.load
    @seq.warmup
    def start(self, *args): ...

    assert declaration_of(seq.policy(gpu="cpu")(policy_class(start=start))).hooks == {
        "infer": "infer",
        "load": "start",
        "warmup": "start",
    }


def test_one_hook_on_two_methods_is_refused(policy_class):
    """Nobody could say which of two `load` methods is meant."""
    one, two = seq.load(lambda self, d: None), seq.load(lambda self, d: None)

    with pytest.raises(seq.PolicyDefinitionError, match=r"@seq\.load on two methods, 'one' and 'two'"):
        seq.policy(gpu="cpu")(policy_class(one=one, two=two))


@pytest.mark.parametrize("wrap", [staticmethod, classmethod])
def test_static_and_class_methods_are_refused_both_ways_around(policy_class, wrap):
    """A hook is called on an instance, whichever decorator comes first."""
    with pytest.raises(seq.PolicyDefinitionError, match="plain method"):
        seq.load(wrap(lambda self, d: None))
    with pytest.raises(seq.PolicyDefinitionError, match="plain method"):
        seq.policy(gpu="cpu")(policy_class(load=wrap(seq.load(lambda self, d: None))))


def test_a_hook_twice_on_one_method_and_async_hooks_are_refused():
    """Doubling a mark says nothing, and a coroutine would never run."""
    with pytest.raises(seq.PolicyDefinitionError, match="twice"):
        seq.load(seq.load(lambda self, d: None))

    async def infer(self, obs): ...

    with pytest.raises(seq.PolicyDefinitionError, match="async"):
        seq.infer(infer)


def test_a_benchmarks_hook_on_a_policy_is_refused(policy_class):
    """`@seq.reset` belongs to benchmarks; the message lists a policy's hooks."""
    with pytest.raises(seq.PolicyDefinitionError, match=r"@seq\.reset.*'infer'"):
        seq.policy(gpu="cpu")(policy_class(reset=seq.reset(lambda self, seed, variant: None)))


def test_hooks_of_a_base_class_count(policy_class):
    """A policy may inherit its infer."""
    base = policy_class("Base")
    derived = type("Derived", (base,), {"__module__": base.__module__})

    assert declaration_of(seq.policy(gpu="cpu")(derived)).hooks == {"infer": "infer"}


def test_the_first_body_stands_in_for_a_missing_action(policy_class):
    """With embodiments and no `action=`, the first body's action is the policy's."""
    bodies = {"left": {"action": ACTION}, "right": {"action": {**ACTION, "robot": "other"}}}

    declared = declaration_of(seq.policy(gpu="cpu", embodiments=bodies)(policy_class()))

    assert declared.action == seq.ActionContract(**ACTION)


def test_deps_are_a_trailing_install(policy_class):
    """`deps=` is one more install after the image's own steps."""
    image = seq.Image.debian_slim().apt_install("git")

    declared = declaration_of(seq.policy(gpu="cpu", image=image, deps=["numpy"])(policy_class()))

    assert declared.image == image.uv_pip_install("numpy")


def test_infers_keywords_are_told_apart(policy_class):
    """The platform's keywords are no parameters; every other keyword with a default is one."""

    @seq.infer
    def infer(self, obs, *, seed=None, instruction="", replan_steps: int = 5): ...

    declared = declaration_of(seq.policy(gpu="cpu")(policy_class(infer=infer)))

    assert list(declared.params) == ["replan_steps"]
    assert declared.platform_keywords == ("seed", "instruction")
    assert set(declared.platform_keywords) < set(PLATFORM_KEYWORDS)


def test_the_preset_is_seen_in_the_annotation(policy_class):
    """An `infer` annotated with the robot-arm observation asks for objects; any other gets the wire's dict."""
    from seq.presets.robot_arm import Observation  # noqa: PLC0415

    def infer(self, obs): ...

    assert not declaration_of(seq.policy(gpu="cpu")(policy_class(infer=seq.infer(infer)))).preset
    infer.__annotations__ = {"obs": Observation}
    assert declaration_of(seq.policy(gpu="cpu")(policy_class(infer=infer))).preset


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "declares nothing"),
        ({"replicas_per_gpu": 0}, "at least 1"),
        ({"max_inputs": 1, "target_inputs": 2}, "at least target_inputs"),
        ({"replicas_per_gpu": 2, "gpus_per_replica": 2}, "exclude"),
        ({"replica_start": "later"}, "together"),
        ({"copies": 2}, "'copies'"),
    ],
)
def test_concurrent_refuses_what_makes_no_slots(options, says):
    """Malformed copies and inputs are refused at decoration."""
    with pytest.raises(seq.PolicyDefinitionError, match=says):
        seq.concurrent(**options)


def test_concurrent_goes_under_policy_and_divides_its_cards(policy_class):
    """It is read by `@seq.policy` above it, and refused above that."""
    kept = declaration_of(seq.policy(gpu="H100:4")(seq.concurrent(gpus_per_replica=2)(policy_class()))).concurrency
    assert kept.gpus_per_replica == 2
    with pytest.raises(seq.PolicyDefinitionError, match="must divide"):
        seq.policy(gpu="H100:4")(seq.concurrent(gpus_per_replica=3)(policy_class()))
    with pytest.raises(seq.PolicyDefinitionError, match="goes under"):
        seq.concurrent(replicas_per_gpu=2)(seq.policy(gpu="L4")(policy_class()))


def test_batched_and_plan_are_checked_and_kept(policy_class):
    """Their numbers are held to the documented ranges, and batched must sit on infer."""
    infer = seq.infer(seq.batched(max_batch_size=8)(lambda self, obs: obs))
    declared = declaration_of(
        seq.policy(gpu="L4")(policy_class(infer=infer, plan=seq.plan(every_s=2)(lambda self: None)))
    )

    assert declared.batching.max_batch_size == 8
    assert declared.planning.every_s == 2
    for wrong in ({}, {"every_s": 0}, {"every_s": 1, "max_concurrency": 65}):
        with pytest.raises(seq.PolicyDefinitionError):
            seq.plan(**wrong)
    for wrong in ({}, {"max_batch_size": 1}, {"max_batch_size": 4, "serve_wait_ms": 11}):
        with pytest.raises(seq.PolicyDefinitionError):
            seq.batched(**wrong)
    with pytest.raises(seq.PolicyDefinitionError, match=r"on the @seq\.infer method"):
        seq.policy(gpu="L4")(policy_class(other=seq.batched(max_batch_size=2)(lambda self, obs: obs)))
