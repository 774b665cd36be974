"""A clock moved by hand and a whole platform in process, for testing what is built on this client.

```
platform = FakePlatform(infer=lambda body: {"outputs": body["inputs"]})
with platform.in_place(), sequence_ai.connect("toy", base_url=platform.url, api_key=platform.key) as policy:
    assert policy.predict({"x": 1}) == {"x": 1}
```
"""

from sequence_ai.testing._clock import FakeAlarm, FakeClock
from sequence_ai.testing._platform import ACTION, FakePlatform, Sent, Served, chunk, error

__all__ = ["ACTION", "FakeAlarm", "FakeClock", "FakePlatform", "Sent", "Served", "chunk", "error"]
