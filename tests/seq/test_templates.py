"""The shipped content is found, listed and copied, in a checkout and in a wheel."""

import io
import tarfile

import pytest

import seq
from seq import targets, templates

SHIPPED = {
    "toy-policy": "policy",
    "panda-expert": "policy",
    "panda-still": "policy",
    "panda-random": "policy",
    "toy-benchmark": "benchmark",
    "panda-tabletop": "benchmark",
    "toy-adapter": "adapter",
    "panda-joints": "adapter",
}


def test_everything_shipped_is_listed_by_kind():
    """Each folder with its kind's entry file is a template, policies first."""
    found = templates.templates()

    assert SHIPPED.items() <= {template.name: template.kind for template in found}.items()
    kinds = [template.kind for template in found]
    assert kinds == sorted(kinds, key=["policy", "benchmark", "adapter"].index)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_copy_can_be_deployed_under_its_folders_name(name, tmp_path):
    """The copy imports, is named after its folder where it is a policy, and carries a README but no test."""
    copied = templates.copy_template(name, tmp_path / "my-own")

    cls = targets.load(str(tmp_path / "my-own" / copied.entry))
    from seq.requests import declared_name  # noqa: PLC0415

    assert declared_name(cls) == ("my-own" if copied.kind == "policy" else name)
    names = {path.name for path in (tmp_path / "my-own").rglob("*")}
    assert "README.md" in names
    assert ("client.py" in names) == (copied.kind == "policy")
    assert not any(part.startswith("test_") for part in names)


def test_only_the_first_name_is_replaced():
    """The rest of the file stays as it was, byte for byte."""
    source = b'@seq.policy(name="toy-policy")\n# name="toy-policy"\r\n'

    assert templates.named_after(source, "toy-policy", "mine") == b'@seq.policy(name="mine")\n# name="toy-policy"\r\n'


def test_a_full_directory_is_left_alone(tmp_path):
    """A directory that holds anything is refused; an empty one is taken."""
    (tmp_path / "keep.txt").write_text("x")
    with pytest.raises(FileExistsError, match="not empty"):
        templates.copy_template("toy-policy", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["keep.txt"]

    (tmp_path / "empty").mkdir()
    templates.copy_template("toy-policy", tmp_path / "empty")
    assert (tmp_path / "empty" / "policy.py").is_file()


def test_an_archive_holds_the_same_files():
    """What the platform hands out is what a local copy writes."""
    with tarfile.open(fileobj=io.BytesIO(templates.archive("toy-policy")), mode="r:gz") as tar:
        names = {member.name for member in tar.getmembers()}

    assert names == set(templates.contents("toy-policy")) == {"README.md", "client.py", "policy.py"}


def test_a_wheels_content_is_found_by_the_same_function(tmp_path, monkeypatch):
    """Beside the package lies no checkout then, but `_content` inside it."""
    package = tmp_path / "site" / "seq"
    entry = package / "_content" / "policies" / "shipped" / "policy.py"
    entry.parent.mkdir(parents=True)
    entry.write_text("")
    monkeypatch.setattr(templates, "_HERE", package)

    assert [(found.name, found.kind) for found in templates.templates()] == [("shipped", "policy")]


def test_an_unknown_name_is_answered_with_those_there_are():
    """The list is in the message."""
    with pytest.raises(seq.SeqAuthoringError, match="toy-policy"):
        templates.template("toy")
