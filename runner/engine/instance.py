"""A benchmark instance: hosts the environments of its share of an eval until no episode is left.

One driver thread for each environment process; one thread for the heartbeat; the outbox has its own.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio_ffmpeg

from runner.engine.driver import Driver
from runner.engine.env_process import EnvironmentStart
from runner.engine.environment import Environment, EnvironmentBrokenError
from runner.engine.gateway import DismissedError, Gateway, GatewayRefusedError
from runner.engine.leases import GatewayLeases
from runner.engine.lines import Lines
from runner.engine.outbox import Outbox, send_leftovers
from runner.engine.relay import Door
from seq.contract.internal import InstanceEvent, InstanceStart

_HEARTBEAT_S = 2.0
# One core an environment: libraries that start a thread a core would only get in each other's way.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run(start: dict[str, Any], log_path: str) -> None:
    """Run the instance described by an InstanceStart body; returns when the eval has nothing left for it."""
    told = InstanceStart.model_validate(start)
    stop = threading.Event()
    gateway = Gateway(told.gateway_url, told.instance_id, told.token, stop)
    try:
        _Instance(told, gateway, stop, Path(log_path)).run()
    except GatewayRefusedError as refused:
        gateway.event(_failure(refused))
    except DismissedError as dismissed:
        print(f"instance {told.instance_id} ends: {dismissed}", file=sys.stderr)  # noqa: T201  its log
    finally:
        gateway.close()


class _Instance:
    def __init__(self, told: InstanceStart, gateway: Gateway, stop: threading.Event, log: Path) -> None:
        self._told = told
        self._gateway = gateway
        self._stop = stop
        self._log = log
        self._spec = gateway.spec()
        self._leases = GatewayLeases(gateway, stop)
        spec = self._spec
        self._lines = Lines(Door(spec.model, told.gateway_url, spec.connect_token, spec.act_limit_s), stop)
        self._telling = threading.Lock()
        self._started = False
        self._facts: dict[str, str] = {}
        self._broken: list[BaseException] = []

    def run(self) -> None:
        outbox_dir = Path(self._spec.outbox_dir)
        send_leftovers(outbox_dir, self._gateway.results)
        outbox = Outbox(outbox_dir, self._told.instance_id, self._gateway.results, self._fail)
        drivers = self._drivers(outbox)
        threads = [threading.Thread(target=self._drive, args=(driver,), daemon=True) for driver in drivers]
        beat = threading.Thread(target=self._heartbeat, args=(drivers,), name="heartbeat", daemon=True)
        for thread in (*threads, beat):
            thread.start()
        for thread in threads:
            thread.join()
        self._end(outbox)

    def ready(self, setup_s: float, facts: dict[str, str]) -> None:
        """An environment is set up; the first one is told, with what it runs on."""
        with self._telling:
            if self._started:
                return
            self._started, self._facts = True, facts
        self._gateway.event(InstanceEvent(kind="started", setup_s=setup_s, facts=facts))

    def facts(self, facts: dict[str, str]) -> None:
        """An environment knows more of what it runs on; told once."""
        with self._telling:
            if facts == self._facts:
                return
            self._facts = facts
        self._gateway.event(InstanceEvent(kind="facts", facts=facts))

    def moved(self, count: int, reason: str) -> None:
        """So many slots go on at another copy."""
        self._gateway.event(InstanceEvent(kind="moved", count=count, message=reason))

    def _drivers(self, outbox: Outbox) -> list[Driver]:
        spec = self._spec
        processes, slots = (1, spec.envs) if spec.batched else (spec.envs, 1)
        return [
            Driver(
                spec,
                self._leases,
                outbox.put,
                self._opener(number, slots),
                self._lines,
                self,
                self._stop,
                slots=slots,
                first=spec.first_env + number * slots,
            )
            for number in range(processes)
        ]

    def _drive(self, driver: Driver) -> None:
        try:
            driver.run()
        except BaseException as failed:  # noqa: BLE001  told to the gateway, whatever it was; the others stop too
            self._fail(failed)

    def _fail(self, failed: BaseException) -> None:
        self._broken.append(failed)
        self._stop.set()

    def _opener(self, number: int, slots: int) -> Callable[[], Environment]:
        log = self._log.with_name(f"{self._log.stem}-env{number}.log")
        env = {**_ONE_THREAD, **self._spec.env_vars, "PYTHONPATH": os.pathsep.join(self._spec.pythonpath)}

        def open_environment() -> Environment:
            environment = Environment(self._spec.python, env, log, slots)
            self._leases.pids.add(environment.pid)
            environment.start(self._environment_start(slots))
            return environment

        return open_environment

    def _environment_start(self, slots: int) -> EnvironmentStart:
        spec = self._spec
        return EnvironmentStart(
            code_dir=spec.code_dir,
            handler_ref=spec.handler_ref,
            batched=spec.batched,
            slots=slots,
            setup_params=spec.setup_params,
            has_score=spec.has_score,
            adapter=spec.adapter,
            action_dim=spec.action_dim,
            steps_per_query=spec.steps_per_query,
            model=spec.model,
            policy_params=spec.policy_params,
            streaming=spec.streaming,
            render=spec.render,
            blob_dir=spec.blob_dir,
            ffmpeg=imageio_ffmpeg.get_ffmpeg_exe(),
        )

    def _heartbeat(self, drivers: list[Driver]) -> None:
        try:
            while not self._stop.wait(_HEARTBEAT_S):
                if self._leases.beat():
                    self._stop.set()
        except (DismissedError, GatewayRefusedError) as failed:
            self._fail(failed)
        for driver in drivers:
            driver.kill()

    def _end(self, outbox: Outbox) -> None:
        failed = next((error for error in self._broken if not isinstance(error, DismissedError)), None)
        if failed is not None:
            self._gateway.event(_failure(failed))
        outbox.close()
        if not self._broken:
            self._gateway.event(InstanceEvent(kind="ended"))
        self._stop.set()
        self._lines.close()


def _failure(failed: BaseException) -> InstanceEvent:
    if isinstance(failed, EnvironmentBrokenError):
        return InstanceEvent(kind="failed", message=str(failed), traceback=failed.traceback)
    if isinstance(failed, GatewayRefusedError):
        return InstanceEvent(kind="failed", message=f"the gateway refused an instance of this eval: {failed}")
    text = "".join(traceback.format_exception(failed))
    return InstanceEvent(kind="failed", message=f"the benchmark instance failed: {failed!r}", traceback=text)
