"""What a policy and a benchmark declare about the robot between them."""

from __future__ import annotations

from seq.contract.robot import ActionContract, ActionSpace, Camera, Embodiment, ObservationContract

__all__ = ["ActionContract", "ActionSpace", "Camera", "Embodiment", "ObservationContract"]
