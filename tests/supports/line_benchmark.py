"""A user-style benchmark on a line, single and batched, whose right results can be written down before a run."""

import seq

CONTRACT = {"robot": "dot", "action_space": "ee_delta", "action_dim": 1, "control_frequency_hz": 10}


class Dot:
    """A point that moves by what it is told; it must come to its goal."""

    def __init__(self, seed, task):
        self.x = 0.0
        self.goal = float(seed + 1)
        self.task = task
        self.closed = False

    def observe(self):
        """Where it is and where it should be."""
        return {"x": self.x, "goal": self.goal}

    def step(self, action):
        """Move, or fail as the task says."""
        if self.task == "raises":
            raise RuntimeError("the motor is stuck")
        self.x += float(action[0])

    def close(self):
        """Remember that the episode ended."""
        self.closed = True


@seq.benchmark(
    name="line",
    gpu="cpu",
    cpu=1,
    conditions=seq.conditions(tasks=["go", "raises"], seeds=range(4)),
    action_contract=CONTRACT,
    max_steps=8,
)
class Line(seq.Benchmark):
    """One dot."""

    @seq.reset
    def reset(self, seed, variant):
        """A new dot."""
        self.dot = Dot(seed, variant.task)
        return self.dot

    @seq.check
    def check(self, env):
        """Arrived or not."""
        return seq.Step(done=env.x >= env.goal, metrics={"success": float(env.x >= env.goal), "x": env.x})


@seq.benchmark(
    name="lines",
    gpu="cpu",
    cpu=1,
    envs=4,
    conditions=seq.conditions(tasks=["go"], seeds=range(4)),
    action_contract=CONTRACT,
    max_steps=8,
)
class Lines(seq.Benchmark):
    """Several dots stepped in one call."""

    @seq.setup
    def setup(self, envs):
        """Room for every slot."""
        self.dots = [None] * envs
        self.calls = []

    @seq.reset
    def reset(self, slots, conditions):
        """New dots in these slots."""
        for slot, condition in zip(slots, conditions, strict=True):
            self.dots[slot] = Dot(condition.seed, condition.task)

    @seq.observation
    def observation(self, slots):
        """One each."""
        return [self.dots[slot].observe() for slot in slots]

    @seq.step
    def step(self, slots, actions):
        """All at once."""
        self.calls.append(list(slots))
        for slot, action in zip(slots, actions, strict=True):
            self.dots[slot].step(action)

    @seq.check
    def check(self, slots):
        """One each."""
        return [
            seq.Step(
                done=self.dots[s].x >= self.dots[s].goal,
                metrics={"success": float(self.dots[s].x >= self.dots[s].goal)},
            )
            for s in slots
        ]
