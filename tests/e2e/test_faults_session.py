"""Secrets, certificates and leases that change in the middle of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import sequence_ai
from sequence_ai import CertPinError
from sequence_ai.testing import FakePlatform, FakeRobot, chunk, error
from tests.e2e.driving import held
from tests.e2e.test_client_tls import Identity


class Rig:
    """A served platform and a robot that drives it at 50 Hz."""

    def __init__(self, stack: contextlib.ExitStack, identity: Identity | None = None) -> None:
        self.platform = FakePlatform(infer=lambda _: {"action_chunk": chunk([[0.0, 0.0]] * 10, hz=50)})
        self.robot = FakeRobot()
        gateway = stack.enter_context(self.platform.served())
        self.platform.connect["worker_url"] = gateway.url
        if identity is not None:
            self.worker = contextlib.ExitStack()
            served = self.worker.enter_context(self.platform.served(identity.context))
            self.port = served.port
            self.platform.connect.update(worker_url=served.url, cert_fingerprint=identity.fingerprint)
            stack.push(self.worker)
        self.policy = stack.enter_context(sequence_ai.connect("toy", base_url=gateway.url, api_key=self.platform.key))

    def run(self, max_actions: int) -> sequence_ai.RunOutcome:
        return self.policy.run(**self.robot.callables, max_actions=max_actions, progress=False)

    @property
    def ids(self) -> list[str]:
        return [sent.headers["x-seq-request-id"] for sent in self.platform.to("/act")]


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as made:
        yield made


@pytest.mark.filterwarnings("ignore:the worker changed:UserWarning")
def test_a_secret_rotated_in_mid_run_costs_no_row(stack) -> None:
    """The worker refuses the old secret: a new connect, the same act again under its id, told as a reset."""
    rig = Rig(stack)
    rotated = {**rig.platform.connect, "direct_secret": "new", "lease": {"ttl_s": 300, "epoch": 2}}
    rig.robot.plan("act", 5, lambda: setattr(rig.platform, "connect", rotated))
    outcome = rig.run(40)
    assert (outcome.reason, outcome.actions, outcome.episode_resets) == ("completed", 40, 1)
    assert len(rig.platform.to("/v1/act/connect")) == 2
    assert len(rig.ids) - len(set(rig.ids)) == 1
    assert rig.robot.calls("hold") == []


def test_a_certificate_swapped_in_mid_run_ends_in_hold(stack, tmp_path) -> None:
    """A stranger takes the worker's port: CertPinError, `hold`, and the stranger was sent nothing."""
    rig, stranger = Rig(stack, Identity(tmp_path, "worker")), Identity(tmp_path, "stranger")
    sent = []

    def swap() -> None:
        rig.worker.close()
        sent.append(len(rig.platform.to("/act")))
        rig.worker.enter_context(rig.platform.served(stranger.context, rig.port))

    rig.robot.plan("act", 3, swap)
    with pytest.raises(CertPinError, match="nothing was sent"):
        rig.run(40)
    held(rig.robot)
    assert len(rig.platform.to("/act")) == sent[0]
    assert len(rig.robot.played) == 10 * sent[0]


@pytest.mark.parametrize(
    "refusal",
    [
        error(503, "unavailable", retry_after_s=2, details={"queue_position": 1}),
        error(503, "warming", retry_after_s=1),
        error(402, "budget_exhausted"),
        error(409, "conflict", details={"state": "stopped"}),
        error(500, "internal"),
    ],
    ids=["queued", "warming", "budget", "stopped", "internal"],
)
def test_a_lost_lease_stops_no_act_that_its_worker_answers(stack, refusal) -> None:
    """Renewals are refused in every way from row 5 on, for three leases: no row is missing while the worker answers."""
    rig = Rig(stack)
    rig.platform.connect["lease"] = {"ttl_s": 1, "epoch": 1}
    rig.robot.plan("act", 5, lambda: rig.platform.answer_next("/v1/act/connect", *[refusal] * 99))
    outcome = rig.run(150)
    assert (outcome.reason, outcome.actions, outcome.episode_resets) == ("completed", 150, 0)
    assert outcome.underrun_s < 1
    assert rig.robot.calls("hold") == []
    assert len(rig.platform.to("/v1/act/connect")) > 1


def test_a_lost_lease_that_the_worker_enforces_ends_in_hold(stack) -> None:
    """Where the worker too refuses and the gateway has no place, that is raised in mid-run, after `hold`."""
    rig = Rig(stack)

    def lose() -> None:
        rig.platform.connect = {**rig.platform.connect, "direct_secret": "another's"}
        queued = error(503, "unavailable", retry_after_s=2, details={"queue_position": 1})
        rig.platform.answer_next("/v1/act/connect", *[queued] * 99)

    rig.robot.plan("act", 5, lose)
    with pytest.raises(sequence_ai.Unavailable) as raised:
        rig.run(40)
    assert raised.value.queue_position == 1
    held(rig.robot)
