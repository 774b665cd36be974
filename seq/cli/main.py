"""The `seq` command: every noun wired into one app, every failure into one shape and one exit number."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from seq import api as control
from seq.cli import account, adapter, benchmark, core, eval, key, platform, policy, secret, volume
from seq.cli._app import Connect, Group, Invocation, help_when_bare, note, say
from seq.cli._failures import code_of, exit_code, failure_lines
from seq.contract.errors import EXIT_INTERRUPTED
from sequence_ai import __version__

app = typer.Typer(
    cls=Group,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for noun in (core, platform, account):
    noun.add_to(app)
for name, noun_app in (
    ("eval", eval.app),
    ("policy", policy.app),
    ("benchmark", benchmark.app),
    ("adapter", adapter.app),
    ("volume", volume.app),
    ("secret", secret.app),
    ("key", key.app),
):
    app.add_typer(noun_app, name=name)


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print what the command read as JSON, for scripts.")] = False,
    base_url: Annotated[str | None, typer.Option("--base-url", metavar="URL", hidden=True)] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Deploy robot policies and benchmarks to a platform, and score one on the other.

    A FILE is path/to/policy.py, file.py:Class, pkg.module:Class or -m pkg.module. Start with `seq init --list`.
    """
    if version:
        say(f"seq {__version__}")
        raise typer.Exit(0)
    ctx.obj = Invocation(json=json, base_url=base_url, connect=ctx.obj or control.connect)
    help_when_bare(ctx)


def main(argv: Sequence[str] | None = None, *, connect: Connect | None = None) -> int:
    """Run the command on `argv` (else the process's own arguments); its exit number. `connect` is for tests."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "--json" in arguments:  # a global flag, taken before the command and at its end alike
        arguments = ["--json", *(argument for argument in arguments if argument != "--json")]
    try:
        return int(app(args=arguments, prog_name="seq", standalone_mode=False, obj=connect) or 0)
    except (KeyboardInterrupt, typer.Abort):
        note("interrupted")
        return EXIT_INTERRUPTED
    except typer.TyperException as wrong:
        note(f"error[invalid_request]: {wrong.format_message()}", *_usage(wrong))
        return exit_code("invalid_request")
    except BrokenPipeError:
        # Whoever read our output has gone (`seq ... | head`): end quietly, and let nothing be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        code = code_of(error)
        if code is None:
            raise
        note(*failure_lines(error, code))
        return exit_code(code)


def _usage(wrong: typer.TyperException) -> list[str]:
    ctx = getattr(wrong, "ctx", None)
    return [f"hint: `{ctx.command_path} --help` tells what it takes"] if ctx is not None else []
