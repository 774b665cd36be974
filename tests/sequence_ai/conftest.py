"""A fake platform in place of the real one, and no key or address of this machine."""

import pytest

import sequence_ai
from sequence_ai.testing import FakePlatform
from tests.sequence_ai.rig import Rig


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch, tmp_path):
    for name in ("SEQUENCES_API_KEY", "SEQUENCES_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEQ_HOME", str(tmp_path / "home"))


@pytest.fixture
def platform():
    with FakePlatform().in_place() as fake:
        yield fake


@pytest.fixture
def connect(platform):
    """`sequence_ai.connect` to the fake platform; every handle is closed at the end."""
    handles = []

    def open_handle(model="toy", **options):
        handles.append(sequence_ai.connect(model, base_url=platform.url, api_key=platform.key, **options))
        return handles[-1]

    yield open_handle
    for handle in handles:
        handle.close()


@pytest.fixture
def seen():
    """An observation of one camera, seven joints and a gripper."""
    return sequence_ai.observation(images={"wrist": b"frame"}, joints=[0.0] * 7, gripper=[1.0], instruction="go")


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.e2e)], ids=["by hand", "real time"])
def rig(request):
    """A robot to drive, on a clock moved by hand and on real time."""
    return Rig(real=request.param)


@pytest.fixture
def by_hand():
    """A robot to drive on a clock moved by hand, where times are exact."""
    return Rig(real=False)
