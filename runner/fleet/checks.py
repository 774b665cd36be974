"""What a submitted policy or benchmark may ask of this platform; every refusal is one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from runner.cluster.base import Cluster, ClusterLostError
from runner.errors import Refused
from runner.images import check_image
from seq.contract.benchmarks import BenchmarkRegisterRequest
from seq.contract.deployments import MACHINE_CARDS, DeploymentRequest, machines
from seq.contract.image import SecretRef

MOST_CARDS = 256


def cards_of(cluster: Cluster) -> dict[str, int]:
    """The cards the cluster has, by name; refuses as `unavailable` while the cluster is being started again."""
    try:
        return cluster.capacity().cards
    except ClusterLostError:
        raise Refused("unavailable", "the cluster is being started again", retry_after_s=2.0) from None


def check_deployment(request: DeploymentRequest, cards: Mapping[str, int]) -> None:
    """Raise Refused for what a deployment asks and this platform does not have; `cards` are those it has."""
    _check_later_parts(request)
    _check_secrets(request.policy.secrets)
    _check_group(request)
    _check_cards(request.resources.gpu, cards, "policy")
    check_image(request.image)


def _check_group(request: DeploymentRequest) -> None:
    """A model too large for one machine: on whole machines, one card type, one copy, one robot at a time."""
    wanted, declared = request.resources.gpu, request.concurrency
    large = next((card for card in wanted if _count(card) > MACHINE_CARDS), None)
    if large is None:
        return
    count = _count(large)
    if count % MACHINE_CARDS or count > MOST_CARDS:
        raise _refused(
            f"gpu={large!r}: past {MACHINE_CARDS} cards a model runs on whole machines of {MACHINE_CARDS}",
            f"ask for a multiple of {MACHINE_CARDS} cards, at most {MOST_CARDS}",
        )
    group = f"a model on {machines(count)} machines (gpu={large!r})"
    if len(wanted) > 1:
        raise _refused(f"{group} takes one card type, and gpu= lists {', '.join(wanted)}", "list only one")
    asked = declared.model_dump(exclude_none=True)
    for names, may, what in (
        (("gpus_per_replica", "replicas_per_gpu"), 0, "is one copy"),
        (("target_inputs", "max_inputs"), 1, "drives one robot at a time"),
    ):
        given = next((name for name in names if asked.get(name, 0) > may), None)
        if given is not None:
            raise _refused(f"{group} {what}, and {given}={asked[given]} says otherwise", f"leave {given} out")


def _count(card: str) -> int:
    count = card.partition(":")[2] or "1"
    return int(count) if count.isdecimal() else 0


def _check_later_parts(request: DeploymentRequest) -> None:
    weights = request.weights or next(iter((request.extra_weights or {}).values()), None)
    if weights is not None:
        raise _refused(
            f"weights={weights.uri!r}: this platform has no volumes, no templates' weights and no hub access yet",
            "load the weights from a file the image adds (add_local_file), or leave weights= out",
        )
    if request.volumes:
        raise _refused("volumes= is not supported yet: the deploy is refused rather than run without them", None)
    if request.image_context is not None:
        raise _refused("a Dockerfile's context needs a container engine, and none is here", None)
    if request.policy.models:
        raise _refused(f"no platform model named {request.policy.models[0]!r}: this platform serves none yet", None)
    if request.resources.region is not None:
        raise _refused(
            f"region={request.resources.region!r}: this platform is one machine, in no region", "leave it out"
        )


def check_benchmark(request: BenchmarkRegisterRequest, cards: Mapping[str, int]) -> None:
    """Raise Refused for what a benchmark asks and this platform does not have."""
    _check_secrets(request.secrets)
    if request.assets:
        raise _refused(
            f"assets={request.assets[0].uri!r}: this platform has no volumes yet", "add files with the image"
        )
    if request.default_adapter_ref is not None:
        raise _refused("default_adapter= is not taken at registration", "name the adapter at the eval: --adapter NAME")
    for field in ("replay", "seeds_repeat", "image_context"):
        if getattr(request, field) is not None:
            raise _refused(f"{field}: this platform does not know it yet", "leave it out")
    _check_cards([request.gpu or "L4"], cards, "benchmark")
    check_image(request.image)


def _check_secrets(secrets: list[SecretRef]) -> None:
    if secrets:
        raise _refused(f"no secret named {secrets[0].name!r}: this platform holds none yet", None)


def _check_cards(wanted: list[str], cards: Mapping[str, int], kind: str) -> None:
    has = ["cpu", *sorted(cards)]
    if not any(fits(card, cards) for card in wanted):
        raise _refused(
            f"the {kind} asks for gpu={', '.join(wanted)}, which this platform does not have; it has: {', '.join(has)}",
            'declare gpu="cpu" to run on processor cores' if not cards else None,
        )


def fits(card: str, cards: Mapping[str, int]) -> bool:
    """Whether `card` (`L4`, `H100:2`, `cpu`) can be had at all."""
    name, _, count = card.partition(":")
    return card == "cpu" or ((count or "1").isdecimal() and 0 < int(count or 1) <= cards.get(name, 0))


def _refused(detail: str, hint: str | None) -> Refused:
    return Refused("invalid_request", detail, hint=hint)
