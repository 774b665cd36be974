"""`seq eval`: run one, follow it, read it, stop it, compare two, list them, let them run by themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from seq import _eval_answers as answers
from seq._eval_answers import answered
from seq._eval_request import eval_request, refuse_seconds
from seq.api import Api, named
from seq.cli import _eval_compare as comparing
from seq.cli import _options as options
from seq.cli._app import Cursor, Invocation, Limit, Timeout, group, note, of, refuse_waits, say, say_json, table
from seq.cli._estimate import estimate_lines, started_line
from seq.cli._eval_files import STDOUT, Files, Read
from seq.cli._eval_history import history, show_history
from seq.cli._eval_schedule import change, change_lines, drop, keep
from seq.cli._eval_status import status_lines
from seq.cli._report import report_lines
from seq.contract.errors import EXIT_GATE_MISSED
from seq.contract.evals import EvalRequest
from seq.evaluating import EvalState, adapter_of, begin, bridged, follow, read
from seq.gates import Verdict, judge_all, parse
from sequence_ai import InvalidRequest, SequencesError, Unavailable

app = group("Score a deployed policy on a registered benchmark.")

Repeated = list[str] | None
EvalId = Annotated[str, typer.Argument(metavar="ID", help="The eval's id, or its start (8 characters or more).")]
Policy = Annotated[str, typer.Argument(metavar="POLICY", help="The deployed policy; see `seq policy ls`.")]
Benchmark = Annotated[str, typer.Option("--benchmark", help="The registered benchmark.")]
AdapterRef = Annotated[
    str | None, typer.Option("--adapter", metavar="REF", help="NAME, NAME@vN, or ./file.py[:Class] (registered first).")
]
Trials = Annotated[int | None, typer.Option("--trials", min=1, help="The first N seeds of each task and variant.")]
MaxUsd = Annotated[float | None, typer.Option("--max-usd", help="Stop before costing more than this.")]
Gates = Annotated[Repeated, typer.Option("--gate", metavar="'METRIC OP N'", help="A bar to meet, else 8; repeatable.")]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="PATH", help="Write episodes and gates as JUnit XML.")]


@app.command("run")
def run(
    ctx: typer.Context,
    model: Policy,
    *,
    benchmark: Benchmark,
    adapter: AdapterRef = None,
    suite: Annotated[str | None, typer.Option(help="Only this suite's tasks.")] = None,
    tasks: Annotated[str | None, typer.Option(metavar="A,B", help="Only these tasks.")] = None,
    trials: Trials = None,
    variants: Annotated[
        Repeated, typer.Option(metavar="AXIS=V1,V2", help="Only these values of an axis; repeatable.")
    ] = None,
    policy_instances: Annotated[int, typer.Option(min=1, help="Copies of the policy.")] = 1,
    policy_gpu: Annotated[str | None, typer.Option(metavar="CARD", help="The policy's card.")] = None,
    benchmark_instances: Annotated[int, typer.Option(min=1, help="Benchmark instances per arm.")] = 1,
    benchmark_gpu: Annotated[
        str | None, typer.Option(metavar="CARD", help="The benchmark's card: L4 or RTX-PRO-6000.")
    ] = None,
    envs: Annotated[int | None, typer.Option(min=1, help="Environments at once in each benchmark instance.")] = None,
    region: Annotated[str | None, typer.Option(help="Run both sides in this region.")] = None,
    max_usd: MaxUsd = None,
    param: Annotated[Repeated, typer.Option(metavar="[SIDE.]NAME=VALUE", help="Set a parameter; repeatable.")] = None,
    sweep: Annotated[Repeated, typer.Option(metavar="[SIDE.]NAME=V1,V2", help="An arm per value; repeatable.")] = None,
    compare: Annotated[Repeated, typer.Option(metavar="MODEL", help="One more policy as an arm; repeatable.")] = None,
    record: Annotated[
        str | None, typer.Option(metavar="per-task|all|none", help="Which episodes are recorded.")
    ] = None,
    gate: Gates = None,
    junit: Junit = None,
    rerun_failed: Annotated[
        str | None, typer.Option(metavar="ID", help="Run that eval's errored and unplayed episodes again.")
    ] = None,
    rerun_unsuccessful: Annotated[
        str | None, typer.Option(metavar="ID", help="Run that eval's unsuccessful episodes, as an eval of its own.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="With --rerun-unsuccessful: what success is read from.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate; start nothing.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return once it has started.")] = False,
    timeout: Timeout = None,
) -> int:
    """Run POLICY on a benchmark and print the report; --dry-run only says what it would take."""
    inv = of(ctx)
    gates = [parse(text) for text in gate or []]
    files = Files(junit=junit)
    asked = {
        "model": model,
        "benchmark": benchmark,
        "adapter": adapter,
        "suite": suite,
        "tasks": options.words("--tasks", tasks),
        "trials": trials,
        "variants": options.variants(variants or []),
        "policy_instances": policy_instances,
        "policy_gpu": policy_gpu,
        "benchmark_instances": benchmark_instances,
        "benchmark_gpu": benchmark_gpu,
        "envs": envs,
        "region": region,
        "max_usd": max_usd,
        "params": options.params(param or []),
        "sweep": options.sweep(sweep or []),
        "compare": compare,
        "record": record,
        "rerun_of": rerun_failed,
        "rerun_unsuccessful_of": rerun_unsuccessful,
        "metric": metric,
        "dry_run": dry_run or None,
    }
    options.refuse_rerun(asked)
    options.refuse_unjudged({"--gate": gate, "--junit": junit}, ended=not (dry_run or no_wait))
    refuse_waits(dry_run=dry_run, no_wait=no_wait, timeout=timeout)
    refuse_seconds("--timeout", timeout)
    request = eval_request(asked)
    if not dry_run:
        inv.refuse_json("eval run")
    files.check()
    bridge = adapter_of(adapter) if adapter is not None else None
    with inv.api() as api:
        request = bridged(api, request, bridge)
        if dry_run:
            _estimate(inv, api, request)
            return 0
        eval_id = _begin(api, request)
        if no_wait:
            say(f"next: `seq eval report {eval_id} --wait`")
            return 0
        with _going_on(eval_id, f"seq eval report {eval_id} --wait", begun=True):
            state = _ended(inv, api, eval_id, timeout)
        found = Read(api, eval_id, state)
        verdicts = judge_all(gates, found.report, state.details)
        say(*report_lines(found.report, state.details), *(verdict.line for verdict in verdicts))
        return _exit(state, verdicts, failed=files.save(found, verdicts))


@app.command("status")
def status(
    ctx: typer.Context,
    eval_id: EvalId,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it ends.")] = False,
    every: Annotated[float | None, typer.Option(metavar="S", help="With --watch: look every S seconds.")] = None,
) -> int:
    """Say where an eval is: in line, running, done; and its metrics so far."""
    inv = of(ctx)
    if every is not None and not watch:
        raise InvalidRequest("--every goes with --watch", code="invalid_request")
    refuse_seconds("--every", every, least=0.1)
    with inv.api() as api, _going_on(eval_id, f"seq eval status {eval_id} --watch"):
        state = _followed(inv, api, eval_id, inf, every) if watch else read(api, eval_id)
    if inv.json:
        say_json({"status": state.status, "report": state.report, "details": state.details})
    else:
        say(*status_lines(eval_id, state))
    return 1 if state.status == "failed" else 0


@app.command("cancel")
def cancel(ctx: typer.Context, eval_id: EvalId) -> None:
    """Stop an eval: finished episodes stay reported, none starts any more."""
    inv = of(ctx)
    with inv.api() as api:
        answer = answered(answers.Canceled, api.post(f"/v1/eval/{named(eval_id)}/cancel"), "that of a cancel")
    if inv.json:
        say_json(answer)
    else:
        say(f"eval {answer['eval_id']}: {answer['status']}")


@app.command("report")
def report(
    ctx: typer.Context,
    eval_id: EvalId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")] = False,
    timeout: Timeout = None,
    gate: Gates = None,
    videos: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the recordings there.")] = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="PATH", help="Write a row per episode; - is stdout.")
    ] = None,
    trajectories: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save what each episode saw and did there.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="PATH", help="Write the report as a web page.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Draw the report as a .png, .svg or .pdf (extra `data`).")
    ] = None,
    junit: Junit = None,
) -> int:
    """Print an eval's report; save its episodes, recordings, trajectories, page or picture where asked."""
    inv = of(ctx)
    gates = [parse(text) for text in gate or []]
    files = Files(csv=csv, junit=junit, videos=videos, trajectories=trajectories, html=html, plot=plot)
    if timeout is not None and not wait:
        raise InvalidRequest("--timeout goes with --wait", code="invalid_request")
    refuse_seconds("--timeout", timeout)
    if inv.json and csv == STDOUT:
        raise InvalidRequest("--json and --csv - both go to stdout: give one of the two", code="invalid_request")
    files.check()
    with inv.api() as api:
        with _going_on(eval_id, f"seq eval report {eval_id} --wait"):
            state = _ended(inv, api, eval_id, timeout) if wait else read(api, eval_id)
        found = Read(api, eval_id, state)
        verdicts = judge_all(gates, found.report, state.details)
        _show(inv, found, verdicts, aside=csv == STDOUT)
        return _exit(state, verdicts, failed=files.save(found, verdicts))


@app.command("compare")
def compare(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help="An eval's id, or its start.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The eval that is held against it.")],
) -> None:
    """Hold eval B against eval A: each metric's difference over the starts that both scored, and what else differs."""
    inv = of(ctx)
    path = f"/v1/eval/{named(first)}/compare/{named(second)}"
    with inv.api() as api:
        answer = answered(answers.Comparison, api.get(path), "a comparison")
    if inv.json:
        say_json(answer)
        return
    say(*comparing.sides(answer))
    if answer["paired"]:
        table(comparing.DIFFERENCES, [comparing.difference_row(row) for row in answer["paired"]])
    else:
        say("no start was scored by the same metric in both")
    say(*comparing.methods(answer))


@app.command("ls")
def ls(
    ctx: typer.Context,
    model: Policy,
    benchmark: Annotated[str | None, typer.Option(help="Only evals on this benchmark.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List a policy's schedules and its evals, newest first."""
    inv = of(ctx)
    with inv.api() as api:
        page = history(api, model, limit=limit, cursor=cursor, benchmark=benchmark)
    if inv.json:
        say_json(page)
    else:
        show_history(page, benchmark=benchmark, schedules=cursor is None)


@app.command("schedule")
def schedule(
    ctx: typer.Context,
    model: Policy,
    *,
    benchmark: Benchmark,
    every: Annotated[str | None, typer.Option(metavar="daily|weekly|deploy", help="When an eval is run.")] = None,
    adapter: AdapterRef = None,
    trials: Trials = None,
    max_usd: MaxUsd = None,
    webhook: Annotated[str | None, typer.Option(metavar="URL", help="Where a regression is told (https).")] = None,
    off: Annotated[bool, typer.Option("--off", help="Run it no more.")] = False,
) -> None:
    """Run POLICY on a benchmark by itself from now on; what is left out stays as it was. Alone, show what is set."""
    inv = of(ctx)
    asked = {"every": every, "adapter": adapter, "trials": trials, "max_usd": max_usd, "webhook": webhook}
    wanted = change(benchmark, asked, off=off)
    bridge = adapter_of(adapter) if adapter is not None else None
    with inv.api() as api:
        told = {}
        if off:
            told["schedule"] = drop(api, model, benchmark)
        elif wanted is not None:
            told["schedule"] = keep(api, model, wanted, bridge)
        if not inv.json:  # before anything else can fail: a webhook's secret is told this once
            say(*change_lines(told, f"{model} is no longer run on {benchmark} by itself" if off else None))
        try:
            page = history(api, model, benchmark=benchmark, limit=50)
            told |= page
        finally:
            if inv.json:
                say_json(told)
    if not inv.json:
        show_history(page, benchmark=None, schedules=True)


def _estimate(inv: Invocation, api: Api, request: EvalRequest) -> None:
    answer = answered(answers.DryRun, api.post("/v1/eval", request.wire()), "an estimate")
    if inv.json:
        say_json(answer)
    else:
        say(*estimate_lines(answer))


def _begin(api: Api, request: EvalRequest) -> str:
    """Start it, say so, and return its id; where no answer comes, say how to learn whether it began."""
    try:
        answer = begin(api, request)
    except (KeyboardInterrupt, Unavailable) as stop:
        if getattr(stop, "status", None) is None:
            note(f"whether the eval has begun is not known: `seq eval ls {request.model}` lists the policy's evals")
        raise
    say(started_line(answer))
    sys.stdout.flush()  # whoever reads our output needs the id while it runs
    return str(answer["eval_id"])


@contextmanager
def _going_on(eval_id: str, again: str, *, begun: bool = False) -> Iterator[None]:
    """Tell whoever stops waiting that the eval does not stop: at an interrupt, and if it was `begun` here at a failure.

    `again` is the command that waits again. Lost contact says so itself.
    """
    try:
        yield
    except (KeyboardInterrupt, SequencesError) as stop:
        if isinstance(stop, KeyboardInterrupt) or (begun and not isinstance(stop, Unavailable)):
            note(f"the eval goes on: `{again}` waits again, `seq eval cancel {eval_id}` stops it")
        raise


def _ended(inv: Invocation, api: Api, eval_id: str, timeout: float | None) -> EvalState:
    """The eval once it has ended; raises Unavailable where it outlasts the wait."""
    state = _followed(inv, api, eval_id, timeout)
    if state.open:
        raise Unavailable(
            f"eval {eval_id} is still {state.status} after the wait; it goes on",
            code="timeout",
            retryable=True,
            hint=f"`seq eval report {eval_id} --wait` waits again",
        )
    return state


def _followed(inv: Invocation, api: Api, eval_id: str, timeout: float | None, every: float | None = None) -> EvalState:
    with inv.progress() as watch:
        return follow(api, eval_id, timeout, watch, every_s=every)


def _show(inv: Invocation, found: Read, verdicts: Sequence[Verdict], *, aside: bool) -> None:
    """The report and how each bar was met; on stderr what is left of it where stdout is taken (`aside`)."""
    if inv.json:
        shown = {"report": found.state.report, "details": found.state.details}
        judged = [{"gate": each.gate.text, "passed": each.passed, "line": each.line} for each in verdicts]
        say_json({**shown, "gates": judged} if judged else shown)
    elif aside:
        note(*(verdict.line for verdict in verdicts))
    else:
        say(*report_lines(found.report, found.state.details), *(verdict.line for verdict in verdicts))


def _exit(state: EvalState, verdicts: Sequence[Verdict], *, failed: bool) -> int:
    if not all(verdict.passed for verdict in verdicts):
        return EXIT_GATE_MISSED
    return 0 if state.status == "completed" and not failed else 1
