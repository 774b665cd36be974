"""panda-joints with every object pose zeroed before it is sent: what the robot sees and feels of itself stays."""

import seq

CAMERAS = {"front": "front_image", "wrist": "wrist_image"}
STATE = ("cube_pos", "cube_quat", "block_pos", "block_quat", "goal_pos")


def blind(obs):
    """The keywords of `sequence_ai.observation`, without knowledge of any object."""
    return {
        "images": {view: obs[key] for view, key in CAMERAS.items()},
        "joints": [float(number) for number in obs["joint_positions"]],
        "gripper": [float(number) for number in obs["gripper"]],
        "state": {name: [0.0] * len(obs[name]) for name in STATE},
        "instruction": obs["instruction"],
    }


@seq.adapter(name="panda-blind")
class PandaBlind(seq.Adapter):
    """Poses become zeros."""

    obs_transforms = [seq.tf.custom("blind", blind, lossy="object poses are zeroed")]
    action_transforms = [seq.tf.identity()]
