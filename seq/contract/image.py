"""A declared image: one base, then steps in build order."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from seq.contract._model import Strict

DEFAULT_BASE = "debian:12-slim"


class SecretRef(Strict):
    """A secret by name; its value never travels in a declaration."""

    name: str


class AddLocal(Strict):
    """A file or folder of the code bundle (`src`) and where it goes in the image (`dst`, absolute)."""

    src: str
    dst: str


class ImageStep(Strict):
    """One build step: exactly one of the keys is set (`secrets` goes with `run_commands`)."""

    uv_pip_install: list[str] | None = None
    apt_install: list[str] | None = None
    env: dict[str, str] | None = None
    run_commands: list[str] | None = None
    secrets: list[SecretRef] | None = None
    add_local: AddLocal | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> ImageStep:
        if len(self.kinds()) != 1:
            raise ValueError(
                "an image step has exactly one of uv_pip_install, apt_install, env, run_commands, add_local; "
                f"got {self.kinds()}"
            )
        return self

    def kinds(self) -> list[str]:
        """The step's key, in a list of one."""
        keys = ("uv_pip_install", "apt_install", "env", "run_commands", "add_local")
        return [key for key in keys if getattr(self, key) is not None]


class ImageSpec(Strict):
    """What an environment is made from. `base` or `dockerfile` (source text), never both."""

    base: str | None = None
    dockerfile: str | None = Field(default=None, max_length=1 << 20)
    steps: list[ImageStep] = Field(default_factory=list)
    python: Literal["3.11", "3.12", "3.13", "image"] | None = None

    @model_validator(mode="after")
    def _one_base(self) -> ImageSpec:
        if (self.base is None) == (self.dockerfile is None):
            raise ValueError("an image has exactly one of base and dockerfile")
        return self
