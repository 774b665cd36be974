"""A film of a run, drawn afterwards from the robot's log: drawing it live would have stolen time from physics.

`python film.py panda.jsonl panda.mp4`
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cameras import picture, pose
from journal import Log, read_log
from scene import BENCHMARK, Scene

FPS = 20
SIZE = 448
COLOURS = {"holding": (120, 120, 120), "moving": (40, 160, 70), "watchdog": (230, 150, 0), "estop": (210, 30, 30)}
BAR = 24


def shoot(log: Log, path: Path, *, benchmark: Path = BENCHMARK) -> None:
    """Write an mp4 (H.264) of the front camera, with the robot's mode and the time in a bar below.

    Raises RuntimeError with the encoder's words when it fails.
    """
    scene = Scene(benchmark)  # first: it chooses how mujoco draws, which is read when that is imported
    import imageio_ffmpeg  # noqa: PLC0415 - only whoever films needs it
    import mujoco  # noqa: PLC0415 - the same

    data = mujoco.MjData(scene.model)
    renderer = mujoco.Renderer(scene.model, SIZE, SIZE)
    size = f"{SIZE}x{SIZE + BAR}"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(FPS), "-i", "-"]
    target = ["-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p", str(path)]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *target]
    encoder = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert encoder.stdin is not None  # noqa: S101 - a pipe was asked for
    try:
        for state in _at_even_times(log.states):
            pose(scene.model, data, state["qpos"], state["mocap"])
            frame = picture(renderer, data, "front")
            encoder.stdin.write(np.vstack([frame, _bar(state, log.states[0]["at"])]).tobytes())
    except BrokenPipeError:
        pass  # the encoder gave up: what it said is raised below
    finally:
        renderer.close()
        said = encoder.communicate()[1].decode(errors="replace").strip()
    if encoder.returncode != 0:
        raise RuntimeError(f"the film could not be written: {said}")


def _at_even_times(states: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The state that held at each frame's moment."""
    due = states[0]["at"]
    for state in states:
        while state["at"] >= due:
            yield state
            due += 1 / FPS


def _bar(state: dict[str, Any], began: float) -> np.ndarray:
    from PIL import Image, ImageDraw  # noqa: PLC0415 - only whoever films needs it

    bar = Image.new("RGB", (SIZE, BAR), COLOURS[state["mode"]])
    ImageDraw.Draw(bar).text((8, 6), f"{state['at'] - began:6.2f} s   {state['mode']}", fill="white")
    return np.asarray(bar)


if __name__ == "__main__":
    shoot(read_log(Path(sys.argv[1])), Path(sys.argv[2]))
