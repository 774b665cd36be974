"""The public face of `seq`: few names, all there, loaded when used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import seq

HEAVY = ("numpy", "ray", "mujoco", "PIL", "typer", "rich", "httpx", "sqlalchemy", "gymnasium", "pandas", "matplotlib")


def _typed_names() -> set[str]:
    tree = ast.parse(Path(seq.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_the_list_is_sorted_and_says_what_type_checkers_see():
    """`__all__` is sorted, has no doubles, and names exactly what the typed imports name."""
    assert seq.__all__ == sorted(set(seq.__all__))
    assert set(seq.__all__) == _typed_names()


@pytest.mark.parametrize("name", seq.__all__)
def test_every_name_is_there(name: str):
    """Each public name can be read from the package."""
    assert getattr(seq, name) is not None


def test_a_wrong_name_is_answered_with_the_names_there_are():
    """Reading a name that is not there lists those that are."""
    with pytest.raises(AttributeError, match=r"no attribute 'polcy'.*policy"):
        _ = seq.polcy


def test_a_decorator_stays_one_when_its_module_is_imported():
    """`seq.policy` is the decorator although a submodule of that name was imported."""
    from seq.benchmark import declaration_of  # noqa: F401, PLC0415
    from seq.policy import policy  # noqa: PLC0415

    assert seq.policy is policy
    assert callable(seq.benchmark)
    assert callable(seq.conditions)


DECLARING = """
import sys
sys.path.insert(0, sys.argv[1])
import policy, benchmark, adapter
import seq, sequence_base.contract
print([name for name in sys.argv[2].split(",") if name in sys.modules])
"""


def test_declaring_loads_nothing_heavy(tmp_path: Path):
    """Importing `seq` and three declarations loads no numpy, no Ray, no simulator, no command line and no HTTP."""
    root = Path(seq.__file__).parent.parent
    for source in ("examples/policies/toy-policy/policy.py", "benchmarks/toy-benchmark/benchmark.py"):
        (tmp_path / Path(source).name).write_text((root / source).read_text())
    (tmp_path / "adapter.py").write_text((root / "adapters/toy-adapter/adapter.py").read_text())

    done = subprocess.run(
        [sys.executable, "-c", DECLARING, str(tmp_path), ",".join(HEAVY)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[]"
