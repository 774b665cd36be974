"""Every table of the store, one file a noun."""

from runner.store.tables._base import Base
from runner.store.tables.accounts import Account, Key
from runner.store.tables.adapters import Adapter, AdapterVersion
from runner.store.tables.benchmarks import Benchmark, BenchmarkVersion
from runner.store.tables.deployments import Deployment, Version
from runner.store.tables.evals import Arm, Episode, Eval, Instance, Part, Schedule
from runner.store.tables.robots import Robot
from runner.store.tables.workers import Worker

__all__ = [
    "Account",
    "Adapter",
    "AdapterVersion",
    "Arm",
    "Base",
    "Benchmark",
    "BenchmarkVersion",
    "Deployment",
    "Episode",
    "Eval",
    "Instance",
    "Key",
    "Part",
    "Robot",
    "Schedule",
    "Version",
    "Worker",
]
