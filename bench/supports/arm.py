"""A seven-joint arm in MuJoCo without assets, as a benchmark whose episodes only end at their cap."""

import mujoco

import seq

JOINTS = 7
SUBSTEPS = 10
LINK = (
    '<body pos="0 0 .15"><joint axis="{axis}"/><geom type="capsule" size=".03" fromto="0 0 0 0 0 .15"/>{inner}</body>'
)


def load():
    """The compiled model, one position servo a joint."""
    inner = ""
    for joint in range(JOINTS):
        inner = LINK.format(axis="0 1 0" if joint % 2 else "0 0 1", inner=inner)
    model = mujoco.MjSpec.from_string(f"<mujoco><worldbody>{inner}</worldbody></mujoco>")
    for number, joint in enumerate(model.joints):
        joint.name = f"j{number}"
        model.add_actuator(target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT, gainprm=[50] + [0] * 9)
    return model.compile()


class Arm:
    """One arm."""

    def __init__(self, model):
        self.model, self.data = model, mujoco.MjData(model)

    def observe(self):
        """Joint positions in rad."""
        return {"joints": self.data.qpos.copy()}

    def step(self, action):
        """One control period."""
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, nstep=SUBSTEPS)


CONTRACT = {"robot": "arm", "action_space": "joint_absolute", "action_dim": JOINTS, "control_frequency_hz": 50}


@seq.benchmark(gpu="cpu", cpu=1, conditions=seq.conditions(["hold"], [0]), max_steps=400, action_contract=CONTRACT)
class ArmBench(seq.Benchmark):
    """Never done."""

    @seq.setup
    def setup(self):
        """Compile once."""
        self.model = load()

    @seq.reset
    def reset(self, seed, variant):
        """A fresh arm."""
        return Arm(self.model)

    @seq.check
    def check(self, env):
        """Not done."""
        return seq.Step(done=False, metrics={"success": 0.0})
