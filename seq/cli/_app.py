"""What every command shares: what was said before its name, its client, and where its output goes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from seq import api as control
from seq.cli._later import LATER
from seq.cli._progress import Progress, progress
from sequence_ai import InvalidRequest

Limit = Annotated[int, typer.Option("--limit", min=1, max=200, help="Rows a page.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Where to go on: the last line of a page names it.")]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0, metavar="S", help="Seconds to wait.")]
Connect = Callable[..., control.Api]


@dataclass(frozen=True)
class Invocation:
    """One run of the command: the global flags, and how it reaches a platform (tests put their own there)."""

    json: bool = False
    base_url: str | None = None
    connect: Connect = field(default=control.connect)

    def api(self, *, key_needed: bool = True) -> control.Api:
        """A client to the configured platform; one that needs a key may start the local platform."""
        return self.connect(base_url=self.base_url, key_needed=key_needed, may_start=key_needed)

    def refuse_json(self, command: str) -> None:
        """Raises InvalidRequest when `--json` was given to a command that has nothing to read back."""
        if self.json:
            raise InvalidRequest(f"--json: `seq {command}` has nothing to read back", code="invalid_request")

    def progress(self) -> Progress:
        """Where a wait is shown: a bar on a terminal, plain lines elsewhere; always on stderr."""
        return progress()


def of(ctx: typer.Context) -> Invocation:
    """The invocation a command runs in."""
    found = ctx.find_root().obj
    assert isinstance(found, Invocation)  # noqa: S101  set by the root callback before any command runs
    return found


class Group(TyperGroup):
    """A group whose commands that are not there yet are answered in a sentence of `LATER`, and take an option once."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command, or a refusal that says what is not there yet."""
        path = " ".join([*ctx.command_path.split()[1:], args[0]]) if args else ""
        if path in LATER and args[0] not in self.commands:
            raise InvalidRequest(f"`seq {path}` is not there yet: {LATER[path]}", code="invalid_request")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            _refuse_repeated(command, command.context_class(command, info_name=name, parent=ctx), rest)
        return name, command, rest


def _refuse_repeated(command: Any, ctx: Any, args: list[str]) -> None:
    """Of an option that takes one value the last would win, without a word."""
    try:
        _, _, given = command.make_parser(ctx).parse_args(args=list(args))
    except typer.TyperException:
        return  # told when the command reads them
    options = [one for one in given if one.param_type_name == "option" and not (one.multiple or one.is_flag)]
    for option in options:
        if options.count(option) > 1:
            flag = max(option.opts, key=len)
            raise InvalidRequest(
                f"{flag} is given {options.count(option)} times and takes one value", code="invalid_request"
            )


def group(help_text: str) -> typer.Typer:
    """A noun's command group; bare, it prints its help and ends with 2."""
    app = typer.Typer(
        cls=Group, help=help_text, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]}
    )

    @app.callback(invoke_without_command=True, help=help_text)
    def bare(ctx: typer.Context) -> None:
        help_when_bare(ctx)

    return app


def help_when_bare(ctx: typer.Context) -> None:
    """Print the group's help and end with 2 when no command follows it."""
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())
        raise typer.Exit(2)


def refuse_waits(*, dry_run: bool, no_wait: bool, timeout: float | None) -> None:
    """Raises InvalidRequest on flags about a wait that there will not be."""
    if timeout is not None and (no_wait or dry_run):
        raise InvalidRequest(
            "--timeout bounds the wait: leave it out with --no-wait and --dry-run", code="invalid_request"
        )
    if no_wait and dry_run:
        raise InvalidRequest(
            "--dry-run starts nothing to wait for: leave --no-wait out with it", code="invalid_request"
        )


def say(*lines: str) -> None:
    """Results, to stdout."""
    for line in lines:
        print(line)  # noqa: T201  this is the command's output


def note(*lines: str) -> None:
    """Errors, waits and asides, to stderr."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)  # noqa: T201  this is the command's output


def say_json(value: Any) -> None:
    """A value as indented JSON, to stdout."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows in aligned columns, to stdout; cells that are None stay empty."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        shown.add_column(header, no_wrap=True)
    for row in rows:
        shown.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    # Off a terminal, nothing may be cut to a guessed width.
    Console(width=None if sys.stdout.isatty() else 1000, highlight=False).print(shown)


def page_line(page: Mapping[str, Any], shown: int) -> str:
    """Which rows of how many were shown, and where the next page begins."""
    if not shown:
        return "no rows"
    first = int(page.get("offset") or 0) + 1
    total = page.get("total")
    line = f"{first}-{first + shown - 1} of {'unknown' if total is None else total}"
    return f"{line}; next page: --cursor {page['next_cursor']}" if page.get("next_cursor") else line


def show_page(
    ctx: typer.Context,
    path: str,
    rows_key: str,
    headers: Sequence[str],
    row: Callable[[Mapping[str, Any]], Sequence[Any]],
    **query: Any,
) -> None:
    """One page of a list: as a table, or as the platform sent it."""
    inv = of(ctx)
    with inv.api() as api:
        page = api.get(path, **query)
    if inv.json:
        say_json(page)
        return
    rows = page.get(rows_key) or page.get("data") or []
    if rows:
        table(headers, [row(item) for item in rows])
    say(page_line(page, len(rows)))
