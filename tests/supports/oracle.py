"""Benchmarks whose right results can be written down before a run: lengths and outcomes are scripted, actions ignored.

`oracle` and its batched twin `oracles`: the episode of task T and seed S lasts `length(T, S)` steps and succeeds where
`succeeds(T, S)`. Its metric `start` is a hash of everything that was drawn at reset, so that one can see which starts
were really used; `acts` is what the policy's rows add up to, which holds the seeds of its acts.
"""

import hashlib

import seq

ACTION = seq.ActionContract(robot="oracle", action_space="ee_delta", action_dim=1, control_frequency_hz=10)
TASKS, SEEDS = ("easy", "hard", "flaky"), range(6)
SHARE = {"easy": 0.9, "hard": 0.1, "flaky": 0.5}


def drawn(task, seed, what):
    """A number in [0, 1) for a start."""
    digest = hashlib.sha256(f"{task} {seed} {what}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def length(task, seed):
    """Steps of an episode."""
    return 1 + int(9 * drawn(task, seed, "length"))


def succeeds(task, seed):
    """Its scripted outcome."""
    return drawn(task, seed, "outcome") < SHARE[task]


class Run:
    """One episode."""

    def __init__(self, condition):
        self.task, self.seed = condition.task, condition.seed
        self.start = drawn(self.task, self.seed, "start")
        self.steps = 0
        self.acts = 0.0

    def observe(self):
        """What the policy sees."""
        return {"start": self.start, "steps": self.steps}

    def step(self, action):
        """One step; the action changes nothing but the sum."""
        self.steps += 1
        self.acts += float(action[0])

    def verdict(self):
        """What `check` says of it."""
        done = self.steps >= length(self.task, self.seed)
        success = done and succeeds(self.task, self.seed)
        return seq.Step(done=done, metrics={"success": float(success), "start": self.start, "acts": self.acts})


CONDITIONS = seq.conditions(list(TASKS), SEEDS, suite_of={"easy": "plain", "hard": "plain"})


@seq.benchmark(name="oracle", gpu="cpu", cpu=2, conditions=CONDITIONS, action_contract=ACTION, max_steps=20)
class Oracle(seq.Benchmark):
    """One at a time."""

    @seq.reset
    def reset(self, seed, variant):
        """A start."""
        return Run(variant)

    @seq.check
    def check(self, env):
        """Its verdict."""
        return env.verdict()


@seq.benchmark(name="oracles", gpu="cpu", cpu=2, envs=4, conditions=CONDITIONS, action_contract=ACTION, max_steps=20)
class Oracles(seq.Benchmark):
    """Many at once."""

    @seq.setup
    def setup(self, envs):
        """Room for every slot."""
        self.runs = [None] * envs

    @seq.reset
    def reset(self, slots, conditions):
        """Starts."""
        for slot, condition in zip(slots, conditions, strict=True):
            self.runs[slot] = Run(condition)

    @seq.observation
    def observation(self, slots):
        """One each."""
        return [self.runs[slot].observe() for slot in slots]

    @seq.step
    def step(self, slots, actions):
        """All in one call."""
        for slot, action in zip(slots, actions, strict=True):
            self.runs[slot].step(action)

    @seq.check
    def check(self, slots):
        """One each."""
        return [self.runs[slot].verdict() for slot in slots]


@seq.benchmark(name="graded", gpu="cpu", cpu=2, conditions=CONDITIONS, action_contract=ACTION, max_steps=20)
class Graded(seq.Benchmark):
    """Scores itself: a grade for each group; the mean of `success` is replaced by its percentage; one task raises."""

    @seq.setup
    def setup(self, *, scale: float = 100.0, strict: bool = False):
        """Parameters of the benchmark."""
        self.scale, self.strict = scale, strict

    @seq.reset
    def reset(self, seed, variant):
        """A start."""
        return Run(variant)

    @seq.check
    def check(self, env):
        """Its verdict."""
        return env.verdict()

    @seq.score
    def score(self, results):
        """A percentage, and how many there were."""
        if {result.task for result in results} == {"flaky"}:
            raise ValueError("flaky is not graded")
        share = sum(result.metrics["success"] for result in results) / len(results)
        return {"success": self.scale * share, "episodes": len(results)}


@seq.policy(name="echo", gpu="cpu", action=ACTION)
@seq.concurrent(replicas_per_gpu=2)
class Echo(seq.Policy):
    """Rows drawn from the act's seed: the same act gives the same rows wherever and whenever it runs."""

    @seq.infer
    def infer(self, obs, *, seed=None, rows: int = 3, gain: float = 1.0):
        """`rows` rows."""
        return [[gain * drawn(seed, row, "row")] for row in range(rows)]


@seq.policy(name="echo-batched", gpu="cpu", action=ACTION)
class EchoBatched(seq.Policy):
    """The same, several acts in one call."""

    @seq.batched(max_batch_size=8)
    @seq.infer
    def infer(self, obs, *, seed=None):
        """A list of rows for each act."""
        return [[[drawn(one, row, "row")] for row in range(3)] for one in seed]


@seq.policy(name="echo-streaming", gpu="cpu", action=ACTION, streaming=True)
@seq.concurrent(replicas_per_gpu=2)
class EchoStreaming(seq.Policy):
    """Remembers each episode: its rows say how many acts it had, so that state mixed up or lost is seen."""

    def __init__(self):
        self.acts = {}

    @seq.infer
    def infer(self, obs, *, seed=None, episode_id=None):
        """The number of the act."""
        self.acts[episode_id] = self.acts.get(episode_id, 0) + 1
        return [[float(self.acts[episode_id])]]

    @seq.on_episode
    def on_episode(self, episode_id):
        """Forget it."""
        self.acts.pop(episode_id, None)
