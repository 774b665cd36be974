"""A declared image made real where no container engine is: a Python environment made by uv, kept by its content.

What a step may do follows from that: packages go into the environment, commands run with it first on PATH, system
packages are accepted where they are installed already, and files go below `/env`, which stands for the environment's
own folder (`sys.prefix` at run time). What would write elsewhere is refused in a sentence.
"""

from runner.images.bundle import blob_key, check_bundle, unpack
from runner.images.environment import Environment, build, find
from runner.images.errors import BuildError
from runner.images.process import process_env
from runner.images.sdk import sdk
from runner.images.steps import check_image

__all__ = [
    "BuildError",
    "Environment",
    "blob_key",
    "build",
    "check_bundle",
    "check_image",
    "find",
    "process_env",
    "sdk",
    "unpack",
]
