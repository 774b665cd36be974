"""`seq eval`: run one, follow it, read it, stop it, list them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from seq._bodies import checked
from seq._writing import check_writable, writing
from seq.api import Api, named
from seq.cli import _options as options
from seq.cli._app import Cursor, Invocation, Limit, Timeout, group, note, of, refuse_waits, say, say_json, show_page
from seq.cli._estimate import estimate_lines, started_line
from seq.cli._report import csv_text, metric_lines, report_lines
from seq.contract.evals import EvalRequest
from seq.evaluating import EvalState, adapter_ref, follow, read
from seq.report import EvalReport
from sequence_ai import InvalidRequest, SequencesError, Unavailable

app = group("Score a deployed policy on a registered benchmark.")

EvalId = Annotated[str, typer.Argument(metavar="ID", help="The eval's id, or its start (8 characters or more).")]
Repeated = list[str] | None


@app.command("run")
def run(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="POLICY", help="The deployed policy; see `seq policy ls`.")],
    *,
    benchmark: Annotated[str, typer.Option(help="The registered benchmark.")],
    adapter: Annotated[
        str | None, typer.Option(metavar="REF", help="NAME, NAME@vN, or ./file.py[:Class] (registered first).")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="Only this suite's tasks.")] = None,
    tasks: Annotated[str | None, typer.Option(metavar="A,B", help="Only these tasks.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="The first N seeds of each task and variant.")] = None,
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
    max_usd: Annotated[float | None, typer.Option(min=0, help="Stop before costing more than this.")] = None,
    param: Annotated[Repeated, typer.Option(metavar="[SIDE.]NAME=VALUE", help="Set a parameter; repeatable.")] = None,
    sweep: Annotated[Repeated, typer.Option(metavar="[SIDE.]NAME=V1,V2", help="An arm per value; repeatable.")] = None,
    compare: Annotated[Repeated, typer.Option(metavar="MODEL", help="One more policy as an arm; repeatable.")] = None,
    record: Annotated[
        str | None, typer.Option(metavar="per-task|all|none", help="Which episodes are recorded.")
    ] = None,
    gate: Annotated[Repeated, typer.Option(metavar="'METRIC OP N'", help="A bar to meet; repeatable.")] = None,
    rerun_failed: Annotated[
        str | None, typer.Option(metavar="ID", help="Run that eval's errored episodes again.")
    ] = None,
    rerun_unsuccessful: Annotated[
        str | None, typer.Option(metavar="ID", help="Run that eval's unsuccessful episodes.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="With --rerun-unsuccessful: what success is read from.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate; start nothing.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return once it has started.")] = False,
    timeout: Timeout = None,
) -> int:
    """Run POLICY on a benchmark and print the report; --dry-run only says what it would take."""
    inv = of(ctx)
    _refuse_combinations(
        gate=gate,
        metric=metric,
        rerun_failed=rerun_failed,
        rerun_unsuccessful=rerun_unsuccessful,
        compare=compare,
        sweep=sweep,
    )
    refuse_waits(dry_run=dry_run, no_wait=no_wait, timeout=timeout)
    asked = {
        "model": model,
        "benchmark": benchmark,
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
        "compare": compare or None,
        "record": record,
        "rerun_of": rerun_failed,
        "rerun_unsuccessful_of": rerun_unsuccessful,
        "metric": metric,
        "dry_run": dry_run or None,
    }
    request = checked(EvalRequest, asked)
    if not dry_run:
        inv.refuse_json("eval run")
    with inv.api() as api:
        if adapter is not None:
            request = request.model_copy(update={"adapter": adapter_ref(api, adapter)})
        if dry_run:
            return _estimate(inv, api.post("/v1/eval", request.wire()))
        return _run(inv, api, request, timeout, wait=not no_wait)


def _estimate(inv: Invocation, answer: dict[str, Any]) -> int:
    if inv.json:
        say_json(answer)
    else:
        say(*estimate_lines(answer))
    return 0


def _run(inv: Invocation, api: Api, request: EvalRequest, timeout: float | None, *, wait: bool) -> int:
    answer = api.post("/v1/eval", request.wire())
    eval_id = str(answer["eval_id"])
    say(started_line(answer))
    if not wait:
        say(f"next: `seq eval report {eval_id} --wait`")
        return 0
    try:
        state = _follow(inv, api, eval_id, timeout)
    except KeyboardInterrupt:
        note(f"the eval goes on: `seq eval report {eval_id} --wait` reads it, `seq eval cancel {eval_id}` stops it")
        raise
    say(*_lines(state))
    return _exit(state)


def _follow(inv: Invocation, api: Api, eval_id: str, timeout: float | None) -> EvalState:
    with inv.progress() as watch:
        state = follow(api, eval_id, timeout, watch)
    if state.open:
        raise Unavailable(
            f"eval {eval_id} is still {state.report['status']} after the wait; it goes on",
            code="timeout",
            retryable=True,
            hint=f"`seq eval report {eval_id} --wait` waits again",
        )
    return state


@app.command("status")
def status(
    ctx: typer.Context,
    eval_id: EvalId,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it ends.")] = False,
) -> int:
    """Say where an eval is: in line, running, done; and its metrics so far."""
    inv = of(ctx)
    with inv.api() as api:
        state = _follow(inv, api, eval_id, None) if watch else read(api, eval_id)
    if inv.json:
        say_json({"status": state.report["status"], "report": state.report, "details": state.details})
    else:
        say(*status_lines(eval_id, state))
    return 1 if state.report["status"] == "failed" else 0


def status_lines(eval_id: str, state: EvalState) -> Iterator[str]:
    """State, episodes done, the wait for cards if there is one, and the metrics so far."""
    progress, queue = state.details.get("progress") or {}, state.details.get("queue")
    line = f"eval {eval_id}: {state.report['status']}"
    if progress.get("total") is not None:
        line += f"  {progress.get('done')} of {progress['total']} episodes done"
    if progress.get("running"):
        line += f", {progress['running']} running"
    yield line
    if queue and state.report["status"] == "queued":
        yield (
            f"  needs {queue.get('cards')} card(s), {queue.get('available')} free, waited {queue.get('waited_s')} s, "
            f"gives up at {queue.get('gives_up_at')}"
        )
    yield from metric_lines(EvalReport.from_wire(state.report), state.details)


@app.command("cancel")
def cancel(ctx: typer.Context, eval_id: EvalId) -> None:
    """Stop an eval: finished episodes stay reported, none starts any more."""
    inv = of(ctx)
    with inv.api() as api:
        answer = api.post(f"/v1/eval/{named(eval_id)}/cancel")
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
    videos: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the videos there.")] = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="PATH", help="Write a row per episode; - is stdout.")
    ] = None,
) -> int:
    """Print an eval's report; with --csv and --videos, save its episodes and recordings."""
    inv = of(ctx)
    if timeout is not None and not wait:
        raise InvalidRequest("--timeout goes with --wait", code="invalid_request")
    if inv.json and csv == "-":
        raise InvalidRequest("--json and --csv - both go to stdout: give one of the two", code="invalid_request")
    if csv is not None and csv != "-":
        check_writable(Path(csv))
    with inv.api() as api:
        state = _follow(inv, api, eval_id, timeout) if wait else read(api, eval_id)
        if videos is not None:
            with writing(videos):
                videos.mkdir(parents=True, exist_ok=True)
        if inv.json:
            say_json({"report": state.report, "details": state.details})
        elif csv != "-":
            say(*_lines(state))
        failed = _save_csv(api, eval_id, state, csv) if csv is not None else False
        failed |= _save_videos(api, eval_id, state, videos) if videos is not None else False
    return 1 if failed else _exit(state)


@app.command("ls")
def ls(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="POLICY")],
    benchmark: Annotated[str | None, typer.Option(help="Only evals on this benchmark.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List a policy's evals, newest first."""
    show_page(
        ctx,
        f"/v1/deployments/{named(model)}/evals",
        "history",
        ("eval", "version", "benchmark", "metric", "value", "95% CI"),
        _history_row,
        limit=limit,
        cursor=cursor,
        benchmark=benchmark,
    )


def _history_row(row: Mapping[str, Any]) -> list[Any]:
    value, low, high = row.get("value"), row.get("low"), row.get("high")
    shown = "" if value is None else f"{value:.3f}"
    interval = "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
    marked = f"{interval} incomplete".strip() if row.get("incomplete") else interval
    return [row["eval_id"], f"v{row.get('model_version')}", row.get("benchmark"), row.get("metric"), shown, marked]


def _lines(state: EvalState) -> list[str]:
    return report_lines(EvalReport.from_wire(state.report), state.details)


def _exit(state: EvalState) -> int:
    return 0 if state.report["status"] == "completed" else 1


def _save_csv(api: Api, eval_id: str, state: EvalState, path: str) -> bool:
    episodes = _episodes(api, eval_id, state.details)
    if not episodes:
        note(f"error[not_found]: eval {eval_id} has no episodes to write")
        return True
    text = csv_text(episodes)
    if path == "-":
        sys.stdout.write(text)
    else:
        with writing(Path(path)):
            Path(path).write_text(text, encoding="utf-8", newline="")
        note(f"wrote {len(episodes)} episode(s) to {path}")
    return False


def _episodes(api: Api, eval_id: str, details: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All episodes: the details document's list where it is whole, else page by page."""
    listed = list(details.get("episodes") or [])
    total = (details.get("progress") or {}).get("total")
    if total is None or len(listed) >= total:
        return listed
    rows: list[Mapping[str, Any]] = []
    cursor = None
    while True:
        page = api.get(f"/v1/eval/{named(eval_id)}/episodes", limit=200, cursor=cursor)
        rows += page.get("episodes") or page.get("data") or []
        cursor = page.get("next_cursor")
        if not cursor:
            return rows


def _save_videos(api: Api, eval_id: str, state: EvalState, folder: Path) -> bool:
    """Save every recording; one that cannot be fetched is said and the rest still come. True when one failed."""
    failed = False
    for number, link in enumerate(state.report.get("videos") or []):
        target = folder / f"eval-{eval_id[:8]}-{number}.mp4"
        try:
            # The path only: the recordings are fetched from where we are, whatever name the platform gives itself.
            video = api.download(f"/v1/eval/{str(link).partition('/v1/eval/')[2]}")
        except SequencesError as error:
            note(f"error[{error.code}]: {link}: {error.message}")
            failed = True
            continue
        with writing(target):
            target.write_bytes(video)
        note(f"saved {target}")
    return failed


def _refuse_combinations(
    *,
    gate: Sequence[str] | None,
    metric: str | None,
    rerun_failed: str | None,
    rerun_unsuccessful: str | None,
    compare: Sequence[str] | None,
    sweep: Sequence[str] | None,
) -> None:
    if gate:
        raise InvalidRequest(
            "--gate is not there yet: read metrics[NAME].overall from `seq eval report ID --json`",
            code="invalid_request",
        )
    rerun = rerun_failed or rerun_unsuccessful
    if rerun_failed and rerun_unsuccessful:
        raise InvalidRequest("--rerun-failed and --rerun-unsuccessful: give one of the two", code="invalid_request")
    if rerun and (compare or sweep):
        raise InvalidRequest(
            "a rerun takes its arms from the eval it reruns: leave --compare and --sweep out", code="invalid_request"
        )
    if metric and not rerun_unsuccessful:
        raise InvalidRequest("--metric goes with --rerun-unsuccessful", code="invalid_request")
