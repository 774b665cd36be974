"""The three toys fit together: the policy solves the benchmark through the adapter."""

import seq
from seq.benchmark import declaration_of


def test_the_toy_policy_solves_every_episode_through_the_adapter(toy):
    """Observation, adapter, infer, adapter, steps, check, as an eval does it."""
    benchmark, policy, adapter = toy["benchmark"](), toy["policy"](), toy["adapter"]()
    declared = declaration_of(toy["benchmark"])
    benchmark.setup()
    for condition in declared.conditions:
        env = benchmark.reset(condition.seed, condition)
        verdict, steps = seq.Step(done=False), 0
        while not verdict.done and steps < declared.max_steps:
            for row in adapter.action(policy.infer(adapter.obs(env.observe()))):
                env.step(row)
                verdict, steps = benchmark.check(env), steps + 1
                if verdict.done:
                    break
        assert verdict.metrics["success"] == 1.0, condition
