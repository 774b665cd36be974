"""Classes to decorate, made at call time but named as if they stood at the top of a file."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seq
from seq import targets, templates

Make = Callable[..., type]


def _named(name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
    return type(name, bases, {"__module__": __name__, **members})


@pytest.fixture
def policy_class() -> Make:
    """A class with an `infer` hook and whatever else is given."""

    def make(name: str = "MyPolicy", **members: Any) -> type:
        @seq.infer
        def infer(self, obs, *, seed=None):
            return obs

        return _named(name, (), {"infer": infer, **members})

    return make


@pytest.fixture
def benchmark_class() -> Make:
    """A class with `reset` and `check` hooks and whatever else is given."""

    def make(name: str = "MyBenchmark", **members: Any) -> type:
        @seq.reset
        def reset(self, seed, variant): ...

        @seq.check
        def check(self, env): ...

        return _named(name, (), {"reset": reset, "check": check, **members})

    return make


@pytest.fixture
def adapter_class() -> Make:
    """A `seq.Adapter` with the members given."""

    def make(name: str = "MyAdapter", **members: Any) -> type:
        return _named(name, (seq.Adapter,), members)

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a file of dedented text below a fresh folder."""

    def put(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
        return path

    return put


@pytest.fixture
def toy() -> dict[str, type]:
    """The shipped toy of each kind."""
    kinds = ("policy", "benchmark", "adapter")
    return {kind: targets.load(str(templates.template(f"toy-{kind}").path / f"{kind}.py")) for kind in kinds}
