"""What an author got wrong, raised before anything is sent; on the command line each is one line and exit 2.

```
SeqAuthoringError
├── PolicyDefinitionError      @seq.policy, its hooks, images, weights, secrets
├── BenchmarkDefinitionError   @seq.benchmark, its hooks, conditions, steps
└── AdapterDefinitionError     @seq.adapter and its transforms
```
"""

from __future__ import annotations

from pydantic import ValidationError


class SeqAuthoringError(Exception):
    """A file or a declaration is not what the platform takes; the message says what would be."""


class PolicyDefinitionError(SeqAuthoringError):
    """A policy's declaration is wrong."""


class BenchmarkDefinitionError(SeqAuthoringError):
    """A benchmark's declaration, or a value it made, is wrong."""


class AdapterDefinitionError(SeqAuthoringError):
    """An adapter's declaration is wrong, or a transform met data it does not fit."""


def sentence(wrong: ValidationError) -> str:
    """A contract's refusal as one line: the field and the reason, of each thing that is wrong."""
    return "; ".join(_problem(item["loc"], item["msg"]) for item in wrong.errors(include_url=False))


def _problem(location: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in location)
    reason = message.removeprefix("Value error, ")
    return f"{where}: {reason}" if where else reason
