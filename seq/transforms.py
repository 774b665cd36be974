"""The steps an adapter is made of. Each says itself whether it loses something; what cannot be known is declared.

A transform takes a value and returns one: an observation (a dict), or rows of actions `(rows, dim)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seq.contract.robot import ActionSpace
from seq.errors import AdapterDefinitionError


@dataclass(frozen=True)
class Transform:
    """A step: what it is called in a report, what it does, and why it loses something (None: it does not)."""

    name: str
    apply: Callable[[Any], Any]
    loss: str | None = None

    def __call__(self, value: Any) -> Any:
        """`value`, one step further."""
        return self.apply(value)


def rename(mapping: Mapping[str, str], *, lossless: bool = True, lossy: str | None = None) -> Transform:  # noqa: ARG001
    """Keys of an observation under new names; a missing key is skipped. Lossless."""
    names = dict(mapping)
    for old, new in names.items():
        if not isinstance(old, str) or not isinstance(new, str):
            raise AdapterDefinitionError(f"rename takes a dict of texts, old name to new, got {old!r}: {new!r}")
    label = ",".join(f"{old}->{new}" for old, new in names.items())
    return Transform(
        f"rename({label})",
        lambda obs: {names.get(key, key): value for key, value in _dict(obs, "rename").items()},
        lossy,
    )


def identity() -> Transform:
    """The value as it is. Lossless."""
    return Transform("identity", lambda value: value)


def reshape(key: str, new_shape: Iterable[int], *, lossless: bool = True, lossy: str | None = None) -> Transform:  # noqa: ARG001
    """The array under `key` in another shape; raises AdapterDefinitionError when the counts differ. Lossless."""
    shape, name = tuple(new_shape), f"reshape({key},{tuple(new_shape)})"

    def apply(value: Any) -> Any:
        array = _array(value)
        try:
            return array.reshape(shape)
        except ValueError as wrong:
            raise AdapterDefinitionError(
                f"{name}: {key!r} has the shape {array.shape}, which is not {shape} reordered"
            ) from wrong

    return Transform(name, _at(key, name, apply), lossy)


def resize(
    key: str, from_hw: tuple[int, int], to_hw: tuple[int, int], *, lossless: bool = False, lossy: str | None = None
) -> Transform:
    """The image (height, width, ...) under `key` in another size, by nearest sampling. Always lossy."""
    source, target, name = tuple(from_hw), tuple(to_hw), f"resize({key},{tuple(from_hw)}->{tuple(to_hw)})"
    sizes = f"{source[0]}x{source[1]} to {target[0]}x{target[1]}, nearest pixels"

    def apply(value: Any) -> Any:
        array = _array(value)
        if array.shape[:2] != source:
            raise AdapterDefinitionError(
                f"{name}: {key!r} is {array.shape[0]}x{array.shape[1]}, declared {source[0]}x{source[1]}"
            )
        rows = [row * source[0] // target[0] for row in range(target[0])]
        columns = [column * source[1] // target[1] for column in range(target[1])]
        return array[rows][:, columns]

    return Transform(name, _at(key, name, apply), _loss(name, sizes, lossless=lossless, lossy=lossy))


def downcast(key: str, to_dtype: str, *, lossless: bool = False, lossy: str | None = None) -> Transform:
    """The array under `key` as another dtype. Always lossy."""
    name = f"downcast({key},{to_dtype})"
    reason = _loss(name, f"{key} as {to_dtype} keeps fewer digits", lossless=lossless, lossy=lossy)
    return Transform(name, _at(key, name, lambda value: _array(value).astype(to_dtype)), reason)


def drop(keys: Iterable[str], *, lossless: bool = False, lossy: str | None = None) -> Transform:
    """An observation without `keys`; a missing one is ignored. Always lossy."""
    gone = (keys,) if isinstance(keys, str) else tuple(keys)
    name = f"drop({','.join(gone)})"
    reason = _loss(name, f"{', '.join(gone)} left out", lossless=lossless, lossy=lossy)
    return Transform(name, lambda obs: {k: v for k, v in _dict(obs, name).items() if k not in gone}, reason)


def action_project(
    from_space: str | ActionSpace,
    to_space: str | ActionSpace,
    *,
    from_dim: int | None = None,
    to_dim: int | None = None,
    lossless: bool = False,
    lossy: str | None = None,
) -> Transform:
    """Rows `(rows, dim)` of one action space read as another; with `to_dim` cut or filled up with zeros.

    Lossy when the space changes or both dims are given and differ; else as declared.
    """
    source, target = _space(from_space), _space(to_space)
    name = f"action_project({source}->{target})"
    changed = source != target or (from_dim is not None and to_dim is not None and from_dim != to_dim)
    reason = f"{source} to {target}" + (f", {from_dim} dims to {to_dim}" if from_dim and to_dim else "")
    if changed:
        loss: str | None = _loss(name, reason, lossless=lossless, lossy=lossy)
    else:
        loss = None if lossless and lossy is None else lossy or f"{reason}; not declared lossless"
    return Transform(name, lambda rows: rows if to_dim is None else _fitted(_array(rows), to_dim), loss)


def custom(name: str, fn: Callable[[Any], Any], *, lossless: bool = False, lossy: str | None = None) -> Transform:
    """`fn` as a step; it must declare `lossless=True` or `lossy="why"`, since nobody can see it from outside."""
    if not isinstance(name, str) or not name or not callable(fn):
        raise AdapterDefinitionError(f"custom takes a name and a function, got {name!r} and {fn!r}")
    if not lossless and not lossy:
        raise AdapterDefinitionError(
            f'custom transform {name!r} must declare lossless=True or lossy="why": it cannot be verified'
        )
    return Transform(f"custom({name})", fn, None if lossless else lossy)


def _loss(name: str, own: str, *, lossless: bool, lossy: str | None) -> str:
    """The reason of a step that always loses: its own, then the author's."""
    if lossless:
        raise AdapterDefinitionError(
            f"{name} loses information ({own}); leave lossless=True out, and say why with lossy="
        )
    return f"{own}: {lossy}" if lossy else own


def _at(key: str, name: str, apply: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def step(obs: Any) -> Any:
        values = _dict(obs, name)
        if key not in values:
            raise AdapterDefinitionError(f"{name}: the observation has no {key!r}; its keys are {sorted(values)}")
        return {**values, key: apply(values[key])}

    return step


def _dict(obs: Any, name: str) -> dict[str, Any]:
    if not isinstance(obs, dict):
        raise AdapterDefinitionError(f"{name} takes an observation (a dict), got a {type(obs).__name__}")
    return obs


def _array(value: Any) -> Any:
    import numpy as np  # noqa: PLC0415  declaring an adapter must not need numpy

    return np.asarray(value)


def _fitted(rows: Any, dim: int) -> Any:
    import numpy as np  # noqa: PLC0415

    missing = dim - rows.shape[-1]
    if missing <= 0:
        return rows[..., :dim]
    return np.concatenate([rows, np.zeros((*rows.shape[:-1], missing), rows.dtype)], axis=-1)


def _space(value: Any) -> str:
    try:
        return ActionSpace(value).value
    except ValueError as wrong:
        raise AdapterDefinitionError(
            f"action space {value!r} is unknown; the spaces are {[space.value for space in ActionSpace]}"
        ) from wrong
