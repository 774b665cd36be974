"""From a file or a module to one class, and one sentence for everything that is in the way."""

import sys
import textwrap

import pytest

import seq
from seq import targets

POLICY = textwrap.dedent("""
    import seq

    @seq.policy(gpu="cpu")
    class {name}:
        @seq.infer
        def infer(self, obs): ...
""")


def test_a_file_with_one_class_needs_no_name(write):
    """`file.py` and `file.py:Class` name the same class."""
    path = write("single.py", POLICY.format(name="Only"))

    assert targets.load(str(path)).__name__ == "Only"
    assert targets.load(f"{path}:Only").__name__ == "Only"
    assert targets.kind_of(targets.load(str(path))) == "policy"


def test_a_module_is_named_with_dots_or_with_m(write, tmp_path, monkeypatch):
    """`pkg.mod:Class` and `-m pkg.mod` import from the working directory."""
    write("pkg_named/__init__.py", "")
    write("pkg_named/mod.py", POLICY.format(name="Deep"))
    monkeypatch.chdir(tmp_path)

    assert targets.load("pkg_named.mod:Deep").__module__ == "pkg_named.mod"
    assert targets.load("pkg_named.mod", module=True).__name__ == "Deep"
    assert targets.load("pkg_named/mod.py").__module__ == "pkg_named.mod"
    assert str(tmp_path) not in sys.path


def test_helpers_beside_the_file_can_be_imported(write):
    """The file's folder is on the path while it is imported."""
    write("beside_me.py", "NAME = 'friend'")
    path = write("importer.py", "import beside_me\n" + POLICY.format(name="P"))

    assert targets.load(str(path)).__name__ == "P"


BURST = """
import seq
seq.ActionContract(robot="a", action_space="ee_delta", action_dim=1, control_frequency_hz=1e9)
"""


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("empty.py", "import seq", "declares no policy, benchmark or adapter"),
        ("two.py", POLICY.format(name="A") + POLICY.format(name="B"), "A (policy), B (policy)"),
        ("broken.py", "def f(:\n    pass", "syntax error, line 1"),
        ("needy.py", "import seq\nimport no_such_package\n", "line 2: the package 'no_such_package' is not installed"),
        ("raises.py", "import seq\n\nraise ValueError('no luck')", "line 3 raised ValueError: no luck"),
        ("leaves.py", "raise SystemExit(3)", "raised SystemExit: 3"),
        ("json.py", POLICY.format(name="P"), "name of an installed module, 'json'"),
        ("numpy.py", POLICY.format(name="P"), "name of an installed module, 'numpy'"),
        ("seq.py", POLICY.format(name="P"), "name of an installed module, 'seq'"),
        ("my-policy.py", POLICY.format(name="P"), "such as my_policy.py"),
        (
            "contract.py",
            "import seq\nseq.ActionContract(robot='a', action_space='flying', action_dim=1, control_frequency_hz=1)",
            "line 2: ActionContract: action_space",
        ),
        (
            "burst.py",
            BURST,
            "ActionContract: control_frequency_hz",
        ),
        (
            "typo.py",
            "import seq\nseq.ObservationContract(vectors={})",
            "vectors: no such field; there are cameras, history, proprio, state, instruction",
        ),
        ("declared.py", "import seq\n@seq.policy(gpu='cpu', name='-')\nclass P: ...", "declared.py: "),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(write, name, text, says):
    """No traceback, no second line: what is wrong and where."""
    with pytest.raises(seq.SeqAuthoringError) as refused:
        targets.load(str(write(name, text)))

    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("target", "says"),
    [("gone.py", "no file"), ("no.such.module:C", "no module"), ("what is this", "neither"), ("./dir/x", "no file")],
)
def test_what_is_not_there_is_said(target, says, tmp_path, monkeypatch):
    """A path that is no file, a module that is none, and text that is neither."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(seq.SeqAuthoringError, match=says):
        targets.load(target)


def test_a_wrong_class_is_answered_with_those_there_are(write):
    """`file.py:Class` with a class that is not there, or is not decorated."""
    path = write("several.py", POLICY.format(name="Right") + "\nclass Plain: ...\n")

    for wrong in ("Wrong", "Plain"):
        with pytest.raises(seq.SeqAuthoringError, match="are: Right"):
            targets.load(f"{path}:{wrong}")


def test_a_failed_file_leaves_nothing_behind(write):
    """The next file of that name starts clean, and the path is what it was."""
    before = list(sys.path)
    path = write("flaky.py", "raise RuntimeError")
    with pytest.raises(seq.SeqAuthoringError):
        targets.load(str(path))

    assert "flaky" not in sys.modules
    assert sys.path == before


def test_an_imported_class_is_not_the_files_own(write):
    """A policy imported from another module does not count as a second one."""
    write("base_policy.py", POLICY.format(name="Base"))
    path = write("uses_base.py", "from base_policy import Base\n" + POLICY.format(name="Mine"))

    assert targets.load(str(path)).__name__ == "Mine"
