"""Code bundles: what is taken, and that unpacking leaves whole folders or none."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile

import pytest

from runner.errors import Refused
from runner.images import blob_key, bundle, check_bundle, unpack
from runner.settings import Settings
from runner.store.blobs import Blobs
from seq.contract.code import CodeBundle


def packed(*members, **files):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member)
        for name, text in files.items():
            info = tarfile.TarInfo(f"{name}.py")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return target.getvalue()


def wire(data, sha256=None):
    return CodeBundle(data=base64.b64encode(data).decode(), sha256=sha256 or hashlib.sha256(data).hexdigest())


def special(name, kind):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def test_a_good_bundle_gives_its_bytes():
    """What was packed is what is kept."""
    data = packed(policy="x = 1")
    assert check_bundle(wire(data)) == data


@pytest.mark.parametrize(
    ("sent", "word"),
    [
        (CodeBundle(data="@@", sha256="0"), "base64"),
        (wire(packed(a="x"), sha256="0" * 64), "hash"),
        (wire(b"not a tar at all"), "gzip tar"),
        (wire(packed(a="x" * 5000)[:-40]), "gzip tar"),
        (wire(packed(special("link", tarfile.SYMTYPE))), "'link'"),
        (wire(packed(special("hard", tarfile.LNKTYPE))), "'hard'"),
        (wire(packed(special("device", tarfile.CHRTYPE))), "'device'"),
        (wire(packed(special("../out.py", tarfile.REGTYPE))), "outside"),
        (wire(packed(special("/etc/out.py", tarfile.REGTYPE))), "outside"),
    ],
)
def test_anything_else_is_refused(sent, word):
    """Damaged data, links, devices and paths that lead out are refused, naming what was found."""
    with pytest.raises(Refused) as refused:
        check_bundle(sent)
    assert (refused.value.code, word in refused.value.detail) == ("invalid_request", True)


def test_a_bundle_that_unpacks_to_too_much_is_refused(monkeypatch):
    """Size is judged by what it unpacks to as well as by what was sent."""
    monkeypatch.setattr(bundle, "MAX_RAW_BYTES", 1000)
    with pytest.raises(Refused) as refused:
        check_bundle(wire(packed(a="x" * 2000)))
    assert refused.value.code == "payload_too_large"
    monkeypatch.setattr(bundle, "MAX_BUNDLE_BYTES", 10)
    with pytest.raises(Refused, match="compressed"):
        check_bundle(wire(packed(a="x")))


def test_unpacking_happens_once_and_whole(tmp_path):
    """The folder is named by the hash; a second call finds it; nothing else is left beside it."""
    settings, blobs = Settings(home=tmp_path), Blobs(f"file://{tmp_path}/blobs")
    data = packed(policy="x = 1")
    sha256 = hashlib.sha256(data).hexdigest()
    blobs.put(blob_key(sha256), data)
    folder = unpack(settings, blobs, sha256)
    assert (folder / "policy.py").read_text() == "x = 1"
    blobs.delete(blob_key(sha256))
    assert unpack(settings, blobs, sha256) == folder
    assert [path.name for path in settings.code.iterdir()] == [sha256]


def test_a_missing_bundle_leaves_no_folder(tmp_path):
    """Where the blob is gone the caller is told, and no half-made folder stays."""
    settings = Settings(home=tmp_path)
    with pytest.raises(FileNotFoundError):
        unpack(settings, Blobs(f"file://{tmp_path}/blobs"), "0" * 64)
    assert list(settings.code.iterdir()) == []


def test_code_that_the_image_installs_gets_an_empty_folder(tmp_path):
    """Without a bundle there is still a folder to run in."""
    assert list(unpack(Settings(home=tmp_path), Blobs(f"file://{tmp_path}/blobs"), None).iterdir()) == []
