"""The tiny protocol of a driver: one JSON command a line on standard input, one JSON answer a line on standard output.

The drivers run in environments of their own, so this file and its neighbours use nothing of this project.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(commands: dict[str, Callable[..., Any]]) -> None:
    """Answer `{"do": NAME, ...}` with `{"value": ...}` or `{"error": text}` until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else prints belongs into the log, not between the answers
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            told = {"value": commands[asked.pop("do")](**asked)}
        except Exception:  # noqa: BLE001  the asking side raises it, with this trace
            told = {"error": traceback.format_exc()}
        answers.write(json.dumps(told) + "\n")
