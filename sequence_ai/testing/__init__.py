"""For testing what is built on this client: a clock moved by hand, a platform in process, a robot's log, bad networks.

```
platform = FakePlatform(infer=lambda body: {"outputs": body["inputs"]})
with platform.in_place(), sequence_ai.connect("toy", base_url=platform.url, api_key=platform.key) as policy:
    assert policy.predict({"x": 1}) == {"x": 1}
```
"""

from sequence_ai.testing._clock import FakeAlarm, FakeClock
from sequence_ai.testing._detour import Detour
from sequence_ai.testing._platform import ACTION, FakePlatform, Sent, Served, chunk, error
from sequence_ai.testing._proxy import FaultProxy
from sequence_ai.testing._robot import FakeRobot, Played, Told

__all__ = [
    "ACTION",
    "Detour",
    "FakeAlarm",
    "FakeClock",
    "FakePlatform",
    "FakeRobot",
    "FaultProxy",
    "Played",
    "Sent",
    "Served",
    "Told",
    "chunk",
    "error",
]
