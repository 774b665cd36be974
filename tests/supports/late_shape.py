"""An adapter that gives rows of another length from the fortieth step on."""

import seq

SEEN = {"steps": 0}


def look(obs):
    """Remember how far it is."""
    SEEN["steps"] = obs["steps"]
    return obs


def rows(value):
    """One number too many, late."""
    return [[*row, 0.0] if SEEN["steps"] >= 40 else row for row in value]


@seq.adapter(name="late-shape")
class LateShape(seq.Adapter):
    """Wrong at step 40."""

    policy_io = "own"
    obs_transforms = [seq.tf.custom("look", look, lossless=True)]
    action_transforms = [seq.tf.custom("rows", rows, lossless=True)]
