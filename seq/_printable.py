"""Text that others wrote (task names, errors), made safe to stand in XML, HTML, a picture or on a terminal."""

from __future__ import annotations

import re

# XML 1.0, section 2.2: a document holds tab, line feed, carriage return and these ranges, and nothing else. C1 controls
# are legal there, yet HTML and terminals give them meanings of their own.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def printable(text: str) -> str:
    """The text with every other character written as its escape (`\\x1b`): nothing is lost, and nothing acts."""
    return _UNPRINTABLE.sub(lambda found: ascii(found.group())[1:-1], text)


def one_line(text: str) -> str:
    """The same on one line."""
    return printable(" ".join(text.split()))
