"""Typed use of the public names: never run, only type-checked (`mypy --strict`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from matplotlib.figure import Figure

import seq
import sequence_ai
from seq import gates
from seq.presets.robot_arm import ActionChunk, Observation, Proprioception
from sequence_base.contract import ActionContract

ACTION = ActionContract(
    robot="arm",
    action_space=seq.ActionSpace.JOINT_ABSOLUTE,
    action_dim=2,
    control_frequency_hz=20,
    bounds=[(-1, 1)] * 2,
)


@seq.policy(
    gpu=["L4", "A100"],
    cpu=(2, 4),
    memory=8,
    image=seq.Image.debian_slim(python="3.12").apt_install("git").uv_pip_install("numpy").env({"A": "1"}),
    weights=seq.Weights.template("pi05-droid", version=1),
    secrets=[seq.Secret.from_name("hf")],
    action=ACTION,
    observation=seq.ObservationContract(cameras={"front": seq.Camera(width=224, height=224)}),
    timeouts=seq.Timeouts(startup=900, request=5),
    streaming=True,
)
@seq.concurrent(replicas_per_gpu=2)
class TypedPolicy(seq.Policy):
    @seq.load
    def load(self, weights_dir: str | None) -> None:
        self.gain: float = 1.0

    @seq.warmup
    def warmup(self) -> None: ...

    @seq.infer
    def infer(
        self, obs: Observation, *, seed: int | None = None, steps: Annotated[int, seq.Range(1, 8)] = 4
    ) -> ActionChunk:
        return ActionChunk(steps=[[self.gain, 0.0]] * steps)

    @seq.on_episode
    def forget(self, episode_id: str) -> None: ...

    @seq.shutdown
    def stop(self) -> None: ...


class Env:
    def __init__(self, surface: str) -> None: ...

    def step(self, action: Sequence[float]) -> None: ...


@seq.benchmark(
    gpu="cpu",
    conditions=seq.conditions(["reach"], range(5), variants={"surface": ["dry", "wet"]}),
    render=seq.Record("front", fps=20),
    action_contract=ACTION,
)
class TypedBenchmark(seq.Benchmark):
    @seq.setup
    def setup(self, *, friction: float = 1.0) -> None: ...

    @seq.reset
    def reset(self, seed: int, variant: seq.Condition) -> Env:
        surface: str = variant.variation_dict["surface"]
        return Env(surface)

    @seq.check
    def check(self, env: Env) -> seq.Step:
        return seq.Step(done=True, metrics={"success": True, "distance": 0.1})

    @seq.score
    def score(self, results: list[seq.EpisodeResult]) -> dict[str, float]:
        return {"steps": float(sum(result.steps for result in results))}


@seq.adapter(name="typed-adapter")
class TypedAdapter(seq.Adapter):
    obs_transforms = (seq.tf.rename({"a": "b"}), seq.tf.identity())

    def __init__(self, *, size: int = 4) -> None:
        self.size = size


@seq.adapter
class BareAdapter(seq.Adapter):
    action_transforms = (seq.tf.custom("turn", lambda rows: rows, lossless=True),)


policy: TypedPolicy = TypedPolicy()
chunk: ActionChunk = policy.infer(Observation(images=(), proprioception=Proprioception([0.0]), instruction=""), steps=2)
wire: dict[str, Any] = seq.deployment_request(TypedPolicy).wire()
clipped: list[float] = seq.safety.clip([1.0], [(0.0, 1.0)])
adapted: Any = TypedAdapter(size=8).obs({"a": 1})

scored = seq.eval("policy", "benchmark", compare=["other"])
if isinstance(scored, seq.EvalReport):
    rate: float = scored.metrics["success"].overall
    picture: Figure = scored.plot()
    other: Figure = scored.plot("distance")
    rows: int = len(scored.to_pandas())
gate: gates.Gate = gates.parse("success.low >= 0.8")

messages: list[dict[str, Any]] = [
    {"role": "user", "content": [sequence_ai.cached("rules", ttl="1h"), sequence_ai.image(b"", detail="low")]}
]
reply: sequence_ai.ChatResult = sequence_ai.chat("brain", messages, temperature=0.0, tools=[], seed=1)
called: list[dict[str, Any]] | None = reply.tool_calls
with sequence_ai.chat("brain", messages, stream=True) as stream:
    pieces: list[str] = list(stream)
whole: sequence_ai.ChatResult = stream.result
talk = sequence_ai.Conversation("brain", system="be brief")
answered: sequence_ai.ChatResult = talk.send("one", seed=2)
talk.tool_result("t1", {"cups": 2})
spent: float = talk.cost_usd
decided: sequence_ai.DecideResult = sequence_ai.decide(
    sequence_ai.models(endpoint="decide")[0], {}, {"done": {"type": "noul", "instructions": "Is it done?"}}
)
scaled: dict[str, Any] = sequence_ai.scale("arm", min_workers=1, max_gpus=None)
billed: list[dict[str, Any]] | str = sequence_ai.billing("2030-01-01", "2030-01-31", csv=True)
