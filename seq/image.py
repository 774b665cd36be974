"""What an environment is made from, as a value. Nothing is built: each method answers an image with one more step."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seq.contract.image import DEFAULT_BASE, AddLocal, ImageSpec, ImageStep
from seq.errors import PolicyDefinitionError
from seq.secret import Secret

PYTHONS = ("3.11", "3.12", "3.13", "image")
MAX_DOCKERFILE_BYTES = 1 << 20
ON_WORKER = ("SEQ_MANIFEST", "SEQ_EVAL_JOB", "SEQ_BENCH_REF")
_OFFICIAL_PYTHON = re.compile(r"(docker\.io/)?(library/)?python([:@].*)?")
_RESERVED = ("PYTHONPATH", "PORT")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True)
class LocalPath:
    """A file or folder of this machine (`path`) and where it goes in the image (`remote`, absolute)."""

    path: Path
    remote: str
    folder: bool


@dataclass(frozen=True)
class LocalModule:
    """A module or package of this machine that travels with the code; looked for beside `beside` first."""

    name: str
    beside: Path


@dataclass(frozen=True)
class _Step:
    """One build step: the wire's key, its value, and the secrets only it sees."""

    kind: str
    value: Any
    secrets: tuple[Secret, ...] = ()


@dataclass(frozen=True)
class Image:
    """A chain of build steps on one base; start it with one of the `Image.from_...` methods or `Image.debian_slim`.

    Raises PolicyDefinitionError on a step that could not be built.
    """

    base: str | None = None
    dockerfile: str | None = None
    python: str | None = None
    context: Path | None = None
    _steps: tuple[_Step, ...] = ()

    @classmethod
    def debian_slim(cls, *, python: str | None = None) -> Image:
        """A pinned slim Debian with Python 3.11, or `python` "3.12" or "3.13"."""
        return cls(base=DEFAULT_BASE, python=_python(python))

    @classmethod
    def from_registry(cls, ref: str, *, python: str | None = None) -> Image:
        """A public image, its reference used as written; `python="image"` takes the Python it brings."""
        if not isinstance(ref, str) or not ref or any(letter.isspace() for letter in ref):
            raise PolicyDefinitionError(
                f"Image.from_registry takes an image reference such as 'ubuntu:22.04', got {ref!r}"
            )
        if _OFFICIAL_PYTHON.fullmatch(ref) and python not in (None, "image"):
            raise PolicyDefinitionError(
                f"{ref} brings its own Python; leave python= out, or start from a base without one"
            )
        return cls(base=ref, python=_python(python))

    @classmethod
    def from_dockerfile(
        cls, path: str | Path, *, context: str | Path | None = None, python: str | None = None
    ) -> Image:
        """A Dockerfile, read now, relative to the calling file; `context` is the folder its COPY lines see.

        On the platform itself, where the file is not, the image is known by its built result and the text stays empty.
        """
        beside = _caller_folder()
        source = beside / path
        folder = None if context is None else beside / context
        if os.environ.keys().isdisjoint(ON_WORKER):
            return cls(dockerfile=_read(source), context=_existing_folder(folder), python=_python(python))
        text = _read(source) if source.is_file() else "# not shipped to the worker\n"
        return cls(dockerfile=text, context=folder, python=_python(python))

    def apt_install(self, *packages: str) -> Image:
        """One `apt-get install` of Debian packages, e.g. `.apt_install("git", "libgl1")`; the answer is a new image."""
        return self._with(_Step("apt_install", _words("apt_install", packages)))

    def uv_pip_install(self, *packages: str) -> Image:
        """One install of these Python packages, e.g. `.uv_pip_install("numpy==1.26.4")`; the answer is a new image."""
        return self._with(_Step("uv_pip_install", _words("uv_pip_install", packages)))

    def run_commands(self, *commands: str, secrets: list[Secret] | None = None) -> Image:
        """Shell commands, in order; only they see `secrets`' variables, and only while they run."""
        for secret in secrets or ():
            if not isinstance(secret, Secret):
                raise PolicyDefinitionError(
                    f"run_commands secrets= must be a list of seq.Secret.from_name(...), got {secret!r}"
                )
        return self._with(_Step("run_commands", _words("run_commands", commands), tuple(secrets or ())))

    def env(self, variables: dict[str, str]) -> Image:
        """Ordinary variables of the build and the worker; a credential belongs into `secrets=`."""
        if not isinstance(variables, dict) or not variables:
            raise PolicyDefinitionError(f'env takes a dict such as {{"HF_HOME": "/data/hf"}}, got {variables!r}')
        for name, value in variables.items():
            _check_variable(name, value)
        return self._with(_Step("env", {name: variables[name] for name in sorted(variables)}))

    def add_local_file(self, local: str | Path, remote: str) -> Image:
        """A file, relative to the calling file, put at the absolute path `remote`."""
        return self._with(_Step("add_local", LocalPath(_caller_folder() / local, _absolute(remote), folder=False)))

    def add_local_dir(self, local: str | Path, remote: str) -> Image:
        """A folder, relative to the calling file, put at the absolute path `remote`."""
        return self._with(_Step("add_local", LocalPath(_caller_folder() / local, _absolute(remote), folder=True)))

    def add_local_python_source(self, *modules: str) -> Image:
        """Modules or packages of this machine that the worker shall be able to import."""
        beside = _caller_folder()
        for module in modules:
            if not isinstance(module, str) or not _MODULE.fullmatch(module):
                raise PolicyDefinitionError(
                    f"add_local_python_source takes module names such as 'my_package', got {module!r}"
                )
        names = _words("add_local_python_source", modules)
        return self._with(_Step("python_source", tuple(LocalModule(name, beside) for name in names)))

    def local_paths(self) -> list[LocalPath]:
        """What `add_local_file` and `add_local_dir` named, in order."""
        return [step.value for step in self._steps if step.kind == "add_local"]

    def local_modules(self) -> list[LocalModule]:
        """What `add_local_python_source` named, in order."""
        return [module for step in self._steps if step.kind == "python_source" for module in step.value]

    def spec(self) -> ImageSpec:
        """The image as a request carries it; raises PolicyDefinitionError on an image without a base."""
        self._require_base()
        steps: list[ImageStep] = []
        added = 0
        for step in self._steps:
            if step.kind == "add_local":
                source = AddLocal(src=local_archive_path(added, step.value), dst=step.value.remote)
                steps.append(ImageStep(add_local=source))
                added += 1
            elif step.kind != "python_source":
                steps.append(_wire_step(step))
        return ImageSpec.model_validate(
            {"base": self.base, "dockerfile": self.dockerfile, "steps": steps, "python": self.python}
        )

    def _with(self, step: _Step) -> Image:
        self._require_base()
        return replace(self, _steps=(*self._steps, step))

    def _require_base(self) -> None:
        if self.base is None and self.dockerfile is None:
            raise PolicyDefinitionError(
                "Image() has no base; start with Image.debian_slim(), .from_registry(...) or .from_dockerfile(...)"
            )


def local_archive_path(number: int, local: LocalPath) -> str:
    """Where the bundle holds the `number`th (from 0) local file or folder of an image."""
    return f"_seq_local/{number}/{local.path.resolve().name}"


def _wire_step(step: _Step) -> ImageStep:
    value = list(step.value) if isinstance(step.value, tuple) else step.value
    secrets = [secret.wire() for secret in step.secrets] or None
    return ImageStep.model_validate({step.kind: value, "secrets": secrets})


def _python(version: Any) -> str | None:
    if version is not None and version not in PYTHONS:
        raise PolicyDefinitionError(f"python= must be one of {list(PYTHONS)}, got {version!r}")
    return None if version is None else str(version)


def _words(method: str, values: tuple[Any, ...]) -> tuple[str, ...]:
    if not values:
        raise PolicyDefinitionError(f"{method}() got nothing; name at least one")
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise PolicyDefinitionError(f"{method}() takes texts as separate arguments, got {value!r}")
    return values


def _check_variable(name: Any, value: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise PolicyDefinitionError(f"env name {name!r} must be letters, digits and '_', not starting with a digit")
    if name in _RESERVED or name.startswith("SEQ_"):
        raise PolicyDefinitionError(
            f"env {name!r} is set by the platform (PYTHONPATH, PORT and SEQ_* are); choose another name"
        )
    if isinstance(value, Secret):
        raise PolicyDefinitionError(
            f"env {name!r} is a secret, and an image keeps what it is given; use secrets=[...] instead"
        )
    if not isinstance(value, str):
        raise PolicyDefinitionError(f"env {name!r} must be a text, got {value!r}; write {str(value)!r}")


def _absolute(remote: Any) -> str:
    if not isinstance(remote, str) or not remote.startswith("/") or ".." in remote.split("/"):
        raise PolicyDefinitionError(f"the path in the image must be absolute and without '..', got {remote!r}")
    return remote


def _caller_folder() -> Path:
    """Folder of the file that called into this module; the working directory where there is no file."""
    frame = sys._getframe(1)  # noqa: SLF001  the documented way to the caller
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    file = frame.f_globals.get("__file__")
    return Path(file).resolve().parent if file else Path.cwd()


def _read(path: Path) -> str:
    if not path.is_file():
        raise PolicyDefinitionError(f"Image.from_dockerfile: {path} is not a file")
    if path.stat().st_size > MAX_DOCKERFILE_BYTES:
        raise PolicyDefinitionError(
            f"Image.from_dockerfile: {path} is over 1 MiB; a Dockerfile is instructions, not data"
        )
    text = path.read_text(encoding="utf-8")
    if not text.strip():
        raise PolicyDefinitionError(f"Image.from_dockerfile: {path} is empty; it needs at least a FROM line")
    return text


def _existing_folder(folder: Path | None) -> Path | None:
    if folder is not None and not folder.is_dir():
        raise PolicyDefinitionError(f"Image.from_dockerfile: context= {folder} is not a folder")
    return folder
