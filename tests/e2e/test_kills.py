"""Any process may die while an eval runs: the eval completes with the table of an undisturbed run."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.harness import Platform, eval_id_of, lives, wait_for

RUN = (
    *("eval", "run", "panda-expert", "--benchmark", "panda-tabletop", "--adapter", "panda-joints"),
    *("--variants", "surface=standard", "--trials", "8", "--envs", "2", "--record", "none"),
)
SETTLE_S = 10  # what the platform promises: by then no process lives that nobody lists


@pytest.fixture(scope="module")
def victim() -> Iterator[Platform]:
    """A platform that is hurt by each test in turn and must be whole again after it."""
    folder = Path(tempfile.mkdtemp(prefix="seq-kill-"))
    platform = Platform(folder / "home")
    platform.home.mkdir()
    platform.seq("up")
    platform.deploy("panda-expert", "panda-tabletop", "panda-joints")
    yield platform
    platform.run("down")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def undisturbed(victim: Platform) -> str:
    """The table of a run that nobody touched."""
    return victim.seq("eval", "report", eval_id_of(victim.seq(*RUN)), "--csv", "-")


def kill(*pids: int) -> None:
    """SIGKILL, whoever is still there."""
    for pid in pids:
        if lives(pid):
            os.kill(pid, signal.SIGKILL)


def kill_gateway(platform: Platform) -> None:
    kill(platform.address["pid"])
    platform.seq("up")


def kill_head(platform: Platform) -> None:
    kill(*platform.status()["head"]["pids"])


def kill_raylet(platform: Platform) -> None:
    raylets = [p.pid for p in platform.processes() if p.name() == "raylet"]
    assert raylets
    kill(*raylets)


def kill_actor(platform: Platform) -> None:
    kill(*(instance["pid"] for instance in living(platform, "instances")))


def kill_environment(platform: Platform) -> None:
    kill(wait_for(lambda: living(platform, "instances")[0]["pids"])[0])


def kill_worker(platform: Platform) -> None:
    kill(*(worker["pid"] for worker in living(platform, "workers")))


def kill_actor_while_the_gateway_is_down(platform: Platform) -> None:
    actors = [instance["pid"] for instance in living(platform, "instances")]
    kill(platform.address["pid"])
    time.sleep(1.5)  # some episodes end meanwhile and wait in the outbox
    kill(*actors)
    platform.seq("up")


def everyone_is_known(platform: Platform) -> bool:
    """The platform lists the process of everything that runs: who is to be hurt is there to be found."""
    rows = [row for kind in ("instances", "workers") for row in platform.status()[kind]]
    return bool(rows) and all(row["pid"] and row.get("pids") != [] for row in rows)


def living(platform: Platform, kind: str) -> list[dict]:
    """What the platform lists as running, with a process id."""
    return [row for row in platform.status()[kind] if row["pid"]]


@pytest.mark.parametrize(
    ("hurt", "told"),
    [
        (kill_gateway, None),
        (kill_head, "instance was lost"),
        (kill_raylet, "instance was lost"),
        (kill_actor, "instance was lost"),
        (kill_environment, "went back to the queue"),
        (kill_worker, "worker was lost"),
        (kill_actor_while_the_gateway_is_down, "instance was lost"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_table_is_that_of_an_undisturbed_run(
    victim: Platform, undisturbed: str, hurt: Callable[[Platform], None], told: str | None
) -> None:
    """Every episode is scored exactly once, byte for byte as without the kill, and the report says what happened."""
    eval_id = eval_id_of(victim.seq(*RUN, "--no-wait"))
    wait_for(lambda: done_of(victim, eval_id) >= 3 and everyone_is_known(victim), 180)
    hurt(victim)
    time.sleep(SETTLE_S)
    assert not orphans(victim)
    report = victim.seq("eval", "report", eval_id, "--wait", timeout=400)
    assert "completed" in report
    assert victim.seq("eval", "report", eval_id, "--csv", "-") == undisturbed
    assert told is None or told in report, report
    wait_for(lambda: not orphans(victim), 30)


@pytest.mark.parametrize("after_s", [0.0, 0.4, 1.2])
def test_a_gateway_killed_while_it_launches_stalls_nothing(victim: Platform, undisturbed: str, after_s: float) -> None:
    """Whatever was half-launched is noticed and launched again: the eval completes with the same table."""
    eval_id = eval_id_of(victim.seq(*RUN, "--no-wait"))
    time.sleep(after_s)
    kill_gateway(victim)
    assert "completed" in victim.seq("eval", "report", eval_id, "--wait", timeout=300)
    assert victim.seq("eval", "report", eval_id, "--csv", "-") == undisturbed


def done_of(platform: Platform, eval_id: str) -> int:
    """Episodes in the store."""
    return platform.api("GET", f"/v1/eval/{eval_id}/details").json()["progress"]["done"]


def orphans(platform: Platform) -> list[psutil.Process]:
    """Processes of this home that belong neither to the running gateway nor to the running head."""
    roots = [platform.address["pid"], *platform.status()["head"]["pids"]]
    owned = set(roots)
    for root in roots:
        if lives(root):
            owned |= {child.pid for child in psutil.Process(root).children(recursive=True)}
    return [process for process in platform.processes() if process.pid not in owned]
