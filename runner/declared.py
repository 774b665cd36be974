"""What is declared when a platform starts, checked, or else taken from the start before."""

from __future__ import annotations

from pathlib import Path

from runner import record
from runner.errors import EXIT_CONFLICT, EXIT_USAGE, StartError
from runner.pricing import CARDS
from runner.settings import Settings
from seq import _pretend
from sequence_ai import InvalidRequest


def pretend_cards(words: list[str] | None, home: Path) -> dict[str, int]:
    """The pretend cards declared now; a platform that was killed goes on with those it had, and with no others."""
    before = record.previous(home)
    had = dict(before.get("pretend") or {})
    if words is None:
        return had
    try:
        asked = _pretend.parse(words)
    except InvalidRequest as wrong:
        raise StartError(str(wrong), EXIT_USAGE) from None
    known = sorted(card.gpu for card in CARDS)
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise StartError(f"--pretend: no card is called {unknown[0]!r}; there are: {', '.join(known)}", EXIT_USAGE)
    if before.get("pid") is not None and asked != had:
        raise StartError(
            f"the platform of {home} was killed, and what it started with {_pretend.told(had)} may still run; "
            "`seq down` ends it, then start with other cards",
            EXIT_CONFLICT,
        )
    return asked


def gpus_per_account(asked: int | None, home: Path) -> int:
    """The limit declared now, else the one used before."""
    if asked is None:
        return int(record.previous(home).get("gpus_per_account") or Settings.gpus_per_account)
    if asked < 1:
        raise StartError(f"--gpus-per-account {asked}: an account holds at least 1 card", EXIT_USAGE)
    return asked
