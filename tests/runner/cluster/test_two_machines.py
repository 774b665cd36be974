"""A group over two Ray nodes: both on this machine, each with a raylet of its own, as two machines would have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from runner.cluster import head as heads
from runner.cluster.base import Command
from runner.cluster.ray import RayCluster
from runner.settings import Settings
from tests.runner.cluster.test_cluster import TELLS, until

SECOND = "127.0.0.2"
# Ray takes a head on the loopback address for one at the machine's own, since others could not reach it; here they can.
JOINS = """
from ray._private import services
services.resolve_ip_for_localhost = lambda host: host
from ray.scripts.scripts import main
main()
"""
PORTS = (
    "object-manager-port",
    "node-manager-port",
    "runtime-env-agent-port",
    "metrics-export-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RayCluster]:
    """A cluster of two nodes with pretend cards."""
    settings = Settings(home=tmp_path, pretend={"H100": 16})
    made = RayCluster(settings)
    made.ensure()
    second = _second_node(settings)
    try:
        until(lambda: len(made._call("nodes", 15)) == 2)
        yield made
    finally:
        os.killpg(second.pid, signal.SIGKILL)
        second.wait()
        made.stop()


def _second_node(settings: Settings) -> subprocess.Popen[bytes]:
    head = heads.recorded(settings)
    assert head is not None
    argv = [
        *(sys.executable, "-c", JOINS, "start", f"--address={head.address}", "--block"),
        *(f"--{port}=0" for port in PORTS),
        *(f"--node-ip-address={SECOND}", "--num-cpus=1", f"--object-store-memory={heads.OBJECT_STORE_BYTES}"),
        *("--include-log-monitor=false", "--disable-usage-stats"),
    ]
    with (settings.logs / "ray-second.log").open("wb") as log:
        env = heads.platform_env(settings) | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
        return subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def _raylet(host_pid: int) -> int:
    return psutil.Process(host_pid).ppid()


@pytest.mark.ray
def test_a_group_has_a_machine_for_each_member(cluster: RayCluster, tmp_path: Path) -> None:
    """Its members run on two nodes, know where the first one is, and end together; the machines are free again then."""
    log = tmp_path / "worker-a.log"
    first = Command("worker-a", [sys.executable, "-c", TELLS], {}, "hello", str(log), "/tmp", num_cpus=1.0)
    second = replace(first, name="worker-a.1", log_path=str(tmp_path / "worker-a.1.log"))
    for _ in range(2):
        cluster.launch_group([first, second], "H100", 8)
        placed = cluster.living()["worker-a"]
        assert len({_raylet(placed.host_pid), *map(_raylet, placed.others)}) == 2
        told = _told(log), _told(Path(second.log_path))
        assert [one[:3] for one in told] == [["0", "2", "0"], ["1", "2", "0"]]
        assert told[0][3:] == told[1][3:]
        cluster.kill("worker-a")
        until(lambda: "worker-a" not in cluster.living())
        for file in (log, Path(second.log_path)):
            file.unlink()


@pytest.mark.ray
def test_no_machine_no_group(cluster: RayCluster) -> None:
    """Real cards that no machine has are refused in a sentence, and nothing is left of the try."""
    cluster._settings = replace(cluster._settings, pretend={})
    commands = [Command(name, ["true"], {}, "", "/dev/null", "/") for name in ("worker-b", "worker-b.1", "worker-b.2")]
    with pytest.raises(OSError, match="a group of 3 machines was asked for, and the cluster has 2"):
        cluster.launch_group(commands, "H100", 8)
    assert "worker-b" not in cluster.living()


def _told(log: Path) -> list[str]:
    until(lambda: log.exists() and log.read_text().count("\n") >= 2)
    return log.read_text().split()
