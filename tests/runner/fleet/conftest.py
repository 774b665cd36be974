"""A fleet over a test context: images are made by nobody, tasks run in place, a worker's door is a dictionary."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field

import pytest

from runner import images
from runner.cluster.fake import FakeCluster
from runner.fleet.door import DoorError
from runner.fleet.reconcile import FleetController
from runner.testing import first_key, make_client, make_context
from seq.contract.internal import WorkerPing

ROUTERS = ("deployments", "act", "benchmarks", "internal_workers", "keys", "status")


def bundle(files: dict[str, str]) -> dict[str, str]:
    """A code bundle with these files."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    data = target.getvalue()
    return {"format": "tar.gz", "data": base64.b64encode(data).decode(), "sha256": hashlib.sha256(data).hexdigest()}


ACTION = {"robot": "arm", "action_space": "joint_absolute", "action_dim": 2, "control_frequency_hz": 10}
OBSERVATION = {"cameras": {"front": {"width": 8, "height": 6}}, "proprio": {"joint_positions": 2}, "state": {"pose": 3}}


def policy(name: str = "arm", *, handler: str = "policy:Arm", observation: bool = True, **rest) -> dict:
    """A deployment request; `rest` replaces top-level fields."""
    declared = {"handler_ref": handler, "action": ACTION, "action_declared": True}
    if observation:
        declared["observation"] = OBSERVATION
    request = {
        "name": name,
        "image": {"base": "debian:12-slim", "steps": []},
        "resources": {"gpu": ["cpu"]},
        "policy": declared,
        "code": bundle({"policy.py": "x = 1\n"}),
    }
    return request | rest


def benchmark(name: str = "line", *, handler: str = "benchmark:Line", **rest) -> dict:
    """A benchmark registration; `rest` replaces top-level fields."""
    request = {
        "name": name,
        "image": {"base": "debian:12-slim", "steps": []},
        "conditions": {
            "tasks": ["reach", "push"],
            "seeds": [3, 4],
            "variants": [{"axis": "surface", "values": ["dry", "wet"]}],
        },
        "handler_ref": handler,
        "gpu": "cpu",
        "suite_of": {"reach": "easy"},
        "action_contract": ACTION,
        "code": bundle({"benchmark.py": "x = 1\n"}),
    }
    return request | rest


@dataclass
class FakeDoor:
    """Answers every act, or raises `refusal`; `pings` are counters by worker URL, `silent` workers do not answer."""

    refusal: DoorError | None = None
    acts: list[dict] = field(default_factory=list)
    pings: dict[str, WorkerPing] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)

    def act(self, address, body, limit_s):
        self.acts.append(body)
        if self.refusal is not None:
            raise self.refusal
        return {"action_chunk": {}}

    def ping(self, address):
        if address.url in self.silent:
            raise DoorError("no ping", unreachable=True)
        return self.pings.get(address.url, WorkerPing(pid=7, acts=0, errors=0, idle_s=1e9))


class Fleet:
    """The controller with everything it stands on, and what a test does to it."""

    def __init__(self, ctx, client, door):
        self.ctx, self.client, self.door = ctx, client, door
        self.cluster = ctx.cluster
        self.restart()

    def restart(self):
        """A new gateway over the same store and cluster."""
        self.controller = FleetController(self.ctx, door=self.door, spawn=lambda work: work())

    def tick(self, times=1):
        for _ in range(times):
            self.controller.tick()

    def started(self):
        """The last launched command's name and start line."""
        command = self.cluster.launched[-1]
        return command.name, json.loads(command.stdin)

    def report(self, name, phase, *, token=None, **told):
        """What the worker of that name would tell, with the token it was started with."""
        start = next(json.loads(c.stdin) for c in self.cluster.launched if c.name == name)
        return make_client(self.ctx, token or start["token"], routers=ROUTERS).post(
            f"/internal/workers/{name}/report", json={"phase": phase} | told
        )

    benchmark = staticmethod(benchmark)

    def deploy(self, *, replace=False, **request):
        return self.client.post(f"/v1/deployments?replace={str(replace).lower()}", json=policy(**request))

    def load(self):
        """Tick until the check worker is launched and let it report that it serves; its name."""
        self.tick(3)
        name, _ = self.started()
        assert self.report(name, "ready", url=f"https://127.0.0.1:1/{name}", pid=7).status_code == 200
        return name

    def make_ready(self, **request):
        """Deploy and build to the end; the check worker's name."""
        assert self.deploy(**request).status_code == 202
        name = self.load()
        self.tick(2)
        return name

    def connect(self, model="arm", session="s" * 32, key=None, **more):
        client = self.client if key is None else make_client(self.ctx, key, routers=ROUTERS)
        return client.post("/v1/act/connect", json={"model": model, "session": session, "moves": True, **more})

    def release(self, session="s" * 32, model="arm"):
        assert self.client.post("/v1/act/release", json={"model": model, "session": session}).json() == {}

    def serve(self, model="arm", session="s" * 32):
        """Connect until a serving worker is ready; its name."""
        assert self.connect(model, session).json()["code"] == "warming"
        return self.started_up()

    def started_up(self):
        """Start what is wanted, and let the one started last report that it serves; its name."""
        self.tick()
        name, _ = self.started()
        self.report(name, "ready", url=f"https://127.0.0.1:1/{name}")
        return name

    def block(self, model="arm"):
        """The deployment's fleet block."""
        return self.client.get(f"/v1/deployments/{model}/fleet").json()


@pytest.fixture
def door():
    return FakeDoor()


@pytest.fixture
def ctx(tmp_path):
    cluster = FakeCluster()
    cluster.ensure()
    made = make_context(tmp_path, cluster=cluster)
    yield made
    made.store.close()


@pytest.fixture
def no_uv(monkeypatch, ctx):
    """Environments appear without being made: one per content, its folder empty. A list of what was asked for."""
    asked = []

    def build(settings, image, bundle_dir, log):
        asked.append(image)
        log("made")
        name = hashlib.sha256(image.model_dump_json().encode()).hexdigest()[:8]
        return images.Environment(name, settings.envs / name, settings.envs / name / "bin/python", {})

    def find(settings, image_hash):
        return images.Environment(image_hash, settings.envs / image_hash, settings.envs / image_hash / "bin/python", {})

    monkeypatch.setattr(images, "build", build)
    monkeypatch.setattr(images, "find", find)
    monkeypatch.setattr(images, "sdk", lambda settings: settings.sdk / "x")
    return asked


@pytest.fixture
def client(ctx):
    return make_client(ctx, first_key(), routers=ROUTERS)


@pytest.fixture
def fleet(ctx, client, door, no_uv):
    return Fleet(ctx, client, door)
