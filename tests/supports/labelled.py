"""A policy whose rows say where they come from, so that a robot's log shows what was played; it goes wrong on demand.

A row is (process, request, row, look, episode, ended, last): the worker's process id, the number of the inference in
that process, the row's number in its chunk, the observation's joint (a FakeRobot's look), checksums of the episode and
of the one that ended last (0: none), and how many ended.
"""

import math
import os
import time
import zlib

import seq
from seq.presets.robot_arm import Observation

ACTION = seq.ActionContract(robot="labels", action_space="joint_absolute", action_dim=7, control_frequency_hz=20)
OBSERVATION = seq.ObservationContract(
    cameras={"front": seq.Camera(width=8, height=8)}, proprio={"joint_positions": 1}, instruction=True
)


@seq.policy(
    name="labelled",
    gpu="cpu",
    action=ACTION,
    observation=OBSERVATION,
    timeouts=seq.Timeouts(request=3),
    min_workers=1,
)
@seq.concurrent(target_inputs=32)
class Labelled(seq.Policy):
    """Counts."""

    def __init__(self):
        self.requests = 0
        self.ended = 0
        self.last = 0.0

    @seq.infer
    def infer(
        self,
        obs: Observation,
        *,
        episode_id=None,
        rows: int = 10,
        horizon: int = 0,
        sleep_s: float = 0.0,
        sleep_at: int = 0,
        fault: str = "",
        at: int = 0,
    ):
        """`rows` labels, after `sleep_s` (in request `sleep_at` of the process alone, where it is set).

        `fault` is nan, short, text, empty or raise; in the chunk whose look is at least `at`.
        """
        self.requests += 1
        look = float(obs.proprioception.joint_positions[0])
        if sleep_s and (not sleep_at or sleep_at <= look < sleep_at + 1):
            time.sleep(sleep_s)
        steps = [self._label(row, look, episode_id) for row in range(rows)]
        if fault and look >= at:
            steps = _spoilt(steps, fault)
        return steps if not horizon else {"steps": steps, "open_loop_horizon": horizon}

    def _label(self, row, look, episode_id):
        seen = (float(row), look, checksum(episode_id))
        return [float(os.getpid()), float(self.requests), *seen, float(self.ended), self.last]

    @seq.on_episode
    def on_episode(self, episode_id):
        """Remember that it ended."""
        self.ended += 1
        self.last = checksum(episode_id)


def checksum(text):
    """A number for a name, small enough to be exact in a row; 0 for none."""
    return float(zlib.crc32(text.encode()) % (1 << 24)) if text else 0.0


def _spoilt(steps, fault):
    if fault == "raise":
        raise ValueError("the gripper model is gone")
    if fault == "nan":
        steps[-1][-1] = math.nan
    elif fault == "short":
        steps[-1] = steps[-1][:-1]
    elif fault == "text":
        steps[-1][-1] = "0.5"
    elif fault == "empty":
        steps = []
    return steps
