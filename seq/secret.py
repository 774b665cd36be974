"""A credential by its name alone: the value is stored on the platform and never passes through here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from seq.contract.image import SecretRef
from seq.errors import PolicyDefinitionError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class Secret:
    """A stored secret, made by `Secret.from_name`."""

    name: str

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "." or ".." in name:
            raise PolicyDefinitionError(
                f"a secret's name is 1-64 letters, digits, '.', '_' or '-' without '..', got {name!r}"
            )

    @classmethod
    def from_name(cls, name: str) -> Secret:
        """The secret stored under `name` (`seq secret set NAME`); nothing is looked up here."""
        return cls(name)

    def wire(self) -> SecretRef:
        """As a request names it."""
        return SecretRef(name=self.name)
