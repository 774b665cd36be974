"""Groups of commands, each on a machine of its own: one Ray placement group holds the machines as long as one lives."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from runner.cluster.base import LEAST, Command
from seq.contract.internal import GROUP_PORT

PLACE_LIMIT_S = 30.0

Place = PlacementGroupSchedulingStrategy


class Groups:
    """The groups that hold machines, by name. Ray keeps them beyond this process, and so beyond what ran in them."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._freeing = threading.Lock()

    def find(self) -> None:
        """Learn which there are, whoever made them."""
        self._held = {told["name"] for told in placement_group_table().values() if told["state"] != "REMOVED"}

    def held(self) -> frozenset[str]:
        """The groups that hold machines."""
        return frozenset(self._held)

    def free(self, names: frozenset[str]) -> None:
        """Give back the machines of groups of which nothing lives; of others, all that lives ends."""
        with self._freeing:
            for name in self._held & names:
                remove_placement_group(get_placement_group(name))
                self._held.discard(name)

    @contextmanager
    def reserved(self, members: Sequence[Command], machine: dict[str, float], *, share: bool) -> Iterator[list[Place]]:
        """Places for the members, a machine each; given back, with what was started there, when the block raises.

        Where they `share`, several are placed on one machine if there are too few. Raises OSError without places.
        """
        group = _reserve(members, machine, share=share)
        try:
            yield [Place(group, placement_group_bundle_index=index) for index in range(len(members))]
        except BaseException:
            remove_placement_group(group)
            raise
        self._held.add(members[0].name)


def address_of(place: Place) -> str:
    """The address of the machine that a place is on."""
    group, index = place.placement_group, place.placement_group_bundle_index
    node_id = placement_group_table(group)["bundles_to_node_id"][index]
    return next(str(node["NodeManagerAddress"]) for node in ray.nodes() if node["NodeID"] == node_id)


def in_group(command: Command, rank: int, size: int, address: str, ports: Sequence[int]) -> Command:
    """The command with what it needs to find the others, the first of which has that address and those free ports."""
    told = {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": address,
        "MASTER_PORT": str(ports[0]),
        GROUP_PORT: str(ports[1]),
    }
    return replace(command, env={**command.env, **told})


def _reserve(members: Sequence[Command], machine: dict[str, float], *, share: bool) -> PlacementGroup:
    machines = sum(bool(node["Alive"]) for node in ray.nodes())
    if machines < len(members) and not share:
        raise OSError(f"a group of {len(members)} machines was asked for, and the cluster has {machines}")
    strategy = "STRICT_SPREAD" if machines >= len(members) else "PACK"
    # One small machine shares its cores instead of letting work wait for ever.
    cores = [LEAST if machines == 1 else max(LEAST, member.num_cpus) for member in members]
    bundles = [{**machine, "CPU": count} for count in cores]
    group = placement_group(bundles, strategy=strategy, name=members[0].name, lifetime="detached")
    if not group.wait(PLACE_LIMIT_S):
        remove_placement_group(group)
        asked = ", ".join(f"{count:g} {name}" for name, count in bundles[0].items())
        raise OSError(f"no {len(members)} machines were free within {PLACE_LIMIT_S:g} s, each with {asked}")
    return group
