"""What any cluster does, asked of the fake and of a real Ray head alike."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.cluster import head as heads
from runner.cluster.base import LEAST, Capacity, Cluster, ClusterLostError, Command, EngineRun
from runner.cluster.fake import FakeCluster
from runner.cluster.hosts import GRACE_S
from runner.cluster.ray import RayCluster
from runner.settings import Settings

LIMIT_S = 120
TELLS = """
import os, sys
print(*(os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")))
print(os.environ["MASTER_PORT"], os.environ["SEQ_GROUP_PORT"], flush=True)
sys.stdin.readline(), sys.stdin.read()
"""
WAITS = "import sys; print(sys.stdin.readline()); sys.stdin.read()"


class Bench:
    """A cluster under test and the ways to harm it."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.home = home

    @property
    def real(self) -> bool:
        """Whether processes run."""
        return isinstance(self.cluster, RayCluster)

    def command(self, name: str, code: str = WAITS) -> Command:
        """A Python command of that name."""
        log = self.home / f"{name}.log"
        return Command(name, [sys.executable, "-c", code], {"PATH": os.environ["PATH"]}, "hello", str(log), "/tmp")

    def lose(self, name: str) -> None:
        """Let the named one's host die."""
        if isinstance(self.cluster, FakeCluster):
            self.cluster.lose(name)
        else:
            os.kill(self.cluster.living()[name].host_pid, signal.SIGKILL)

    def lose_head(self) -> None:
        """Let the head's main process die."""
        if isinstance(self.cluster, FakeCluster):
            self.cluster.lose_head()
            return
        head = heads.recorded(Settings(home=self.home))
        assert head is not None
        for process in psutil.process_iter():
            if process.name() == "raylet" and heads._session_of(process.pid) == head.pid:
                process.kill()
        until(lambda: not heads.alive(head))


def until(holds: Callable[[], Any], limit_s: float = LIMIT_S) -> None:
    """Wait until it holds; a test that waits in vain fails."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.05)


@pytest.fixture(scope="module", params=["fake", pytest.param("ray", marks=pytest.mark.ray)])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A cluster with a head; one for all tests here, since a real one takes seconds to start."""
    home = tmp_path_factory.mktemp("home")
    made = Bench(
        FakeCluster() if request.param == "fake" else RayCluster(Settings(home=home, pretend={"H100": 16})), home
    )
    made.cluster.ensure()
    yield made
    made.cluster.stop()


def test_a_living_head_is_kept(bench):
    """`ensure` changes nothing while the head lives, and names its processes."""
    before = bench.cluster.head_pids()
    assert bench.cluster.ensure() is False
    assert bench.cluster.head_pids() == before != []


def test_what_is_launched_lives_until_it_is_killed(bench):
    """A launched command is listed under its name with its pids; killed, it is gone, and killing again is no error."""
    bench.cluster.launch_command(bench.command("worker-a"))
    placed = bench.cluster.living()["worker-a"]
    assert placed.name == "worker-a"
    assert placed.pid not in (None, placed.host_pid)
    bench.cluster.kill("worker-a")
    until(lambda: "worker-a" not in bench.cluster.living())
    bench.cluster.kill("worker-a")


def test_a_command_that_is_stopped_is_killed_at_once(bench):
    """One that hears no signal does not live on for as long as it may take to wind up."""
    bench.cluster.launch_command(bench.command("worker-s"))
    pid = bench.cluster.living()["worker-s"].pid
    if bench.real:
        os.kill(pid, signal.SIGSTOP)
    bench.cluster.kill("worker-s", at_once=True)
    until(lambda: "worker-s" not in bench.cluster.living(), GRACE_S - 5)


def test_a_name_is_launched_once(bench):
    """Launching a name that lives is refused, and what lives is left alone."""
    bench.cluster.launch_command(bench.command("worker-b"))
    before = bench.cluster.living()["worker-b"]
    with pytest.raises(ValueError, match="launched once"):
        bench.cluster.launch_command(bench.command("worker-b"))
    assert bench.cluster.living()["worker-b"] == before


def test_what_dies_is_no_longer_listed(bench):
    """A host that dies on its own is gone from the list, and its name is free again."""
    bench.cluster.launch_command(bench.command("worker-c"))
    bench.lose("worker-c")
    until(lambda: "worker-c" not in bench.cluster.living())
    bench.cluster.launch_command(bench.command("worker-c"))


def test_a_lost_head_is_replaced_and_nothing_of_it_lives(bench):
    """After the head is lost `ensure` says that everything is gone, nothing is listed, and launching works again."""
    bench.cluster.launch_command(bench.command("worker-d"))
    placed = bench.cluster.living()["worker-d"]
    bench.lose_head()
    assert bench.cluster.ensure() is True
    assert bench.cluster.living() == {}
    if bench.real:
        assert not psutil.pid_exists(placed.host_pid)
        assert not psutil.pid_exists(placed.pid)
    bench.cluster.launch_command(bench.command("worker-d"))


def test_a_group_is_one_unit(bench):
    """A group is listed once, with the hosts of all its machines; killed, all of it is gone, and it is no stray."""
    bench.cluster.launch_group([bench.command("worker-g"), bench.command("worker-g.1", TELLS)], "H100", 8)
    placed = bench.cluster.living()["worker-g"]
    assert [name for name in bench.cluster.living() if name.startswith("worker-g")] == ["worker-g"]
    assert len({placed.host_pid, placed.pid, *placed.others}) == 3
    assert not {placed.host_pid, *placed.others} & set(bench.cluster.head_pids())
    if bench.real:
        log = bench.home / "worker-g.1.log"
        until(lambda: log.read_text().count("\n") == 2)
        told, ports = log.read_text().splitlines()
        assert (told, len(set(ports.split()))) == ("1 2 0 127.0.0.1", 2)
    bench.cluster.kill("worker-g")
    until(lambda: "worker-g" not in bench.cluster.living())
    if bench.real:
        until(lambda: not any(psutil.pid_exists(pid) for pid in (placed.pid, placed.host_pid, *placed.others)))
    bench.cluster.launch_group([bench.command("worker-g"), bench.command("worker-g.1")], "H100", 8)


def test_a_group_takes_real_cards_on_machines_of_their_own(tmp_path, monkeypatch):
    """Each machine is asked for its cards by name; only pretend ones may share a machine."""
    cluster = RayCluster(Settings(home=tmp_path))
    sent = []
    monkeypatch.setattr(cluster, "_call", lambda name, limit_s, /, **args: sent.append(args) or [1, 2, 3])
    command = Command("worker-a", [], {}, "", "", "")
    cluster.launch_group([command, replace(command, name="worker-a.1")], "H100", 8)
    assert sent[0]["machine"] == {"GPU": 8, "accelerator_type:H100": LEAST}
    assert (sent[0]["share"], len(sent[0]["commands"])) == (False, 2)


def test_a_capacity_is_told(bench):
    """The cores are at least one, and a machine without cards names none."""
    capacity = bench.cluster.capacity()
    assert capacity.cores >= 1
    assert all(count >= 0 for count in capacity.cards.values())


def test_pretend_cards_stand_for_the_real_ones_and_are_seen_by_no_command(tmp_path, monkeypatch):
    """The capacity names them and says so, and whatever card there is, a command's environment hides it."""
    cluster = RayCluster(Settings(home=tmp_path, pretend={"L4": 2}))
    sent = []

    def answer(name, limit_s, /, **args):
        sent.append(args)
        return [{"CPU": 4.0, "GPU": 1.0, "accelerator_type:H100": 1.0}] if name == "nodes" else [1, 2]

    monkeypatch.setattr(cluster, "_call", answer)
    assert cluster.capacity() == Capacity(4, {"L4": 2}, pretend=True)
    assert cluster.real_cards() == {"H100": 1}
    cluster.launch_command(Command("worker-a", [], {"PATH": "x"}, "", "", ""))
    assert sent[-1]["fields"]["env"] == {"PATH": "x", "CUDA_VISIBLE_DEVICES": ""}


def test_without_a_head_nothing_is_answered(tmp_path):
    """Before `ensure` every question raises ClusterLostError, from the real one as from the fake."""
    for cluster in (FakeCluster(), RayCluster(Settings(home=tmp_path))):
        with pytest.raises(ClusterLostError):
            cluster.living()
        assert cluster.head_pids() == []


@pytest.mark.ray
def test_another_process_of_the_platform_finds_what_runs(bench):
    """A platform that starts again joins the head it recorded and sees what runs, started once."""
    if not bench.real:
        return
    bench.cluster.launch_command(bench.command("worker-e"))
    again = RayCluster(Settings(home=bench.home))
    assert again.ensure() is False
    assert again.living()["worker-e"] == bench.cluster.living()["worker-e"]
    again._leave()


@pytest.mark.ray
def test_a_lost_driver_is_replaced_and_nothing_else(bench):
    """When Ray ends the driver, the head and all that runs in it stay; the next `ensure` joins again."""
    if not bench.real:
        return
    bench.cluster.launch_command(bench.command("worker-f"))
    before = bench.cluster.living()["worker-f"]
    os.kill(bench.cluster._driver.pid, signal.SIGKILL)
    with pytest.raises(ClusterLostError):
        bench.cluster.living()
    assert bench.cluster.ensure() is False
    assert bench.cluster.living()["worker-f"] == before


def test_the_fake_records_what_it_was_asked():
    """Tests can read what was launched and killed, in order."""
    cluster = FakeCluster()
    cluster.ensure()
    run = EngineRun("instance-1", {"a": 1}, "log")
    cluster.launch_engine(run)
    cluster.kill("instance-1")
    assert (cluster.launched, cluster.killed) == ([run], ["instance-1"])


@pytest.mark.ray
def test_a_host_that_waits_is_no_work_and_takes_the_next(bench):
    """It is up a little after a launch, listed under no name, and what it is given lives under its own."""
    if not bench.real:
        return
    bench.cluster.launch_command(bench.command("worker-w"))
    until(lambda: spares(bench))
    (waiting,) = spares(bench)
    assert all(waiting not in (placed.host_pid, placed.pid) for placed in bench.cluster.living().values())
    bench.cluster.launch_command(bench.command("worker-x"))
    assert bench.cluster.living()["worker-x"].host_pid == waiting
    with pytest.raises(ValueError, match="launched once"):
        bench.cluster.launch_command(bench.command("worker-x"))
    again = RayCluster(Settings(home=bench.home))
    assert again.ensure() is False
    assert again.living()["worker-x"] == bench.cluster.living()["worker-x"]
    again._leave()
    bench.cluster.kill("worker-x")
    until(lambda: "worker-x" not in bench.cluster.living())


@pytest.mark.ray
def test_a_host_that_died_while_it_waited_costs_no_launch(bench):
    """Another one is started in its place."""
    if not bench.real:
        return
    bench.cluster.launch_command(bench.command("worker-y"))
    until(lambda: spares(bench))
    (waiting,) = spares(bench)
    os.kill(waiting, signal.SIGKILL)
    bench.cluster.launch_command(bench.command("worker-z"))
    assert bench.cluster.living()["worker-z"].host_pid not in (None, waiting)


def spares(bench: Bench) -> list[int]:
    """The hosts of processes that run nothing."""
    head = heads.recorded(Settings(home=bench.home))
    assert head is not None
    used = {placed.host_pid for placed in bench.cluster.living().values()}
    named = {pid for pid in bench.cluster.head_pids() if psutil.Process(pid).name().startswith("ray::ProcessHos")}
    return sorted(named - used)


@pytest.mark.ray
def test_nothing_that_runs_in_an_environment_outlives_the_head(tmp_path):
    """Neither a stopped process, which hears no pipe close, nor one whose host was killed before it."""
    settings = Settings(home=tmp_path)
    python = settings.envs / "e" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    cluster = RayCluster(settings)
    cluster.ensure()
    left = subprocess.Popen([str(python), "-c", "import time; time.sleep(600)"], start_new_session=True)
    os.kill(left.pid, signal.SIGSTOP)
    cluster.stop()
    left.wait(10)
    assert not psutil.pid_exists(left.pid)
