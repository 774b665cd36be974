"""A player around a benchmark of the tests, with a policy that answers from a script, and a queue in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.engine.bridge import Bridge
from runner.engine.player import Files, Player
from runner.engine.policy import Answer, Ask, Result
from runner.engine.progress import Progress
from runner.engine.usercode import load_class
from runner.engine.worlds import make_world
from seq.contract.internal import Condition, EpisodeOutcome, LeasedEpisode

SUPPORTS = str(Path(__file__).parents[2] / "supports")

Script = Callable[[int, Ask], Result]


def lease(seed: int, task: str = "go", **what: Any) -> LeasedEpisode:
    """An episode of the line benchmark, under its seed's number."""
    given = {"index": seed, "task": task, "seed": seed, "max_steps": 8, **what}
    return LeasedEpisode(condition=Condition.model_validate(given), attempt=1)


def rows(*values: float, waited_s: float = 0.0) -> Answer:
    """An answer of one-dimensional rows."""
    return Answer({"steps": [[value] for value in values]}, 0.01, 0.005, waited_s)


class Policy:
    """Answers from a script, and remembers what it was asked and told."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[dict[int, Ask]] = []
        self.ended: list[str] = []

    def ask(self, asks: Mapping[int, Ask], meanwhile: Callable[[], None]) -> dict[int, Result]:
        self.asked.append(dict(asks))
        meanwhile()
        return {slot: self.script(slot, ask) for slot, ask in asks.items()}

    def end_episode(self, slot: int, episode_id: str) -> None:
        self.ended.append(episode_id)


class Home:
    """Episodes from a list; outcomes into one."""

    def __init__(self, episodes: list[LeasedEpisode]) -> None:
        self.waiting = list(episodes)
        self.outcomes: list[EpisodeOutcome] = []

    def take(self, free: int, *, wait: bool) -> list[LeasedEpisode] | None:
        if not self.waiting:
            return None
        given, self.waiting = self.waiting[:free], self.waiting[free:]
        return given

    def ended(self, outcomes: list[EpisodeOutcome]) -> None:
        self.outcomes += outcomes


class Played:
    """What a whole run of a player left behind."""

    def __init__(self, world: Any, policy: Policy, home: Home, folder: Path) -> None:
        self.world = world
        self.policy = policy
        self.outcomes = {outcome.index: outcome for outcome in home.outcomes}
        self.folder = folder

    @property
    def bodies(self) -> list[dict[int, Any]]:
        """The inputs of every query, by slot."""
        return [{slot: ask.body["inputs"] for slot, ask in asks.items()} for asks in self.policy.asked]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[..., Played]]:
    """Play episodes to their end: `play(episodes, script, cls="Line", slots=1)`."""
    made: list[Progress] = []

    def run(
        episodes: list[LeasedEpisode],
        script: Script,
        cls: str = "Line",
        *,
        slots: int = 1,
        bridge: Bridge | None = None,
        **options: Any,
    ) -> Played:
        loaded = load_class(SUPPORTS, f"line_benchmark:{cls}")
        world = make_world(loaded, batched=cls == "Lines", slots=slots, setup_params={})
        policy, home, files = Policy(script), Home(episodes), Files(tmp_path / "files", None, "")
        made.append(Progress.create(slots))
        ways: Any = policy
        Player(
            world, bridge or Bridge(action_dim=1), ways, home, files, made[-1], SUPPORTS, slots=slots, **options
        ).run()
        return Played(world, policy, home, files.folder)

    yield run
    for progress in made:
        progress.close()
