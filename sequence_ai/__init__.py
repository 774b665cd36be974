"""The robot's client: drive a policy that was deployed with `seq deploy`.

```
import sequence_ai

with sequence_ai.connect(model="my-policy") as policy:
    prediction = policy.predict(observation)
```
"""

from sequence_ai._chat import ChatResult, ChatStream, chat
from sequence_ai._client import Policy, connect
from sequence_ai._content import cached, image
from sequence_ai._conversation import Conversation
from sequence_ai._credentials import DEFAULT_BASE_URL
from sequence_ai._decide import DecideResult, decide
from sequence_ai._encode import DEFAULT_JPEG_QUALITY, encode
from sequence_ai._errors import (
    AuthError,
    CertPinError,
    ChunkExhausted,
    Conflict,
    Gone,
    InternalError,
    InvalidRequest,
    NotFound,
    OutOfCredit,
    PermissionDenied,
    PolicyError,
    SequencesError,
    Unavailable,
    from_response,
)
from sequence_ai._observation import observation
from sequence_ai._operating import billing, fleet, scale, usage
from sequence_ai._platform import account, gpus, models
from sequence_ai._types import ActionChunk, ImageFrame, Model, Observation, Prediction, Proprioception, RunOutcome
from sequence_ai._version import __version__ as __version__

__all__ = [
    "DEFAULT_BASE_URL",
    "DEFAULT_JPEG_QUALITY",
    "ActionChunk",
    "AuthError",
    "CertPinError",
    "ChatResult",
    "ChatStream",
    "ChunkExhausted",
    "Conflict",
    "Conversation",
    "DecideResult",
    "Gone",
    "ImageFrame",
    "InternalError",
    "InvalidRequest",
    "Model",
    "NotFound",
    "Observation",
    "OutOfCredit",
    "PermissionDenied",
    "Policy",
    "PolicyError",
    "Prediction",
    "Proprioception",
    "RunOutcome",
    "SequencesError",
    "Unavailable",
    "account",
    "billing",
    "cached",
    "chat",
    "connect",
    "decide",
    "encode",
    "fleet",
    "from_response",
    "gpus",
    "image",
    "models",
    "observation",
    "scale",
    "usage",
]
