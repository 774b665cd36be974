"""The same sources make the same bytes; what goes up is the file, its package, and what the image names."""

import base64
import io
import os
import tarfile
import textwrap
from pathlib import Path

import pytest

import seq
from seq import targets
from seq.bundle import archive, code_bundle, context_bundle, pack
from seq.requests import declaration

POLICY = textwrap.dedent("""
    import seq

    @seq.policy(gpu="cpu", image=seq.Image.debian_slim(){steps})
    class P:
        @seq.infer
        def infer(self, obs): ...
""")


def _files(path: Path, name: str | None = None) -> list[str]:
    declared = declaration(targets.load(f"{path}:{name}" if name else str(path)))
    bundle = code_bundle(declared.handler, declared.image)
    return list(bundle.files) if bundle else []


def test_bytes_do_not_depend_on_order_time_or_mode(tmp_path):
    """Touched, re-moded and differently ordered sources pack to the same hash; other text does not."""
    one, two = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("a"), two.write_text("b")
    first = pack({"a.py": one, "b.py": two})
    os.utime(one, (1, 1))
    two.chmod(0o755)

    again = pack({"b.py": two, "a.py": one})
    two.write_text("c")

    assert first == again
    assert pack({"a.py": one, "b.py": two}).sha256 != first.sha256


def test_members_are_plain_files_of_nobody():
    """A PAX tar of regular files: mode 0644, no owner, no time, no folder entries; the gzip header has no time."""
    data = archive({"pkg/m.py": b"x", "a.py": b"yy"})

    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["a.py", "pkg/m.py"]
    assert {(m.isreg(), m.mode, m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {
        (True, 0o644, 0, 0, "", "", 0)
    }
    assert data[4:8] == b"\0\0\0\0"


def test_the_wire_carries_the_hash_of_the_gzip_bytes(tmp_path):
    """`sha256` is of what `data` decodes to."""
    (tmp_path / "a.py").write_text("x")
    bundle = pack({"a.py": tmp_path / "a.py"})

    assert base64.b64decode(bundle.wire().data) == bundle.data
    assert bundle.wire().sha256 == bundle.sha256


def test_too_much_code_is_refused_with_the_largest_files(tmp_path, monkeypatch):
    """Above 8 MiB packed or 64 MiB raw, the message names what is big and where it belongs."""
    big = tmp_path / "weights.bin"
    big.write_bytes(os.urandom(9 << 20))
    with pytest.raises(seq.SeqAuthoringError, match=r"8 MiB.*weights\.bin.*volume"):
        pack({"weights.bin": big})
    with big.open("ab") as sparse:
        sparse.truncate(65 << 20)
    with pytest.raises(seq.SeqAuthoringError, match="64 MiB"):
        pack({"weights.bin": big})


def test_a_file_goes_up_alone(write):
    """What lies beside a policy stays."""
    path = write("mypolicy.py", POLICY.format(steps=""))
    write("helper.py", "")
    write("README.md", "")

    assert _files(path) == ["mypolicy.py"]


def test_a_package_goes_up_whole_without_caches_and_links(write, tmp_path):
    """The outermost package of the file; caches, VCS, environments, bytecode and links stay."""
    path = write("outer/inner/mod.py", POLICY.format(steps=""))
    for name in ("outer/__init__.py", "outer/inner/__init__.py", "outer/data/table.csv", "outer/__pycache__/m.pyc"):
        write(name, "")
    (
        write("outer/env/__init__.py", ""),
        write("outer/myvenv/pyvenv.cfg", ""),
        write("outer/.git/HEAD", ""),
        write("outer/build/x.py", ""),
        write("outer/old.pyc", ""),
    )
    (tmp_path / "outer" / "link.py").symlink_to(path)

    assert _files(path) == [
        "outer/__init__.py",
        "outer/data/table.csv",
        "outer/env/__init__.py",
        "outer/inner/__init__.py",
        "outer/inner/mod.py",
    ]


def test_what_the_image_names_goes_up_too(write):
    """Local files and folders by their number, modules and packages at the root."""
    steps = """.add_local_file("conf.yaml", "/opt/conf.yaml").add_local_dir("assets", "/opt/assets")
        .add_local_python_source("helper", "lib.deep")"""
    path = write("withmore.py", POLICY.format(steps=steps))
    for name in ("conf.yaml", "assets/a.txt", "assets/sub/b.txt", "helper.py", "lib/__init__.py", "lib/deep.py"):
        write(name, "x")

    assert _files(path) == [
        "_seq_local/0/conf.yaml",
        "_seq_local/1/assets/a.txt",
        "_seq_local/1/assets/sub/b.txt",
        "helper.py",
        "lib/__init__.py",
        "lib/deep.py",
        "withmore.py",
    ]
    added = [step.add_local.wire() for step in declaration(targets.load(str(path))).image.spec().steps]
    assert added == [
        {"src": "_seq_local/0/conf.yaml", "dst": "/opt/conf.yaml"},
        {"src": "_seq_local/1/assets", "dst": "/opt/assets"},
    ]


@pytest.mark.parametrize(
    "step",
    ['.add_local_file("gone", "/x")', '.add_local_dir("lonely.py", "/x")', '.add_local_python_source("gone_module")'],
)
def test_what_is_not_there_is_refused_when_it_would_go_up(write, step):
    """Declaring touches no file; packing says which one is missing."""
    path = write("lonely.py", POLICY.format(steps=step))

    with pytest.raises(seq.PolicyDefinitionError, match="add_local"):
        _files(path)


def test_a_dockerfiles_context_is_a_bundle_of_its_own(write):
    """The folder its COPY lines see, at the root."""
    write("ctx/Dockerfile", "FROM debian:12\nCOPY a.txt /\n"), write("ctx/a.txt", "a")
    source = POLICY.replace(
        "seq.Image.debian_slim(){steps}", 'seq.Image.from_dockerfile("ctx/Dockerfile", context="ctx")'
    )
    path = write("docked.py", source)

    assert list(context_bundle(declaration(targets.load(str(path))).image).files) == ["Dockerfile", "a.txt"]
    assert context_bundle(seq.Image.debian_slim()) is None


def test_a_second_file_of_the_same_name_does_not_stand_in_for_the_first(write):
    """Two folders with a `policy.py` each: every class is packed from its own file."""
    files = [
        write("one/policy.py", POLICY.format(steps="")),
        write("two/policy.py", "# longer\n" + POLICY.format(steps="")),
    ]

    classes = [targets.load(str(file)) for file in files]

    packed = [code_bundle(declaration(cls).handler, seq.Image.debian_slim()).files["policy.py"] for cls in classes]
    assert packed == [file.stat().st_size for file in files]
    assert packed[0] != packed[1]
