"""Runs a command that ends with whoever started it: `python -m runner.images.leash COMMAND...`.

Its standard input is the leash. At end of file, which also a killed platform causes, the command's whole process group
is killed, so that no build outlives the platform.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """The command's exit status; 128 plus the signal that ended it."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_hold, args=(child,), daemon=True).start()
    status = child.wait()
    return status if status >= 0 else 128 - status


def _hold(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):
        pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
