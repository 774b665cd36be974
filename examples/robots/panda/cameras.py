"""Two cameras in a process of their own: drawing in software takes tens of milliseconds, too long for physics."""

from __future__ import annotations

import base64
import io
import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mujoco
    import numpy as np

VIEWS = ("front", "wrist")
_NICE = 5  # behind physics and the control loop when cores are short


@dataclass(frozen=True)
class Shot:
    """One JPEG (base64 text) of each view, and the moment they show."""

    at: float
    frames: dict[str, str]


class Cameras:
    """Draws the newest state it was given, `hz` times a second at most, one request under way at a time."""

    def __init__(self, model: mujoco.MjModel, *, size: int, hz: float) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would carry the sockets and the GL context along
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_draw, args=(far, model, size), daemon=True, name="cameras")
        self._process.start()
        far.close()
        self._every_s = 1 / hz
        self._asked_at = -float("inf")
        self._busy = False
        self.newest: Shot | None = None

    def fileno(self) -> int:
        """What turns readable when a shot is there: for a selector."""
        return self._pipe.fileno()

    def offer(self, at: float, qpos: np.ndarray, mocap: np.ndarray) -> None:
        """Let this state be drawn if the last shot is done and a new one is due; never waits."""
        if self._busy or at - self._asked_at < self._every_s:
            return
        self._pipe.send((at, qpos.tolist(), mocap.tolist()))
        self._busy, self._asked_at = True, at

    def warm_up(self, qpos: np.ndarray, mocap: np.ndarray) -> None:
        """Wait for a first shot: making the process and its GL context takes seconds, once."""
        self.offer(0.0, qpos, mocap)
        self.collect()

    def collect(self) -> None:
        """Take the shot that came; raises EOFError when the process has ended."""
        self.newest = self._pipe.recv()
        self._busy = False

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _draw(pipe: Connection, model: mujoco.MjModel, size: int) -> None:
    import mujoco  # noqa: PLC0415 - only this process needs GL

    os.nice(_NICE)
    data = mujoco.MjData(model)
    renderer = mujoco.Renderer(model, size, size)
    try:
        while True:
            at, qpos, mocap = pipe.recv()
            pose(model, data, qpos, mocap)
            pipe.send(Shot(at, {view: jpeg(picture(renderer, data, view)) for view in VIEWS}))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        renderer.close()


def pose(model: mujoco.MjModel, data: mujoco.MjData, qpos: list[float], mocap: Any) -> None:
    """Put everything where a logged state says it was."""
    import mujoco  # noqa: PLC0415 - as above

    data.qpos[:] = qpos
    data.mocap_pos[:] = mocap
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)


def picture(renderer: mujoco.Renderer, data: mujoco.MjData, view: str) -> np.ndarray:
    """What a camera sees, (size, size, 3) uint8 RGB."""
    renderer.update_scene(data, camera=view)
    frame: np.ndarray = renderer.render()
    return frame


def jpeg(frame: np.ndarray) -> str:
    """The frame as base64 text, at the quality a policy should get."""
    from PIL import Image  # noqa: PLC0415 - as above

    kept = io.BytesIO()
    Image.fromarray(frame).save(kept, "JPEG", quality=95)
    return base64.b64encode(kept.getvalue()).decode("ascii")
