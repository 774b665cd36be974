"""The transforms, as an author writes them: `seq.tf.rename({...})`. Each also goes by a class-like name."""

from __future__ import annotations

from seq.transforms import Transform, action_project, custom, downcast, drop, identity, rename, reshape, resize

ActionProject = action_project
Custom = custom
Downcast = downcast
DropChannel = drop
Identity = identity
Rename = rename
Reshape = reshape
Resize = resize

__all__ = [
    "ActionProject",
    "Custom",
    "Downcast",
    "DropChannel",
    "Identity",
    "Rename",
    "Reshape",
    "Resize",
    "Transform",
    "action_project",
    "custom",
    "downcast",
    "drop",
    "identity",
    "rename",
    "reshape",
    "resize",
]
