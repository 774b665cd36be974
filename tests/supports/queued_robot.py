"""One robot in a process of its own: it waits for a slot, drives, leaves; each step is a line of JSON with its time.

Arguments: address, key, deployment, rows to play (0: none, and it falls silent until it is killed).
"""

import json
import sys
import time
import warnings

import sequence_ai
from sequence_ai.testing import FakeRobot
from tests.supports.frames import seen


def tell(event, **facts):
    """A line; the clock is the machine's, the same for every process."""
    print(json.dumps({"event": event, "at": time.monotonic(), **facts}), flush=True)


def main(url, key, model, rows):
    """Connect, wait, drive, close."""
    warnings.simplefilter("ignore", UserWarning)
    robot = FakeRobot(look=seen)
    tell("asks")
    policy = sequence_ai.connect(
        model,
        base_url=url,
        api_key=key,
        startup_timeout_s=300,
        on_queue=lambda position, eta_s, waited_s, reason: tell("waits", position=position, reason=reason),
        on_warming=lambda waited_s, retry_s: tell("warms"),
    )
    with policy:
        policy.predict(seen(0))
        tell("drives")
        if not rows:
            time.sleep(3600)
        outcome = policy.run(**robot.callables, max_actions=rows, progress=False)
        tell("closes", reason=outcome.reason, process=robot.played[-1].row[0])
    tell("closed")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
