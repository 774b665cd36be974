"""What `@seq.adapter` accepts, and what each transform does and says of itself."""

import numpy as np
import pytest

import seq
from seq.adapter import classify, declaration_of
from seq.contract.adapters import AdapterTransform


def test_a_bare_adapter_is_named_after_its_class(adapter_class):
    """Both forms of the decorator work; the default name is the class's in lower case with hyphens."""
    steps = {"obs_transforms": [seq.tf.identity()]}

    assert declaration_of(seq.adapter(adapter_class("ToyAdapter", **steps))).name == "toy-adapter"
    named = declaration_of(seq.adapter(name="mine")(adapter_class("ToyAdapter", **steps)))
    assert (named.name, named.policy_io, named.lossy) == ("mine", "robot_arm", False)


def _no_arm(self):
    raise ValueError("no arm")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({}, "no transforms"),
        ({"obs_transforms": [lambda obs: obs]}, "seq.tf steps"),
        ({"obs_transforms": 3}, "must be a list"),
        ({"obs_transforms": [seq.tf.identity()], "policy_io": "mine"}, "'robot_arm', 'own'"),
        ({"obs_transforms": [seq.tf.identity()], "load": seq.load(lambda self, d: None)}, "no hooks"),
        ({"obs_transforms": [seq.tf.identity()], "__init__": lambda self, size: None}, "no default"),
        ({"obs_transforms": [seq.tf.identity()], "__init__": _no_arm}, "MyAdapter() raised ValueError: no arm"),
        *(
            ({"obs_transforms": [seq.tf.identity()], "steps_per_query": wrong}, "steps_per_query= must be a whole")
            for wrong in (0, -1, 1.0, "2", True)
        ),
    ],
)
def test_what_could_not_run_is_refused(adapter_class, members, says):
    """Each is an AdapterDefinitionError that says what would be right."""
    with pytest.raises(seq.AdapterDefinitionError) as refused:
        seq.adapter(adapter_class(**members))

    assert says in str(refused.value)


def test_an_adapter_must_be_one(policy_class):
    """A class that does not subclass `seq.Adapter`, a name that starts with a digit, two decorators."""
    with pytest.raises(seq.AdapterDefinitionError, match=r"subclass seq\.Adapter"):
        seq.adapter(type("Loose", (), {"__module__": __name__}))
    with pytest.raises(seq.AdapterDefinitionError, match="a letter"):
        seq.adapter(name="1st")(type("A", (seq.Adapter,), {"__module__": __name__}))


def test_an_instance_may_build_its_pipelines(adapter_class):
    """Keywords of `__init__` are parameters, and an instance is classified as it was built."""

    def init(self, *, size: int = 4, exact: bool = False):
        self.steps_per_query = size
        self.obs_transforms = [seq.tf.identity() if exact else seq.tf.resize("image", (8, 8), (size, size))]

    cls = seq.adapter(adapter_class(__init__=init))

    declared = declaration_of(cls)
    assert list(declared.params) == ["size", "exact"]
    assert declared.lossy
    assert [step.kind for step in classify(cls(exact=True))] == ["lossless"]


def test_pipelines_apply_in_order(adapter_class):
    """`obs` and `action` run their steps one after another."""
    double = seq.tf.custom("double", lambda rows: [[2 * value for value in row] for row in rows], lossless=True)
    plus = seq.tf.custom("plus one", lambda rows: [[value + 1 for value in row] for row in rows], lossless=True)
    adapter = seq.adapter(adapter_class(obs_transforms=[seq.tf.rename({"a": "b"})], action_transforms=[double, plus]))()

    assert adapter.obs({"a": 1, "c": 2}) == {"b": 1, "c": 2}
    assert adapter.action([[1.0, 2.0]]) == [[3.0, 5.0]]


@pytest.mark.parametrize(
    ("step", "name", "reason"),
    [
        (seq.tf.rename({"a": "b", "c": "d"}), "rename(a->b,c->d)", None),
        (seq.tf.rename({"a": "b"}, lossless=False), "rename(a->b)", None),
        (seq.tf.rename({"a": "b"}, lossy="two keys become one"), "rename(a->b)", "two keys become one"),
        (seq.tf.identity(), "identity", None),
        (seq.tf.reshape("a", (2, 3)), "reshape(a,(2, 3))", None),
        (
            seq.tf.resize("a", (8, 8), (4, 4), lossy="the policy's size"),
            "resize(a,(8, 8)->(4, 4))",
            "8x8 to 4x4, nearest pixels: the policy's size",
        ),
        (seq.tf.downcast("a", "float16"), "downcast(a,float16)", "a as float16 keeps fewer digits"),
        (seq.tf.drop(["a", "b"]), "drop(a,b)", "a, b left out"),
        (seq.tf.action_project("ee_delta", "ee_delta", lossless=True), "action_project(ee_delta->ee_delta)", None),
        (
            seq.tf.action_project("ee_delta", "ee_delta"),
            "action_project(ee_delta->ee_delta)",
            "ee_delta to ee_delta; not declared lossless",
        ),
        (
            seq.tf.action_project("ee_delta", "joint_delta", lossy="by hand"),
            "action_project(ee_delta->joint_delta)",
            "ee_delta to joint_delta: by hand",
        ),
        (seq.tf.custom("turn", abs, lossless=True, lossy="no"), "custom(turn)", None),
        (seq.tf.custom("turn", abs, lossy="rounds"), "custom(turn)", "rounds"),
    ],
)
def test_each_step_says_what_it_loses(adapter_class, step, name, reason):
    """The label of every transform, with the reason a report shows."""
    labels = classify(seq.adapter(adapter_class(obs_transforms=[step])))

    kind = "lossy" if reason else "lossless"
    assert labels == [AdapterTransform(pipeline="obs", transform=name, kind=kind, reason=reason)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: seq.tf.resize("a", (8, 8), (4, 4), lossless=True),
        lambda: seq.tf.downcast("a", "float16", lossless=True),
        lambda: seq.tf.drop(["a"], lossless=True),
        lambda: seq.tf.action_project("ee_delta", "joint_delta", lossless=True),
        lambda: seq.tf.action_project("ee_delta", "ee_delta", from_dim=7, to_dim=8, lossless=True),
        lambda: seq.tf.action_project("somewhere", "ee_delta"),
        lambda: seq.tf.custom("turn", abs),
        lambda: seq.tf.custom("", abs, lossless=True),
        lambda: seq.tf.rename({"a": 1}),
    ],
)
def test_a_step_cannot_be_labelled_as_what_it_is_not(make):
    """A lossy transform declared lossless, and a custom one declared nothing, fail where they are written."""
    with pytest.raises(seq.AdapterDefinitionError):
        make()


def test_what_the_steps_do_to_arrays():
    """Nearest pixels, other shapes, other dtypes, keys left out, rows filled up with zeros or cut."""
    image = np.arange(16, dtype=np.uint8).reshape(4, 4)

    assert seq.tf.resize("a", (4, 4), (2, 2))({"a": image})["a"].tolist() == [[0, 2], [8, 10]]
    assert seq.tf.resize("a", (2, 2), (4, 4))({"a": image[:2, :2]})["a"].shape == (4, 4)
    assert seq.tf.reshape("a", (2, 8))({"a": image})["a"].shape == (2, 8)
    assert seq.tf.downcast("a", "float16")({"a": [1.0]})["a"].dtype == np.float16
    assert seq.tf.drop(["a", "gone"])({"a": 1, "b": 2}) == {"b": 2}
    widen = seq.tf.action_project("ee_delta", "ee_delta", from_dim=2, to_dim=3)
    narrow = seq.tf.action_project("ee_delta", "ee_delta", to_dim=1)
    assert widen([[1.0, 2.0]]).tolist() == [[1.0, 2.0, 0.0]]
    assert narrow([[1.0, 2.0]]).tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("step", "value", "says"),
    [
        (seq.tf.reshape("a", (3, 3)), {"a": [1, 2]}, "(2,)"),
        (seq.tf.resize("a", (8, 8), (4, 4)), {"a": np.zeros((6, 6))}, "6x6"),
        (seq.tf.downcast("a", "float16"), {"b": 1}, "['b']"),
        (seq.tf.drop(["a"]), [1], "takes an observation"),
    ],
)
def test_data_that_does_not_fit_is_named(step, value, says):
    """A step that meets other data than declared says what it met."""
    with pytest.raises(seq.AdapterDefinitionError) as refused:
        step(value)

    assert says in str(refused.value)


def test_the_class_like_names_are_the_same_steps():
    """`seq.tf.Rename` and the like are aliases."""
    assert seq.tf.Rename is seq.tf.rename
    assert seq.tf.DropChannel is seq.tf.drop
    assert seq.tf.ActionProject is seq.tf.action_project
