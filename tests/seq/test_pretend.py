"""Pretend cards as an operator writes them."""

from __future__ import annotations

import pytest

from seq import _pretend
from sequence_ai import InvalidRequest


@pytest.mark.parametrize("words", [["L4:2,H100:16"], ["L4:2", "H100:16"], [" H100:16 , L4:2 "]])
def test_cards_are_named_once_each_in_one_text_or_many(words):
    """A comma list and a repeated flag are the same, and what is written is read back."""
    assert _pretend.parse(words) == {"L4": 2, "H100": 16}
    assert _pretend.parse([_pretend.written(_pretend.parse(words))]) == {"L4": 2, "H100": 16}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("L4:0", "'L4:0' is no card and a count"),
        ("L4:x", "'L4:x' is no card and a count"),
        ("L4:-1", "'L4:-1' is no card and a count"),
        ("L4:2.5", "'L4:2.5' is no card and a count"),
        ("L4:\u0662", "is no card and a count"),
        ("L4:10000", "1 to 9999"),
        ("L4", "'L4' is no card and a count"),
        (":2", "':2' is no card and a count"),
        ("", "'' is no card and a count"),
        ("L4:2,", "'' is no card and a count"),
        ("cpu:2", "a processor is no card"),
        ("L4:2,L4:3", "L4 is named twice"),
    ],
)
def test_what_is_no_card_and_count_is_refused(word, says):
    """The refusal quotes what was given and says what would be right."""
    with pytest.raises(InvalidRequest) as refused:
        _pretend.parse([word])
    assert says in refused.value.message
    assert refused.value.message.startswith("--pretend: ")
    assert refused.value.hint
