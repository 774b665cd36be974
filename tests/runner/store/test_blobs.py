"""Blobs, in a folder and in an object store (fsspec's in-memory one stands for it)."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from runner.store.blobs import Blobs


@pytest.fixture(params=["folder", "object store"])
def blobs(request, tmp_path):
    if request.param == "folder":
        return Blobs(f"file://{tmp_path / 'blobs'}")
    fsspec.filesystem("memory").store.clear()
    return Blobs("memory://blobs")


def test_what_was_put_is_got(blobs):
    """A key holds the bytes put last."""
    blobs.put("bundles/a.tar.gz", b"one")
    blobs.put("bundles/a.tar.gz", b"two")
    assert blobs.get("bundles/a.tar.gz") == b"two"


def test_a_missing_key_is_said(blobs):
    """`get` raises FileNotFoundError; `exists`, `size` and `delete` take absence for an answer."""
    with pytest.raises(FileNotFoundError):
        blobs.get("bundles/none")
    assert not blobs.exists("bundles/none")
    assert blobs.size("bundles") == 0
    blobs.delete("bundles")


def test_a_prefix_is_no_key(blobs):
    """Only a whole key exists; the names above it do not."""
    blobs.put("eval/1/0/1/video.mp4", b"x")
    assert blobs.exists("eval/1/0/1/video.mp4")
    assert not blobs.exists("eval/1")


def test_a_prefix_is_measured_and_deleted_as_a_whole(blobs):
    """`size` adds up and `delete` removes all below a prefix, and nothing beside it."""
    blobs.put("eval/1/0/1/video.mp4", b"xx")
    blobs.put("eval/1/1/1/video.mp4", b"yyy")
    blobs.put("eval/10/0/1/video.mp4", b"z")
    assert blobs.size("eval/1") == 5
    blobs.delete("eval/1")
    assert (blobs.size("eval/1"), blobs.size("eval/10")) == (0, 1)


@pytest.mark.parametrize("key", ["", "/etc/passwd", "a/../../b", "a//b", ".", "a/"])
def test_a_key_cannot_leave_the_root(blobs, key):
    """Keys are names with one slash between them; others are refused before any file is touched."""
    with pytest.raises(ValueError, match="blob key"):
        blobs.put(key, b"x")


def test_a_failed_put_leaves_what_was_there(tmp_path, monkeypatch):
    """A put that cannot finish changes nothing and leaves no half file."""
    blobs = Blobs(f"file://{tmp_path}")
    blobs.put("bundles/a", b"whole")
    monkeypatch.setattr("os.fsync", _full)
    with pytest.raises(OSError, match="no space"):
        blobs.put("bundles/a", b"half")
    assert blobs.get("bundles/a") == b"whole"
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == ["a"]


def test_a_folder_is_made_for_other_processes(tmp_path):
    """What a process writes into a folder is read back by key."""
    blobs = Blobs(f"file://{tmp_path / 'blobs'}")
    folder = blobs.folder("eval/1/0/1")
    (folder / "video.mp4").write_bytes(b"v")
    assert isinstance(folder, Path)
    assert blobs.get("eval/1/0/1/video.mp4") == b"v"


def test_an_object_store_has_no_folders():
    """Where blobs are no local files, asking for a directory is refused."""
    with pytest.raises(ValueError, match="no local folder"):
        Blobs("memory://blobs").folder("eval/1")


def _full(_handle: int) -> None:
    raise OSError("no space left on device")
