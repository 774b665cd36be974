"""The contracts in a connect answer, checked as far as the client reads them. Pure.

Once, when the answer comes: a limit that cannot be enforced must be refused before a robot moves, and what was checked
here is not looked at again on the way of an act.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sequence_ai._errors import SequencesError
from sequence_ai._plain import is_whole, shown


def malformed(what: str) -> SequencesError:
    """The error of a connect answer that cannot be read: `what` names the field and says what is wrong."""
    return SequencesError(f"malformed /v1/act/connect response: {what}", code="internal")


def section(fields: Mapping[str, Any], key: str, inside: str = "") -> Mapping[str, Any]:
    """An object in the answer, empty where it is absent or null. Raises SequencesError when it is something else."""
    value = fields.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise malformed(f"{inside}{key} is {shown(value)}, where an object belongs")
    return {} if value is None else value


def declared_action(action: Mapping[str, Any]) -> Mapping[str, Any]:
    """The action contract. Raises SequencesError unless what it limits can be limited so."""
    dim, bounds, delta = (action.get(name) for name in ("action_dim", "bounds", "max_delta"))
    if dim is not None and not (is_whole(dim) and dim >= 1):
        raise malformed(f"action.action_dim is {shown(dim)}, which is no number of values")
    if bounds is not None:
        _check_each("bounds", bounds, dim, _is_range, "a [low, high] with low at most high")
    if isinstance(delta, list):
        _check_each("max_delta", delta, dim, _is_step, "a number above 0")
    elif delta is not None and not _is_step(delta):
        raise malformed(f"action.max_delta is {shown(delta)}, where a number above 0 belongs: it cannot be enforced")
    return action


def declared_observation(observation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The observation contract. Raises SequencesError where no observation could be held against it."""
    for name, camera in section(observation, "cameras", "observation.").items():
        if camera is not None and not (isinstance(camera, Mapping) and _is_switch(camera.get("depth"))):
            raise malformed(f"observation.cameras[{name!r}] is {shown(camera)}, which is no camera")
    for part in ("proprio", "state"):
        for name, length in section(observation, part, "observation.").items():
            if not (is_whole(length) and length >= 0) and not (part == "proprio" and length is None):
                raise malformed(f"observation.{part}[{name!r}] is {shown(length)}, which is no number of values")
    history = observation.get("history")
    if history is not None and not (is_whole(history) and history >= 1):
        raise malformed(f"observation.history is {shown(history)}, which is no number of frames")
    if not _is_switch(observation.get("instruction")):
        raise malformed(f"observation.instruction is {shown(observation['instruction'])}: it must be true or false")
    return observation


def _check_each(name: str, limits: Any, dim: int | None, fits: Any, wanted: str) -> None:
    if not isinstance(limits, list) or len(limits) != (len(limits) if dim is None else dim):
        belongs = "a list" if dim is None else f"a list of {dim} (action_dim)"
        raise malformed(f"action.{name} is {shown(limits)}, where {belongs} belongs: it cannot be enforced")
    for number, limit in enumerate(limits):
        if not fits(limit):
            raise malformed(f"action.{name}[{number}] is {shown(limit)}, where {wanted} belongs: it cannot be enforced")


def _is_range(limit: Any) -> bool:
    """Infinite ends are no limit, which is well; NaN compares with nothing."""
    if not (isinstance(limit, Sequence) and len(limit) == 2 and all(map(_is_number, limit))):
        return False
    low, high = limit
    return bool(low <= high and low < math.inf and high > -math.inf)


def _is_step(limit: Any) -> bool:
    return _is_number(limit) and bool(limit > 0)


def _is_number(value: Any) -> bool:
    """A number that a float can hold, or an infinity."""
    if type(value) is int:
        return abs(value) <= _LARGEST
    return type(value) is float and not math.isnan(value)


def _is_switch(value: Any) -> bool:
    return value is None or isinstance(value, bool)


_LARGEST = 2**1023
