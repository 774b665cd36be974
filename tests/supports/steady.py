"""A benchmark with a metric that never varies, and a policy that solves it; accepted by the published SDK too."""

import seq

ACTION = seq.ActionContract(robot="dot", action_space="ee_delta", action_dim=1, control_frequency_hz=10)


class Dot:
    """A point on a line."""

    x = 0.0

    def observe(self):
        """Where it is."""
        return {"x": self.x}

    def step(self, action):
        """Move."""
        self.x += float(action[0])


@seq.benchmark(
    name="steady", gpu="cpu", cpu=1, conditions=seq.conditions(["go"], range(3)), max_steps=5, action_contract=ACTION
)
class Steady(seq.Benchmark):
    """Go to 3."""

    @seq.reset
    def reset(self, seed, variant):
        """At 0."""
        return Dot()

    @seq.check
    def check(self, env):
        """Arrived or not, and a number that is always the same."""
        return seq.Step(done=env.x >= 3, metrics={"success": float(env.x >= 3), "metres_a_step": 1.0})


@seq.policy(name="steady-policy", gpu="cpu", action=ACTION)
class SteadyPolicy(seq.Policy):
    """One metre a step."""

    @seq.infer
    def infer(self, obs, *, seed=None):
        """Onwards."""
        return [[1.0]]
