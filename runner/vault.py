"""Secrets at rest: encrypted with a key kept in an owner-only file, and the hash tokens are stored as."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cryptography.fernet import Fernet


class Vault:
    """Encrypts and decrypts text with one Fernet key."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)

    @classmethod
    def at(cls, path: Path) -> Vault:
        """The vault whose key is in `path`; the first call makes the file, readable by its owner alone."""
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return cls(path.read_bytes())
        with os.fdopen(handle, "wb") as file:
            file.write(Fernet.generate_key())
        return cls(path.read_bytes())

    def encrypt(self, text: str) -> str:
        """`text` as it may lie in the store."""
        return self._fernet.encrypt(text.encode()).decode()

    def decrypt(self, sealed: str) -> str:
        """What `encrypt` was given; raises cryptography's InvalidToken on text sealed with another key."""
        return self._fernet.decrypt(sealed.encode()).decode()


def token_hash(token: str) -> str:
    """The hex SHA-256 under which a key or token is stored; tokens are random, so no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()
