"""The steps of an image: which are taken where no container engine is, and how each is carried out."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.errors import Refused
from runner.images import pythons
from runner.images.commands import Log, build_env, run
from runner.images.errors import BuildError
from seq.contract.image import AddLocal, ImageSpec, ImageStep

ENV_DIR = PurePosixPath("/env")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SYSTEM_TOOLS = {"apt", "apt-get", "aptitude", "dpkg", "apk", "dnf", "yum", "sudo", "su", "doas"}
_OWN_VARIABLES = {"PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PORT"}
_NO_ENGINE = "no container engine is here, so an image is a Python environment"


def check_image(image: ImageSpec) -> None:
    """Raise Refused, in a sentence, for what this machine cannot make."""
    pythons.resolve(image)
    for step in image.steps:
        if step.secrets:
            raise Refused("invalid_request", f"no secret named {step.secrets[0].name!r}: this platform holds none yet")
        _check_packages(step.uv_pip_install or [])
        _check_system_packages(step.apt_install or [])
        _check_variables(step.env or {})
        for command in step.run_commands or []:
            _check_command(command)
        if step.add_local is not None:
            _check_destination(step.add_local)


def _check_packages(packages: list[str]) -> None:
    outside = [word for word in packages if re.match(r"--(system|target|prefix|python)\b|-p\b|-t\b", word)]
    if outside:
        raise Refused(
            "invalid_request", f"uv_pip_install({outside[0]!r}): {_NO_ENGINE} and packages go into that alone"
        )


def _check_system_packages(packages: list[str]) -> None:
    missing = [name for name in packages if not _is_installed(name)]
    if missing:
        raise Refused(
            "invalid_request",
            f"apt_install: {', '.join(missing)} not installed on this machine, and {_NO_ENGINE}: it can add none",
            hint=f"install it on the machine first: apt-get install {' '.join(missing)}",
        )


def _is_installed(package: str) -> bool:
    query = shutil.which("dpkg-query")
    if query is None:
        return False
    name = package.partition("=")[0]
    command = [query, "--show", "--showformat=${db:Status-Status}\n", "--", name]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return answer.returncode == 0 and "installed" in answer.stdout.split()


def _check_variables(variables: dict[str, str]) -> None:
    for name in variables:
        if name in _OWN_VARIABLES or name.startswith("SEQ_"):
            raise Refused(
                "invalid_request", f"image variable {name!r}: the platform sets it itself; choose another name"
            )


def _check_command(command: str) -> None:
    for words in _simple_commands(command):
        tool = words[0].rpartition("/")[2]
        if tool in _SYSTEM_TOOLS or "--system" in words:
            named = tool if tool in _SYSTEM_TOOLS else "--system"
            raise Refused(
                "invalid_request",
                f"run_commands({command!r}): {named} writes outside the environment, and {_NO_ENGINE}",
                hint="leave out --system (the environment is the active one); install system packages on the machine",
            )


def _simple_commands(command: str) -> list[list[str]]:
    """The commands of a shell line, each as words without leading assignments; quoting mistakes are the shell's."""
    found = []
    for part in re.split(r"&&|\|\||[;|&\n()]", command):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = part.split()
        while words and (re.match(r"^[A-Za-z_]\w*=", words[0]) or words[0] in {"env", "exec", "then", "do", "!"}):
            words = words[1:]
        if words:
            found.append(words)
    return found


def _check_destination(add: AddLocal) -> None:
    path = PurePosixPath(add.dst)
    if ".." in path.parts or ENV_DIR not in path.parents:
        raise Refused(
            "invalid_request",
            f"add_local to {add.dst!r}: {_NO_ENGINE}; files may go below {ENV_DIR} alone, which stands for its folder",
            hint=f'write {ENV_DIR}/{path.name} and find it as sys.prefix + "/{path.name}", or by a variable '
            f'.env({{"DATA": "{ENV_DIR}/{path.name}"}}), which is translated',
        )


@dataclass(frozen=True)
class Workshop:
    """Where an image is being made: the environment's folder, the unpacked bundle, tools of the build, the log."""

    root: Path
    code: Path
    tools: Path
    log: Log

    def run(self, argv: list[str], label: str, variables: dict[str, str]) -> None:
        """One command with the environment active; raises BuildError."""
        env = build_env(self.root, self.tools, variables, SYSTEM_PATH)
        run(argv, label=label, env=env, cwd=self.root, log=self.log)

    def inside(self, image_path: str) -> Path:
        """Where a path below `/env` lies."""
        return self.root / PurePosixPath(image_path).relative_to(ENV_DIR)


def carry_out(step: ImageStep, workshop: Workshop, variables: dict[str, str]) -> dict[str, str]:
    """Do one step; the image's variables after it. Raises BuildError."""
    if step.uv_pip_install:
        words = " ".join(step.uv_pip_install)
        workshop.run([pythons.uv(), "pip", "install", *step.uv_pip_install], f"uv pip install {words}", variables)
    for name in step.apt_install or []:
        workshop.log(f"apt package {name}: installed on this machine")
    for command in step.run_commands or []:
        workshop.run(["/bin/sh", "-c", command], command, variables)
    if step.add_local is not None:
        _copy(step.add_local, workshop)
    return {**variables, **{name: _translated(value, workshop) for name, value in (step.env or {}).items()}}


def _translated(value: str, workshop: Workshop) -> str:
    below = value == str(ENV_DIR) or value.startswith(f"{ENV_DIR}/")
    return str(workshop.inside(value)) if below else value


def local_source(add: AddLocal, code: Path) -> Path:
    """The file or folder of the bundle an `add_local` names; raises BuildError where the bundle lacks it."""
    source = (code / add.src).resolve()
    if not source.is_relative_to(code.resolve()) or not source.exists():
        raise BuildError(f"add_local: the code bundle holds no {add.src!r}")
    return source


def _copy(add: AddLocal, workshop: Workshop) -> None:
    source, target = local_source(add, workshop.code), workshop.inside(add.dst)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)
    workshop.log(f"add_local {add.src} -> {add.dst}")
