"""A camera whose frames say what they show, and a policy that acts on nothing else.

A frame is two rows of black and white blocks: sixteen bits of the episode's seed, and of the step. The policy reads
them off the JPEG it is sent and answers with what it read, so a stale frame, or one of another episode, is seen.
"""

import seq
from seq.presets.robot_arm import Observation

BITS, BLOCK = 16, 16
ACTION = seq.ActionContract(robot="marked", action_space="ee_delta", action_dim=2, control_frequency_hz=10)
OBSERVATION = seq.ObservationContract(
    cameras={"marker": seq.Camera(width=BITS * BLOCK, height=2 * BLOCK)}, proprio={"joint_positions": 1}
)


def drawn(seed, step):
    """The frame of a step, (32, 256, 3) uint8."""
    import numpy as np  # noqa: PLC0415  the machine that deploys this may have none

    rows = [[(value >> bit) & 1 for bit in range(BITS)] for value in (seed, step)]
    cells = np.asarray(rows, dtype=np.uint8) * 255
    return np.repeat(np.repeat(cells, BLOCK, axis=0), BLOCK, axis=1)[:, :, None].repeat(3, axis=2)


def read(pixels):
    """Seed and step of a frame."""
    middle = pixels[BLOCK // 2 :: BLOCK, BLOCK // 2 :: BLOCK, 0] > 127
    return [sum(int(bit) << place for place, bit in enumerate(row)) for row in middle]


class Marked:
    """Counts how often it was acted on what it showed."""

    def __init__(self, seed):
        self.seed = seed
        self.steps = self.asked_at = self.right = 0

    def observe(self):
        """The frame of now."""
        self.asked_at = self.steps
        return {"images": {"marker": drawn(self.seed, self.steps)}, "joints": [0.0], "instruction": "read"}

    def step(self, action):
        """Whether the policy read the seed and the step of the frame it was sent."""
        self.right += [float(value) for value in action] == [float(self.seed), float(self.asked_at)]
        self.steps += 1


@seq.benchmark(
    name="marked",
    gpu="cpu",
    cpu=2,
    image=seq.Image.debian_slim(),
    conditions=seq.conditions(["read"], range(100, 112)),
    action_contract=ACTION,
    max_steps=20,
)
class MarkedBench(seq.Benchmark):
    """Eight to eleven steps, every one of them on the frame of its own episode."""

    @seq.reset
    def reset(self, seed, variant):
        """A new episode."""
        return Marked(seed)

    @seq.check
    def check(self, env):
        """Right in every step or not."""
        done = env.steps >= 8 + env.seed % 4
        return seq.Step(done=done, metrics={"success": float(env.right == env.steps), "right": float(env.right)})


@seq.policy(name="reader", gpu="cpu", action=ACTION, observation=OBSERVATION, image=seq.Image.debian_slim())
@seq.concurrent(replicas_per_gpu=2)
class Reader(seq.Policy):
    """Answers what it read, for two steps."""

    @seq.infer
    def infer(self, obs: Observation, *, seed=None):
        """Seed and step, twice."""
        seen = read(obs.images[0].array())
        return [[float(value) for value in seen]] * 2
