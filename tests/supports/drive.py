"""What a robot's program does, for any client of the name `sequence_ai`: prints what came of it as one JSON object.

`python drive.py MODEL JPEG_AS_HEX`. Prefetch is off where rows are told, since what is observed then does not depend on
time; with it, only counts are told. Each run has a handle of its own, since clients differ in what they leave behind.
"""

import json
import sys
import threading
import warnings

import sequence_ai

warnings.simplefilter("ignore")
JPEG = bytes.fromhex(sys.argv[2])


class Robot:
    """Two joints that go where they are told."""

    def __init__(self):
        self.joints = [0.0, 0.5]
        self.log = []

    def observe(self):
        return sequence_ai.observation(images={"front": JPEG}, joints=self.joints, instruction="climb")

    def act(self, row):
        self.joints = list(row)
        self.log.append([round(value, 6) for value in row])

    def hold(self):
        self.log.append("hold")


def told(out, robot, states):
    fields = ("actions", "chunks", "stopped_early", "reason", "action_space", "episode_resets", "instruction_swaps")
    seam = None if out.max_seam_jump is None else round(out.max_seam_jump, 6)
    plain = {name: getattr(out, name) for name in fields}
    return {**plain, "seam": seam, "rows": robot.log, "states": [one for one in states if one != "waiting"]}


def driven(call, **options):
    robot, states = Robot(), []
    mine = {"hold": robot.hold, "on_status": states.append, "validate": lambda row: True, "progress": False}
    with sequence_ai.connect(model=sys.argv[1]) as policy:
        out = call(policy, robot, {**mine, "prefetch": False, **options})
    return told(out, robot, states)


def run(**options):
    given = {"max_actions": 10, **options}
    return driven(lambda policy, robot, more: policy.run(robot.observe, robot.act, **more), **given)


def act(**options):
    return driven(lambda policy, robot, given: policy.act("climb", robot.observe, robot.act, **given), **options)


def raised(call):
    try:
        call()
    except Exception as error:  # noqa: BLE001  the class is the answer
        return [type(error).__name__, getattr(error, "code", None)]
    return None


def interrupted(**options):
    def call(policy, robot, given):
        threading.Timer(1.5, policy.interrupt).start()
        return policy.run(robot.observe, robot.act, max_actions=10_000, **given)

    outcome = driven(call, **options)
    return {"reason": outcome["reason"], "held": outcome["rows"][-1], "moved": outcome["actions"] > 0}


def counting():
    calls = []
    return lambda *_: calls.append(1) or len(calls) > 6


def main():
    answers = {}
    with sequence_ai.connect(model=sys.argv[1]) as policy:
        robot = Robot()
        answers["before"] = [policy.contract, policy.buffered, policy.model]
        answers["waited"] = policy.wait_until_ready() >= 0
        answers["ready"] = bool(policy.ready()[0])
        prediction = policy.predict(robot.observe())
        answers["chunk"] = str(prediction.action_chunk)
        answers["warnings"] = len(prediction.warnings)
        answers["buffered"] = policy.buffered
        answers["next"] = [[round(value, 6) for value in policy.next_action()] for _ in range(4)]
        answers["exhausted"] = raised(policy.next_action)
        answers["contract"] = sorted(policy.contract)
        answers["declared"] = [policy.contract["action"]["robot"], policy.contract["action"]["max_delta"]]
        answers["unknown parameter"] = raised(lambda: policy.predict(robot.observe(), params={"nonsense": 1}))
        answers["nothing to label"] = raised(lambda: policy.label(True, "fine"))
        policy.run(robot.observe, robot.act, max_actions=4, validate=lambda row: True)
        answers["label"] = raised(lambda: policy.label(True, "fine"))
    policy.close()
    answers["closed"] = raised(lambda: policy.predict(robot.observe()))
    answers["run"] = run()
    answers["horizon"] = run(open_loop_horizon=2)
    answers["smooth"] = run(smooth_seam=2)
    answers["validate"] = run(validate=lambda row: row[0] < 0.25)
    answers["until"] = run(until=counting())
    answers["no time"] = run(max_seconds=0)
    answers["act"] = act(max_seconds=30, until=counting())
    answers["act bounded"] = act(max_seconds=1.5)["reason"]
    answers["act without bound"] = raised(lambda: act(max_seconds=0))
    answers["interrupted"] = interrupted()
    answers["prefetched"] = {key: run(prefetch=True)[key] for key in ("actions", "chunks", "reason")}
    answers["prefetch interrupted"] = interrupted(prefetch=True)
    answers["raised"] = raised(lambda: run(params={"kind": "raise"}))
    with sequence_ai.connect(model="no-such-deployment") as nobody:
        answers["nobody"] = raised(lambda: nobody.predict(robot.observe()))
    print(json.dumps(answers, sort_keys=True))


main()
