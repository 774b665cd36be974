"""A policy that climbs from where the robot is, faster than its limits allow; `kind` asks for its bad sides."""

import seq
from seq.presets.robot_arm import Observation

ACTION = seq.ActionContract(
    robot="ramp_arm",
    action_space="joint_absolute",
    action_dim=2,
    control_frequency_hz=20,
    bounds=[(-1.0, 1.0), (-1.0, 1.0)],
    max_delta=0.2,
)
OBSERVATION = seq.ObservationContract(
    cameras={"front": seq.Camera(width=8, height=8)}, proprio={"joint_positions": 2}, instruction=True
)


@seq.policy(name="ramp", gpu="cpu", action=ACTION, observation=OBSERVATION, min_workers=1)
@seq.concurrent(target_inputs=8)
class Ramp(seq.Policy):
    """Five rows a chunk, of which four are to be played."""

    @seq.infer
    def infer(self, obs: Observation, *, kind: str = "climb"):
        """`kind` is climb or raise."""
        if kind == "raise":
            raise ValueError("asked to")
        start = list(obs.proprioception.joint_positions)
        steps = [[joint + 0.1 * (row + 1) for joint in start] for row in range(5)]
        return {"steps": steps, "open_loop_horizon": 4}
