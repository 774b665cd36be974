"""A user's exception, told in the user's own terms. Pure."""

from __future__ import annotations

import traceback
from pathlib import Path


def sentence(error: BaseException) -> str:
    """`ValueError: the text` in one line."""
    text = " ".join(message(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def message(error: BaseException) -> str:
    """The exception's own text; what failed instead where a `__str__` of the user's own does."""
    try:
        return readable(str(error))
    except BaseException as failed:  # noqa: BLE001  whatever it is, the first one is what must be told
        return f"(its text cannot be had: __str__ raised {type(failed).__name__})"


def frames(error: BaseException, code_dir: str) -> str:
    """The traceback with only the frames of files below `code_dir`, their paths relative to it."""
    told = traceback.TracebackException.from_exception(error)
    seen: set[int] = set()
    waiting: list[traceback.TracebackException | None] = [told]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        users = [_relative(frame, code_dir) for frame in link.stack if _inside(frame, code_dir)]
        link.stack = traceback.StackSummary.from_list(users)
        if isinstance(getattr(link, "filename", None), str):  # a SyntaxError's own file
            link.filename = link.filename.removeprefix(f"{code_dir}/")
        waiting += [link.__cause__, link.__context__]
    return readable("".join(told.format()))


def readable(text: str) -> str:
    """Text that can be sent and kept: what is no Unicode (half a surrogate pair, as odd file names have) is escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _inside(frame: traceback.FrameSummary, code_dir: str) -> bool:
    return Path(frame.filename).is_relative_to(code_dir)


def _relative(frame: traceback.FrameSummary, code_dir: str) -> traceback.FrameSummary:
    name = str(Path(frame.filename).relative_to(code_dir))
    return traceback.FrameSummary(name, frame.lineno, frame.name, line=frame.line)
