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
from pydantic_core import ErrorDetails

from seq.contract._model import Strict


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
    return "; ".join(
        _problem(item["loc"], _unknown(wrong.title) if _is_unknown(item) else item["msg"])
        for item in wrong.errors(include_url=False)
    )


def _is_unknown(item: ErrorDetails) -> bool:
    return item["type"] == "extra_forbidden" and len(item["loc"]) == 1


def _unknown(title: str) -> str:
    """Why a contract refused a field it does not have: the fields it has."""
    fields = next((kind.model_fields for kind in Strict.__subclasses__() if kind.__name__ == title), {})
    return f"no such field; there are {', '.join(fields)}" if fields else "no such field"


def _problem(location: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in location)
    reason = message.removeprefix("Value error, ")
    return f"{where}: {reason}" if where else reason
