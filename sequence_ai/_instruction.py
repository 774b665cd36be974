"""The sentence that every observation is given, whatever it says itself."""

from __future__ import annotations

from typing import NamedTuple

from sequence_ai._clock import Clock


class Sentence(NamedTuple):
    """A sentence and when it was set, in the clock's seconds. `number` tells it from those before."""

    text: str | None
    number: int
    set_at: float


class Instruction:
    """Set from any thread, read by the one that drives; a new value replaces the old in one step."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now = Sentence(None, 0, 0.0)
        self._asked = 0

    @property
    def now(self) -> Sentence:
        """The sentence of the next request; its text is None when observations speak for themselves."""
        return self._now

    def set(self, text: str | None) -> None:
        """Use `text` from the next request on; the same text again changes nothing."""
        if text != self._now.text:
            self._now = Sentence(text, self._now.number + 1, self._clock.monotonic())

    def take(self) -> tuple[str | None, float | None]:
        """The sentence for a request, and when it was set if no request had it before. Driving thread only."""
        sentence = self._now
        if sentence.text is None or sentence.number == self._asked:
            return sentence.text, None
        self._asked = sentence.number
        return sentence.text, sentence.set_at
