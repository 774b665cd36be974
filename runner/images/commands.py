"""Running one command of a build: its output line by line, its end with the platform's, its failure as a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from runner.images import leash
from runner.images.errors import BuildError

Log = Callable[[str], None]

STEP_LIMIT_S = 3600.0
_TAIL = 60
_GLYPHS = "×╰─▶│├┬╭ \t"  # noqa: RUF001 - the marks uv draws its explanations with
_INHERITED = ("UV_", "PIP_", "SSL_", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_NEVER = ("UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")


def build_env(root: Path, tools: Path, variables: dict[str, str], system_path: str) -> dict[str, str]:
    """What a build step sees: the environment as the active one, and where packages come from; no variable beyond."""
    given = {key: value for key, value in os.environ.items() if _is_inherited(key)}
    real_home = Path.home()
    return {
        **given,
        "XDG_CACHE_HOME": given.get("XDG_CACHE_HOME", str(real_home / ".cache")),
        "XDG_CONFIG_HOME": given.get("XDG_CONFIG_HOME", str(real_home / ".config")),
        "LANG": "C.UTF-8",
        "HOME": str(root / "home"),
        **variables,
        "PATH": f"{root / 'bin'}:{tools}:{system_path}",
        "VIRTUAL_ENV": str(root),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_COMPILE_BYTECODE": "1",  # users' processes write none, and would compile all they import at every start
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _is_inherited(key: str) -> bool:
    return key.upper() in _PROXIES or (key.startswith(_INHERITED) and key not in _NEVER)


def run(
    argv: list[str], *, label: str, env: dict[str, str], cwd: Path, log: Log, limit_s: float = STEP_LIMIT_S
) -> None:
    """Run a command to its end; raises BuildError naming `label` when it fails or takes longer than `limit_s`."""
    log(f"$ {label}")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", leash.__file__, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=env,
        cwd=cwd,
    )
    assert process.stdin is not None  # noqa: S101 - by the arguments above
    stdin, late = process.stdin, threading.Event()

    def give_up() -> None:
        late.set()
        stdin.close()

    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        tail = _follow(process, log)
        status = process.wait()
    finally:
        timer.cancel()
        stdin.close()
        process.wait()
    if late.is_set():
        raise BuildError(f"the image step `{label}` took longer than {limit_s:g} s and was ended")
    if status != 0:
        raise BuildError(f"the image step `{label}` failed (exit {status}): {summary(tail)}")


def _follow(process: subprocess.Popen[str], log: Log) -> list[str]:
    tail: deque[str] = deque(maxlen=_TAIL)
    with process.stdout as output:  # type: ignore[union-attr]
        for line in output:
            tail.append(line.rstrip())
            log(tail[-1])
    return list(tail)


def summary(tail: list[str]) -> str:
    """What a failed command said, in a line: from its last word "error" (or uv's mark) on, else its last line."""
    lines = [line for line in tail if line.strip(_GLYPHS)]
    starts = [n for n, line in enumerate(lines) if line.strip().lower().startswith(("error", "×", "fatal"))]  # noqa: RUF001
    said = lines[starts[-1] :] if starts else lines[-1:]
    return " ".join(line.strip(_GLYPHS) for line in said)[:600] or "it printed nothing"
