"""Where a platform keeps its state and how it listens: one frozen value made at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """`home` is SEQ_HOME, absolute. `database_url` and `blob_url` default to a SQLite file and a folder below it.

    `port` 0 lets the system pick a free one. Times in seconds. `rate_per_s` is how often one key may ask the gateway.
    `pretend` are cards by name that were declared and are not there; `gpus_per_account` is how many an account may
    hold at once.
    """

    home: Path
    host: str = "127.0.0.1"
    port: int = 0
    database_url: str = ""
    blob_url: str = ""
    tick_s: float = 1.0
    lease_s: float = 300.0
    instance_silence_s: float = 60.0
    max_attempts: int = 5
    gpus_per_account: int = 8
    rate_per_s: float = 50.0
    pretend: Mapping[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where the platform's own processes reach the gateway."""
        return f"http://{self.host}:{self.port}"

    @property
    def database(self) -> str:
        """The SQLAlchemy URL of the store."""
        return self.database_url or f"sqlite:///{self.home / 'store.db'}"

    @property
    def blobs(self) -> str:
        """The fsspec URL of the blob folder."""
        return self.blob_url or f"file://{self.home / 'blobs'}"

    @property
    def logs(self) -> Path:
        """Log files of the gateway, builds, workers and instances."""
        return self.home / "logs"

    @property
    def envs(self) -> Path:
        """Python environments made from images, by content."""
        return self.home / "envs"

    @property
    def sdk(self) -> Path:
        """Copies of the platform's own packages for users' processes, by content."""
        return self.home / "sdk"

    @property
    def code(self) -> Path:
        """Unpacked code bundles, by content."""
        return self.home / "code"

    @property
    def outbox(self) -> Path:
        """Results that instances have not yet seen acknowledged."""
        return self.home / "outbox"
