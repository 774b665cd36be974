"""Cards that a machine does not have, declared to try layouts: `L4:2,H100:16`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sequence_ai import InvalidRequest

_CARD = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*):([1-9][0-9]{0,3})")


def parse(texts: Iterable[str]) -> dict[str, int]:
    """Cards by name, from texts that each hold one or more separated by commas. Raises InvalidRequest.

    Whether there is a card of that name is the platform's to say.
    """
    cards: dict[str, int] = {}
    for word in (word.strip() for text in texts for word in text.split(",")):
        found = _CARD.fullmatch(word)
        if found is None:
            raise _refused(
                f"{word!r} is no card and a count of 1 to 9999", "write CARD:N, such as L4:2 or L4:2,H100:16"
            )
        name, count = found.groups()
        if name == "cpu":
            raise _refused("a processor is no card: every machine has one", 'leave it out; gpu="cpu" runs everywhere')
        if name in cards:
            raise _refused(f"{name} is named twice", f"write {name} once, with all there are to be")
        cards[name] = int(count)
    return cards


def written(cards: Mapping[str, int]) -> str:
    """What `parse` reads back."""
    return ",".join(f"{name}:{count}" for name, count in sorted(cards.items()))


def told(cards: Mapping[str, int]) -> str:
    """The cards for a person."""
    there = ", ".join(f"{count} x {name}" for name, count in sorted(cards.items()))
    return f"the pretend cards {there}" if there else "no pretend cards"


def _refused(sentence: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"--pretend: {sentence}", code="invalid_request", hint=hint)
