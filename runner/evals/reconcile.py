"""Makes what the rows of evals want real: instances launched, the lost replaced, what is over cleared away.

Every step may be repeated: a tick that fails half-way, or a gateway that is killed, leaves rows from which the next
one goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from runner.cluster.base import EngineRun, Placed
from runner.context import Context
from runner.evals import instances, line, parts, scoring, submit
from runner.evals.ending import cancel, judge, played, wants_score
from runner.evals.queue import put_back
from runner.store.db import Session
from runner.store.queries import episodes as episode_rows
from runner.store.queries import evals as eval_rows
from runner.store.queries import instances as rows
from runner.store.queries import workers as worker_rows
from runner.store.tables import Eval, Instance, Worker
from runner.vault import token_hash
from seq.contract.internal import InstanceStart

PREFIX = "instance-"
FILING = "filing"
START_LIMIT_S = 300.0
DRAIN_S = 10.0
GAP_S = 10.0

Spawn = Callable[[Callable[[], None]], None]
log = structlog.get_logger(__name__)


def in_thread(work: Callable[[], None]) -> None:
    """Run in a thread that does not keep the platform from ending."""
    threading.Thread(target=work, daemon=True).start()


@dataclass(frozen=True)
class Gone:
    """An instance that is no longer there, and how one knows."""

    instance_id: str
    why: str
    lives: bool = False


class EvalController:
    """Called by the loop's one thread; launches happen beside it, in `spawn` (tests run them in place)."""

    def __init__(self, ctx: Context, spawn: Spawn = in_thread) -> None:
        self._ctx = ctx
        self._spawn = spawn
        self._launching: set[str] = set()
        self._lock = threading.Lock()
        self._last_tick: float | None = None
        self._born = self._listening_since = ctx.clock.now()

    def tick(self) -> None:
        """One step of every eval; raises ClusterLostError while the cluster does not answer."""
        self._note_absence()
        launching = self._in_flight()
        with self._ctx.store.read() as session:
            open_rows = rows.every_open(session)
        placed = self._ctx.cluster.living()
        living = set(placed)
        self._note_pids(open_rows, placed)
        self._close_lost(self._gone(open_rows, living, launching))
        self._admit()
        self._advance()
        self._launch()
        self._score(living)
        self._clear()
        self._kill_unclaimed(living)
        self._file()

    def _note_absence(self) -> None:
        """While nobody listened, nobody was heard: silence counts from now on."""
        now = self._ctx.clock.now()
        if self._last_tick is None or now - self._last_tick > GAP_S:
            self._listening_since = now
        if self._last_tick is None:
            with self._ctx.store.write() as session:
                for row in eval_rows.open_ones(session):
                    if row.created_at < self._born:
                        eval_rows.note(row, "gateway_restarted", at=now)
        self._last_tick = now

    def _note_pids(self, open_rows: list[Instance], placed: dict[str, Placed]) -> None:
        unknown = [row.id for row in open_rows if row.pid is None and row.id in placed]
        if unknown:
            with self._ctx.store.write() as session:
                for name in unknown:
                    row = rows.get(session, name)
                    if row is not None:
                        row.pid = placed[name].host_pid

    def _gone(self, open_rows: list[Instance], living: set[str], launching: set[str]) -> list[Gone]:
        now = self._ctx.clock.now()
        gone = []
        for row in open_rows:
            if row.state == "wanted" or row.id in launching:
                continue
            heard = max(row.seen_at or row.created_at, self._listening_since)
            limit = self._ctx.settings.instance_silence_s if row.state == "running" else START_LIMIT_S
            if row.id not in living:
                gone.append(Gone(row.id, "its process ended"))
            elif now - heard > limit:
                gone.append(Gone(row.id, f"nothing was heard of it for {limit:g} s", lives=True))
        return gone

    def _close_lost(self, gone: list[Gone]) -> None:
        for one in gone:
            if one.lives:
                self._ctx.cluster.kill(one.instance_id)
            with self._ctx.store.write() as session:
                self._lose(session, one)

    def _lose(self, session: Session, one: Gone) -> None:
        found = rows.with_eval(session, one.instance_id)
        if found is None or found[0].state not in rows.OPEN:
            return
        instance, row = found
        now = self._ctx.clock.now()
        if row.status not in eval_rows.OPEN or played(row, episode_rows.counts_of_arms(session, row)[instance.arm]):
            rows.close(instance, "ended", now=now)
            return
        rows.close(instance, "lost", now=now, error=one.why)
        held = episode_rows.leased_by(session, row.id, instance.id)
        eval_rows.note(row, "instance_lost", instance=instance.id, reason=one.why, at=now)
        put_back(self._ctx, row, held, f"the instance that ran it was lost: {one.why}")

    def _admit(self) -> None:
        """Evals that waited for cards begin once theirs are there, each account's in the order of their coming."""
        with self._ctx.store.read() as session:
            waiting = eval_rows.queued(session)
        if not waiting:
            return
        there, now = self._ctx.cluster.capacity().cards, self._ctx.clock.now()
        with self._ctx.store.write() as session:
            behind: set[str] = set()
            for row in eval_rows.queued(session):
                if row.account_id in behind or not self._admitted(session, row, there, now):
                    behind.add(row.account_id)

    def _admitted(self, session: Session, row: Eval, there: dict[str, int], now: float) -> bool:
        """Whether the eval leaves the line: it begins, or has waited for as long as it may."""
        stock = submit.stock_of(self._ctx, session, row.account_id, there)
        plan, waited_s = row.plan, now - row.created_at
        for choice in line.choices(plan["policies"], submit.benchmark_cards(plan), waited_s):
            if stock.lacks(choice.held) is None:
                policies = [
                    {**policy, "machines": {**policy["machines"], "card": card}}
                    for policy, card in zip(plan["policies"], choice.cards, strict=True)
                ]
                row.plan, row.cards = {**plan, "policies": policies}, choice.held
                row.status, row.begun_at = "pending", now
                session.flush()
                return True
        if waited_s < line.TIMEOUT_S:
            return False
        why = f"its {sum(row.cards.values())} card(s) did not become free within {line.TIMEOUT_S:g} s; nothing was run"
        return cancel(session, row, now, why, "queue_timeout")

    def _advance(self) -> None:
        """End what is over; want what is missing."""
        with self._ctx.store.write() as session:
            for row in eval_rows.open_ones(session):
                if row.status != "queued" and not judge(session, row, self._ctx.clock.now()):
                    self._want(session, row)

    def _want(self, session: Session, row: Eval) -> None:
        arms = episode_rows.counts_of_arms(session, row)
        if all(played(row, counts) for counts in arms.values()):
            return  # only its score is waited for
        needed = {arm.version_id for arm in eval_rows.arms(session, row.id) if not played(row, arms[arm.number])}
        workers = worker_rows.of_eval(session, row.id)
        for policy in row.plan["policies"]:
            if policy["version_id"] in needed:
                mine = [worker for worker in workers if worker.version_id == policy["version_id"]]
                self._want_workers(session, row, policy, mine)
        there = [instance for instance in rows.of_eval(session, row.id) if instance.state in rows.OPEN]
        for arm, counts in arms.items():
            if not counts.pending or row.over_budget:
                continue
            taken = {instance.place for instance in there if instance.arm == arm}
            for place in sorted(set(range(row.plan["benchmark"]["instances"])) - taken):
                named = {"instance_id": f"{PREFIX}{self._ctx.new_id()}", "eval_id": row.id}
                rows.want(session, arm=arm, place=place, now=self._ctx.clock.now(), **named)

    def _want_workers(self, session: Session, row: Eval, policy: dict[str, Any], mine: list[Worker]) -> None:
        now, machines = self._ctx.clock.now(), policy["machines"]
        missing = machines["instances"] - len(worker_rows.usable(mine))
        lost = [worker for worker in mine if worker.state == "failed"]
        for _ in range(missing):
            named = {"worker_id": f"worker-{self._ctx.new_id()}", "version_id": policy["version_id"], "eval_id": row.id}
            worker_rows.want(session, purpose="eval", card=machines["card"], now=now, **named)
            if lost:
                eval_rows.note(row, "worker_replaced", reason=lost[0].error or lost[0].reason, at=now)
        if missing > 0:
            self._ctx.wake.set()

    def _launch(self) -> None:
        """Rows leave `wanted` before their launch, so that none is launched twice, whatever happens in between."""
        runs = []
        with self._ctx.store.write() as session:
            for instance in rows.every_open(session):
                if instance.state == "wanted":
                    token = self._ctx.new_secret()
                    instance.state, instance.token_hash = "starting", token_hash(token)
                    runs.append(self._run_of(instance, token))
        for run in runs:
            with self._lock:
                self._launching.add(run.name)
            self._spawn(lambda run=run: self._place(run))  # type: ignore[misc]

    def _run_of(self, instance: Instance, token: str) -> EngineRun:
        settings = self._ctx.settings
        start = InstanceStart(instance_id=instance.id, eval_id=instance.eval_id, gateway_url=settings.url, token=token)
        settings.logs.mkdir(parents=True, exist_ok=True)
        return EngineRun(name=instance.id, start=start.wire(), log_path=str(settings.logs / f"{instance.id}.log"))

    def _place(self, run: EngineRun) -> None:
        try:
            self._ctx.cluster.launch_engine(run)
        except Exception as error:
            # Whatever it was, the next tick tries again; so many losses in a row end the eval, naming the last one's.
            log.exception("an instance could not be started", instance=run.name)
            with self._ctx.store.write() as session:
                self._lose(session, Gone(run.name, f"it could not be started: {error or type(error).__name__}"))
        finally:
            with self._lock:
                self._launching.discard(run.name)
            self._ctx.wake.set()

    def _score(self, living: set[str]) -> None:
        """Run the benchmark's own score of evals whose episodes are all there; one that takes too long is ended."""
        with self._ctx.store.read() as session:
            unscored = [row for row in eval_rows.open_ones(session) if row.plan["score"] and row.scores is None]
            counted = [(row, episode_rows.counts(session, row)) for row in unscored if row.status != "queued"]
        waiting = [row for row, counts in counted if played(row, counts) and wants_score(row, counts)]
        for row in waiting:
            name = scoring.process_name(row.id)
            if name not in living and name not in self._in_flight():
                self._begin(name, lambda row=row: scoring.launch(self._ctx, row.id))  # type: ignore[misc]
            elif name in living and scoring.is_late(row, self._ctx.clock.now()):
                self._ctx.cluster.kill(name, at_once=True)
                scoring.give_up(
                    self._ctx, row.id, f"score: it did not return within {scoring.LIMIT_S:g} s and was ended"
                )

    def _file(self) -> None:
        """Move finished episodes of large evals into files, beside everything else."""
        if FILING not in self._in_flight():
            self._begin(FILING, lambda: parts.file_finished(self._ctx))

    def _begin(self, name: str, work: Callable[[], object]) -> None:
        """Do slow work beside the loop, once at a time under one name."""
        with self._lock:
            self._launching.add(name)

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("what runs beside the loop failed and is tried again", what=name)
            finally:
                with self._lock:
                    self._launching.discard(name)

        self._spawn(run)

    def _clear(self) -> None:
        """End what ended evals still have: workers and keys now, a completed one's instances a little later."""
        now = self._ctx.clock.now()
        with self._ctx.store.write() as session:
            for eval_id in eval_rows.ended_with_workers(session):
                worker_rows.stop(worker_rows.of_eval(session, eval_id), now)
                self._ctx.wake.set()
            over = [row for row in rows.every_open(session) if self._is_over(session, row, now)]
            for instance in over:
                rows.close(instance, "ended", now=now)
            session.flush()
            for eval_id in eval_rows.ended_with_keys(session):
                eval_rows.drop_keys(session, eval_id)
        for instance in over:
            self._ctx.cluster.kill(instance.id)
        self._drop_outboxes()

    def _is_over(self, session: Session, instance: Instance, now: float) -> bool:
        row = eval_rows.get(session, instance.eval_id)
        if row is None or row.status in eval_rows.OPEN:
            return row is None
        patience = DRAIN_S if row.status == "completed" else 0.0
        return now - (row.ended_at or now) >= patience

    def _drop_outboxes(self) -> None:
        folder = self._ctx.settings.outbox
        for path in folder.iterdir() if folder.is_dir() else ():
            with self._ctx.store.read() as session:
                row = eval_rows.get(session, path.name)
                instances_open = any(instance.state in rows.OPEN for instance in rows.of_eval(session, path.name))
            if (row is None or row.status not in eval_rows.OPEN) and not instances_open:
                instances.drop_outbox(self._ctx, path.name)

    def _kill_unclaimed(self, living: set[str]) -> None:
        with self._ctx.store.read() as session:
            claimed = {row.id for row in rows.every_open(session)}
            claimed |= {scoring.process_name(row.id) for row in eval_rows.open_ones(session) if row.scores is None}
        for name in sorted(living):
            if name.startswith((PREFIX, scoring.PREFIX)) and name not in claimed:
                log.warning("ending what no eval claims", process=name)
                self._ctx.cluster.kill(name)

    def _in_flight(self) -> set[str]:
        with self._lock:
            return set(self._launching)
