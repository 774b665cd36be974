"""panda-joints: what panda-tabletop shows, in the words a policy expects; actions go through unchanged."""

from __future__ import annotations

from typing import Any

import seq

CAMERAS = {"front": "front_image", "wrist": "wrist_image"}
STATE = ("cube_pos", "cube_quat", "block_pos", "block_quat", "goal_pos")


def _group(obs: dict[str, Any]) -> dict[str, Any]:
    """The keywords of `sequence_ai.observation`: frames by camera and poses by name, the rest as it is."""
    grouped = {key: value for key, value in obs.items() if key not in STATE and key not in CAMERAS.values()}
    grouped["images"] = {view: obs[key] for view, key in CAMERAS.items()}
    grouped["state"] = {name: [float(number) for number in obs[name]] for name in STATE}
    for vector in ("joints", "gripper"):
        grouped[vector] = [float(number) for number in obs[vector]]
    return grouped


@seq.adapter(name="panda-joints")
class PandaJoints(seq.Adapter):
    """Both cameras, joints, opening, poses and the instruction go to the policy; joint targets come back."""

    policy_io = "robot_arm"
    obs_transforms = [
        seq.tf.rename({"joint_positions": "joints"}),
        seq.tf.custom("group cameras and poses", _group, lossless=True),
    ]
    action_transforms = [seq.tf.identity()]
