"""What the sides of an eval let one set, and what an arm sets: names resolved, types and bounds checked. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

from runner.errors import Refused
from seq.contract.params import InferParam, Scalar

Side = Literal["policy", "adapter", "benchmark", "eval"]
SIDES: tuple[Side, ...] = ("policy", "adapter", "benchmark", "eval")
STEPS_PER_QUERY = "steps_per_query"
LOOP = {STEPS_PER_QUERY: InferParam(type="int", default=None, min=1)}
"""What the eval loop itself lets one set: how many rows of an answer are played before the policy is asked again."""
MOST_ARMS = 64

_TYPES: dict[str, tuple[type[Any], ...]] = {"int": (int,), "float": (float, int), "bool": (bool,), "str": (str,)}


@dataclass(frozen=True)
class Declared:
    """What each side declares, by name."""

    policy: Mapping[str, InferParam]
    adapter: Mapping[str, InferParam]
    benchmark: Mapping[str, InferParam]

    def of(self, side: Side) -> Mapping[str, InferParam]:
        """One side's."""
        found: Mapping[str, InferParam] = LOOP if side == "eval" else getattr(self, side)
        return found


@dataclass(frozen=True)
class Settings:
    """An arm's values by side and name, each with who set it; `set_here` are those that the eval itself set."""

    values: Mapping[Side, Mapping[str, tuple[Scalar | None, str]]]

    def wire(self) -> dict[str, dict[str, dict[str, Any]]]:
        """`{side: {name: {value, source}}}`."""
        return {
            side: {name: {"value": value, "source": source} for name, (value, source) in self.values[side].items()}
            for side in SIDES
        }

    @staticmethod
    def of_wire(body: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Settings:
        """What `wire` wrote."""
        return Settings(
            {
                side: {name: (told["value"], told["source"]) for name, told in (body.get(side) or {}).items()}
                for side in SIDES
            }
        )

    def given(self, side: Side) -> dict[str, Scalar | None]:
        """The values of one side that the eval set."""
        return {name: value for name, (value, source) in self.values[side].items() if source == "cli"}

    @property
    def steps_per_query(self) -> int | None:
        """Rows of an answer to play, where that was set."""
        value, _ = self.values["eval"].get(STEPS_PER_QUERY, (None, ""))
        return None if value is None else int(value)


def settings(given: Mapping[str, Scalar], declared: Declared) -> Settings:
    """Every declared parameter with its value; `given` by `side.name`, or by name where one side declares it.

    Raises Refused on a name that nobody declares, or several do, and on a value of another type or out of bounds.
    """
    chosen: dict[Side, dict[str, Scalar | None]] = {side: {} for side in SIDES}
    for key, value in given.items():
        side, name = resolved(key, declared)
        if name in chosen[side]:
            raise Refused("invalid_request", f"{side}.{name} is set twice")
        chosen[side][name] = _cast(f"{side}.{name}", value, declared.of(side)[name])
    values: dict[Side, Mapping[str, tuple[Scalar | None, str]]] = {}
    for side in SIDES:
        own = "platform" if side == "eval" else side
        values[side] = {
            name: (chosen[side][name], "cli") if name in chosen[side] else (parameter.default, own)
            for name, parameter in declared.of(side).items()
        }
    return Settings(_with_interval(values, declared))


def resolved(key: str, declared: Declared) -> tuple[Side, str]:
    """The side and the name that a key means."""
    prefix, _, rest = key.partition(".")
    side = next((side for side in SIDES if side == prefix and rest), None)
    if side is not None:
        if rest not in declared.of(side):
            raise _unknown(key, declared)
        return side, rest
    having = [side for side in SIDES if key in declared.of(side)]
    if not having:
        raise _unknown(key, declared)
    if len(having) > 1:
        both = " and ".join(f"{side}.{key}" for side in having)
        raise Refused("invalid_request", f"{key!r} is declared more than once; say which: {both}")
    return having[0], key


def combinations(sweep: Mapping[str, Sequence[Scalar]], params: Mapping[str, Scalar]) -> Iterator[dict[str, Scalar]]:
    """Every combination of the swept values, in their order, the first name outermost; one empty one without a sweep.

    Raises Refused on fewer than two values, one given twice, a name that is also set, and too many combinations.
    """
    for name, values in sweep.items():
        if len(values) < 2:
            raise Refused("invalid_request", f"a sweep of {name!r} needs at least two values, got {len(values)}")
        shown = [repr(value) for value in values]
        twice = next((value for value in shown if shown.count(value) > 1), None)
        if twice is not None:
            raise Refused("invalid_request", f"the sweep of {name!r} has {twice} twice")
        if name in params:
            raise Refused("invalid_request", f"{name!r} is both set and swept; leave one of the two out")
    arms = prod(len(values) for values in sweep.values())
    if arms > MOST_ARMS:
        raise Refused("invalid_request", f"the sweep makes {arms} arms; at most {MOST_ARMS} run in one eval")
    for values in product(*sweep.values()):
        yield dict(zip(sweep, values, strict=True))


def settable(declared: Declared) -> list[str]:
    """Every parameter with its type and its default, as a refusal lists them."""
    return [
        f"{side}.{name} ({parameter.type}, {parameter.default!r})"
        for side in SIDES
        for name, parameter in declared.of(side).items()
    ]


def _with_interval(
    values: dict[Side, Mapping[str, tuple[Scalar | None, str]]], declared: Declared
) -> dict[Side, Mapping[str, tuple[Scalar | None, str]]]:
    """An adapter that declares `steps_per_query` decides it where the eval does not, and is told what holds."""
    if STEPS_PER_QUERY not in declared.adapter:
        return values
    mine, its = values["eval"][STEPS_PER_QUERY], values["adapter"][STEPS_PER_QUERY]
    if mine[1] != "cli":
        _cast(f"adapter.{STEPS_PER_QUERY}", its[0], LOOP[STEPS_PER_QUERY])
        return {**values, "eval": {STEPS_PER_QUERY: its}}
    if its[1] == "cli" and its[0] != mine[0]:
        raise Refused("invalid_request", f"eval.{STEPS_PER_QUERY} and adapter.{STEPS_PER_QUERY} differ; set one")
    return {**values, "adapter": {**values["adapter"], STEPS_PER_QUERY: mine}}


def _cast(key: str, value: Scalar | None, parameter: InferParam) -> Scalar | None:
    if value is None and parameter.default is None:
        return None
    if not isinstance(value, _TYPES[parameter.type]) or (isinstance(value, bool) and parameter.type != "bool"):
        raise Refused("invalid_request", f"{key} must be {parameter.type}, got {value!r}")
    if parameter.choices is not None and value not in parameter.choices:
        raise Refused("invalid_request", f"{key} must be one of {', '.join(parameter.choices)}, got {value!r}")
    low, high = parameter.min, parameter.max
    if not isinstance(value, str) and ((low is not None and value < low) or (high is not None and value > high)):
        bounds = (
            f"at least {low:g}" if high is None else f"at most {high:g}" if low is None else f"in [{low:g}, {high:g}]"
        )
        raise Refused("invalid_request", f"{key} must be {bounds}, got {value!r}")
    return float(value) if parameter.type == "float" else value


def _unknown(key: str, declared: Declared) -> Refused:
    there = settable(declared)
    return Refused(
        "invalid_request",
        f"nobody declares a parameter {key!r}",
        hint=f"what can be set: {', '.join(there)}",
        settable=there,
    )
