"""What the client's subjects drive: a policy that thinks for as long as it is told and answers with 16 zero rows.

It takes the robot-arm observation and asks for each frame's encoded bytes, as every policy that looks at one does.
"""

import time

import seq
from seq.presets.robot_arm import Observation

ROWS, JOINTS, HZ = 16, 7, 50
CONTRACT = seq.ActionContract(
    robot="arm",
    action_space="joint_absolute",
    action_dim=JOINTS,
    control_frequency_hz=HZ,
    bounds=[(-3.2, 3.2)] * JOINTS,
)
OBSERVATION = seq.ObservationContract(
    cameras={view: seq.Camera(width=640, height=480) for view in ("front", "wrist")},
    proprio={"joint_positions": JOINTS, "gripper": 1},
)


@seq.policy(name="bench", gpu="cpu", action=CONTRACT, observation=OBSERVATION)
class Still(seq.Policy):
    """Holds still."""

    @seq.load
    def load(self, weights_dir):
        """One chunk for all."""
        self.rows = [[0.0] * JOINTS for _ in range(ROWS)]

    @seq.infer
    def infer(self, obs: Observation, *, wait_s: float = 0.0):
        """Zeros, after `wait_s`."""
        for frame in obs.images:
            _ = frame.bytes
        if wait_s:
            time.sleep(wait_s)
        return self.rows
