"""Parameters are read from a signature: type, default and limits, or refused."""

from typing import Annotated, Any

import pytest

import seq
from seq.params import parameters


def _declared(function) -> dict[str, dict[str, Any]]:
    read = parameters(function, "f", seq.PolicyDefinitionError, positional=1, skip=("seed",))
    return {name: param.wire() for name, param in read.items()}


def test_types_come_from_the_annotation_else_from_the_default():
    """int, float, bool and str; Optional, text annotations and an int default for a float are fine."""

    def infer(
        self,
        obs,
        a: int = 1,
        *,
        b=0.5,
        c: "bool" = True,
        d: int | None = None,
        e: "int | None" = 3,
        f: float = 2,
        seed=None,
    ): ...

    assert _declared(infer) == {
        "a": {"type": "int", "default": 1},
        "b": {"type": "float", "default": 0.5},
        "c": {"type": "bool", "default": True},
        "d": {"type": "int"},
        "e": {"type": "int", "default": 3},
        "f": {"type": "float", "default": 2.0},
    }


def test_limits_come_from_annotated():
    """Range bounds numbers and OneOf lists texts, also inside an Optional."""

    def infer(
        self,
        obs,
        *,
        steps: Annotated[int, seq.Range(1, 8)] = 4,
        mode: Annotated[str, seq.OneOf("fast", "exact")] = "fast",
        top: Annotated[float | None, seq.Range(min=0)] = None,
    ): ...

    assert _declared(infer) == {
        "steps": {"type": "int", "default": 4, "min": 1.0, "max": 8.0},
        "mode": {"type": "str", "default": "fast", "choices": ["fast", "exact"]},
        "top": {"type": "float", "min": 0.0},
    }


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        ("*, a", "no default"),
        ("a=1, /", "positional-only"),
        ("*, a: list = 3", "int, float, bool or str"),
        ("*, a=None", "int, float, bool or str"),
        ("*, a=()", "int, float, bool or str"),
        ("*, a: int = 1.5", "of that type"),
        ("*, a: int = True", "of that type"),
        ("*, a: int = None", "of that type"),
        ("*, a: 'int | str' = 1", "int, float, bool or str"),
        ("*, a: 'Nowhere' = 1", "cannot be resolved"),
        ("*, a: float = float('nan')", "no finite number"),
        ("*, a: Annotated[int, seq.Range(1, 2)] = 3", "outside"),
        ("*, a: Annotated[str, seq.Range(1, 2)] = 'x'", "bounds an int or a float"),
        ("*, a: Annotated[str, seq.OneOf('x')] = 'y'", "not one of"),
        (", ".join(["*"] + [f"p{i}=0" for i in range(33)]), "at most 32"),
    ],
)
def test_what_could_not_be_set_is_refused(signature, says):
    """No default, positional-only, another type, a default of another type, too many."""
    scope: dict[str, Any] = {"Annotated": Annotated, "seq": seq}
    exec(f"def infer(self, {'obs, ' if '/' not in signature else ''}{signature}): ...", scope)
    positional = 0 if "/" in signature else 1

    with pytest.raises(seq.PolicyDefinitionError) as refused:
        parameters(scope["infer"], "MyPolicy.infer", seq.PolicyDefinitionError, positional=positional)

    assert says in str(refused.value)
    assert "MyPolicy.infer" in str(refused.value)
