"""Which copy takes which act, and which episodes the copies know. Pure: arrivals and times in, turns out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from runner.worker.batching import Batching

T = TypeVar("T")

IDLE_LIMIT_S = 300.0


@dataclass(frozen=True)
class Turn(Generic[T]):
    """Acts that a free copy takes together, in the order in which they came."""

    copy: int
    acts: list[T]


@dataclass
class _Act(Generic[T]):
    item: T
    episode: str | None
    at: float


@dataclass
class _Episode:
    """The copies that saw it, the last one last; how many of its acts are under way; when one was seen last."""

    last: float
    copies: list[int] = field(default_factory=list)
    acts: int = 0


class Assignment(Generic[T]):
    """Acts go in order of arrival to a free copy: the one that served their episode last, else the longest idle one.

    `sticky` (a streaming policy): every act of an episode goes to one copy and waits for it, to that which had the
    fewest episodes when it began. A copy that is down takes nothing.
    """

    def __init__(self, copies: int, *, batching: Batching | None = None, sticky: bool = False) -> None:
        self._batching = batching or Batching()
        self._sticky = sticky
        self._free: dict[int, None] = dict.fromkeys(range(copies))  # the longest idle one first
        self._running: dict[int, list[_Act[T]]] = {}
        self._down: set[int] = set()
        self._waiting: list[_Act[T]] = []
        self._episodes: dict[str, _Episode] = {}
        self._lost: dict[str, float] = {}
        self._anew: set[str] = set()
        self._copies = copies

    @property
    def batches(self) -> bool:
        """Whether acts may go to a copy together."""
        return self._batching.most > 1

    @property
    def waiting(self) -> int:
        """Acts that no copy has taken yet."""
        return len(self._waiting)

    @property
    def serving(self) -> int:
        """Copies that are not down."""
        return self._copies - len(self._down)

    def running(self) -> Iterator[tuple[int, list[T]]]:
        """The copies that have a turn, and the acts in it."""
        return ((copy, [act.item for act in acts]) for copy, acts in self._running.items())

    def arrive(self, item: T, episode: str | None, now: float) -> None:
        """An act to be run; `next` says when and where."""
        self._waiting.append(_Act(item, episode, now))
        if episode is not None:
            known = self._episodes.setdefault(episode, _Episode(now))
            known.last, known.acts = now, known.acts + 1

    def next(self, now: float) -> Turn[T] | None:
        """The next turn that is due, which thereby begins; None when nothing can go."""
        for act in self._startable(now):
            copy = self._copy_for(act)
            if copy is not None:
                return self._begin(copy, act)
        return None

    def due(self) -> float | None:
        """When the acts that wait for others to join them go; None where only another event lets one go."""
        if not self._free or not self._waiting:
            return None
        return self._batching.due(len(self._waiting), self._waiting[0].at, self._waiting[-1].at)

    def finished(self, copy: int, now: float) -> list[T]:
        """A copy is done with its turn, or died in it: the acts that were in it."""
        acts = self._running.pop(copy, [])
        for act in acts:
            known = None if act.episode is None else self._episodes.get(act.episode)
            if known is not None:
                known.last, known.acts = now, max(0, known.acts - 1)
        if copy not in self._down:
            self._free[copy] = None
        return [act.item for act in acts]

    def down(self, copy: int, now: float) -> None:
        """A copy takes no more acts; what it remembered of episodes is gone. Its turn is still to be `finished`."""
        self._down.add(copy)
        self._free.pop(copy, None)
        for name, known in list(self._episodes.items()):
            if copy not in known.copies:
                continue
            known.copies.remove(copy)
            if self._sticky:
                self._lost[name] = now

    def up(self, copy: int) -> None:
        """A copy serves again, and knows no episode."""
        self._down.discard(copy)
        self._free[copy] = None

    def take_lost(self, episode: str | None) -> bool:
        """Whether a streaming episode's copy died since its last act; told once, before the episode goes on."""
        lost = episode is not None and self._lost.pop(episode, None) is not None
        if lost and episode is not None:
            self._anew.add(episode)
        return lost

    def take_anew(self, episode: str | None) -> bool:
        """Whether an act is the first of its streaming episode after its copy died; told once, when it is taken."""
        anew = episode in self._anew or episode in self._lost
        if anew and episode is not None:
            self._lost.pop(episode, None)
            self._anew.discard(episode)
        return anew

    def ended(self, episode: str) -> list[int]:
        """An episode is over: the copies to be told. An unknown one is known to none."""
        self.take_anew(episode)
        known = self._episodes.pop(episode, None)
        return [] if known is None else known.copies

    def stale(self, now: float) -> list[str]:
        """Episodes without an act for too long; they are still to be `ended`."""
        return [name for name, known in self._episodes.items() if not known.acts and now - known.last > IDLE_LIMIT_S]

    def open(self) -> list[str]:
        """Episodes that have not ended."""
        return list(self._episodes)

    def _startable(self, now: float) -> Iterator[_Act[T]]:
        """The acts of which the first that finds a copy goes."""
        due = self.due()
        if due is not None and now >= due:
            yield from self._waiting if self._sticky else self._waiting[:1]

    def _copy_for(self, act: _Act[T]) -> int | None:
        known = None if act.episode is None else self._episodes.get(act.episode)
        if known is None:
            return next(iter(self._free))
        if self._sticky:
            known.copies = known.copies or [self._emptiest()]
            return known.copies[0] if known.copies[0] in self._free else None
        last = known.copies[-1] if known.copies else None
        return last if last in self._free else next(iter(self._free))

    def _emptiest(self) -> int:
        """The copy with the fewest episodes; of those a free one, the longest idle first."""
        held = [known.copies[0] for known in self._episodes.values() if known.copies]
        idle = list(self._free)
        up = [copy for copy in range(self._copies) if copy not in self._down]
        return min(up, key=lambda copy: (held.count(copy), idle.index(copy) if copy in self._free else len(idle)))

    def _begin(self, copy: int, first: _Act[T]) -> Turn[T]:
        acts = [first] if self._batching.most == 1 else self._waiting[: self._batching.most]
        gone = {id(act) for act in acts}
        self._waiting = [act for act in self._waiting if id(act) not in gone]
        del self._free[copy]
        self._running[copy] = acts
        for act in acts:
            if act.episode is not None:
                self._note(self._episodes.setdefault(act.episode, _Episode(act.at)), copy)
        return Turn(copy, [act.item for act in acts])

    @staticmethod
    def _note(known: _Episode, copy: int) -> None:
        if copy in known.copies:
            known.copies.remove(copy)
        known.copies.append(copy)
