"""Where weights come from. They are copied once, at deploy, onto a volume at `/data`; never into the image."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

from seq.errors import PolicyDefinitionError

MOUNT = "/data"
_TEMPLATE = re.compile(r"template://[a-z0-9][a-z0-9-]{0,63}(@v[1-9][0-9]*)?")
_VOLUME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PART = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_MAX_PARTS = 8
_DEPRECATED = ("gs", "s3", "https")


@dataclass(frozen=True)
class Volume:
    """Files uploaded under a name (`seq volume put NAME DIR`), made by `Volume.from_name`."""

    name: str
    create_if_missing: bool = True

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not _VOLUME_NAME.fullmatch(name) or ".." in name:
            raise PolicyDefinitionError(
                f"a volume's name is 1-64 letters, digits, '.', '_' or '-', a letter or digit first, got {name!r}"
            )

    @classmethod
    def from_name(cls, name: str, create_if_missing: bool = True) -> Volume:
        """The volume called `name`; nothing is looked up here."""
        return cls(name, create_if_missing)

    @property
    def uri(self) -> str:
        """`vol://name`, as a request names it."""
        return f"vol://{self.name}"


@dataclass(frozen=True)
class Weights:
    """The weights an official template ships with, made by `Weights.template`."""

    uri: str

    @classmethod
    def template(cls, name: str, version: int | None = None) -> Weights:
        """`template://name`, or `template://name@vN`; without a version each deploy takes the newest."""
        return cls(_checked(f"template://{name}" if version is None else f"template://{name}@v{version}"))

    def __str__(self) -> str:
        return self.uri


def parse_weights(value: Any) -> dict[str, str]:
    """URI by part name; an unnamed source is the part "". Raises PolicyDefinitionError; warns of a deprecated one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return {"": _uri(value)}
    if not 1 <= len(value) <= _MAX_PARTS:
        raise PolicyDefinitionError(f"weights= names {len(value)} parts; it takes 1 to {_MAX_PARTS}")
    for name in value:
        if not isinstance(name, str) or not _PART.fullmatch(name):
            raise PolicyDefinitionError(
                f"weights= part {name!r}: a part's name is lowercase letters, digits, '_', '-', a letter first"
            )
    return {name: _uri(source) for name, source in value.items()}


def parse_volumes(value: Any) -> dict[str, Volume]:
    """Volume by mount path, checked; raises PolicyDefinitionError."""
    if not isinstance(value, dict):
        raise PolicyDefinitionError(
            f'volumes= must be a dict such as {{"/cache": seq.Volume.from_name("cache")}}, got {value!r}'
        )
    for mount, volume in value.items():
        if not isinstance(mount, str) or not mount.startswith("/") or ".." in mount.split("/"):
            raise PolicyDefinitionError(f"volumes= mount {mount!r} must be an absolute path without '..'")
        if mount.rstrip("/") in ("", MOUNT):
            raise PolicyDefinitionError(
                f"volumes= mount {mount!r} is taken: {MOUNT} is where weights are; mount it elsewhere"
            )
        if not isinstance(volume, Volume):
            raise PolicyDefinitionError(f"volumes= {mount!r} must be a seq.Volume.from_name(...), got {volume!r}")
    return dict(value)


def _uri(source: Any) -> str:
    if isinstance(source, (Volume, Weights)):
        return source.uri
    if not isinstance(source, str):
        raise PolicyDefinitionError(
            f"weights= must be seq.Weights.template(...), 'hf://org/model' or seq.Volume.from_name(...), got {source!r}"
        )
    return _checked(source)


def _checked(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    if not separator or not rest:
        raise PolicyDefinitionError(
            f"weights {uri!r} names no source; write 'hf://org/model', 'vol://name' or seq.Weights.template(...)"
        )
    if ".." in rest:
        raise PolicyDefinitionError(f"weights {uri!r} contains '..', which leaves the place it names")
    if scheme in _DEPRECATED:
        warnings.warn(
            f"weights {uri!r}: buckets and https URLs are deprecated; upload them (`seq volume put NAME DIR`)",
            FutureWarning,
            stacklevel=2,
        )
        return uri
    checks = {"template": _check_template, "hf": _check_hub, "vol": _check_volume}
    if scheme not in checks:
        raise PolicyDefinitionError(
            f"weights {uri!r} has the scheme {scheme!r}; the schemes are hf://, vol:// and template://"
        )
    checks[scheme](uri, rest)
    return uri


def _check_template(uri: str, _rest: str) -> None:
    if not _TEMPLATE.fullmatch(uri):
        raise PolicyDefinitionError(
            f"weights {uri!r}: a template's name is 1-64 lowercase letters, digits or '-', a version @vN"
        )


def _check_hub(uri: str, rest: str) -> None:
    repo, _, revision = rest.partition("@")
    parts = repo.split("/")
    if len(parts) != 2 or not all(parts) or ("@" in rest and not revision) or any(c.isspace() for c in rest):
        raise PolicyDefinitionError(f"weights {uri!r} must be 'hf://org/model' or 'hf://org/model@revision'")


def _check_volume(uri: str, rest: str) -> None:
    name, marker, version = rest.partition("@")
    if not _VOLUME_NAME.fullmatch(name) or (marker and not re.fullmatch(r"v[1-9][0-9]*", version)):
        raise PolicyDefinitionError(f"weights {uri!r} must be 'vol://name' or 'vol://name@vN'")
