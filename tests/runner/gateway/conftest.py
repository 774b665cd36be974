"""A gateway over a test context, its first account's client, and rows to look at."""

from __future__ import annotations

import pytest

from runner.store.tables import (
    Adapter,
    Benchmark,
    BenchmarkVersion,
    Deployment,
    Episode,
    Eval,
    Instance,
    Version,
    Worker,
)
from runner.testing import account_of, add_account, first_key, make_client, make_context


@pytest.fixture
def ctx(tmp_path):
    made = make_context(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def connect(ctx):
    """Make a client for a key (None: no key)."""
    return lambda key=None: make_client(ctx, key)


@pytest.fixture
def client(connect):
    """The first account's client."""
    return connect(first_key())


@pytest.fixture
def other(ctx, connect):
    """Another account's client."""
    return connect(add_account(ctx, "other"))


@pytest.fixture
def things(ctx):
    """The first account has deployment `arm`, benchmark `table`, adapter `lift`, evals `rec` (recorded) and `dry`."""
    owner = account_of(ctx, first_key())
    rows = [
        [Deployment(id="d", account_id=owner, name="arm", handler_ref="m:C", created_at=1.0)],
        [
            Version(
                id="v",
                deployment_id="d",
                number=1,
                state="ready",
                request={"resources": {"gpu": ["cpu"]}},
                created_at=1.0,
            )
        ],
        [Benchmark(id="b", account_id=owner, name="table", handler_ref="m:B", created_at=1.0)],
        [BenchmarkVersion(id="bv", benchmark_id="b", number=1, state="ready", request={}, created_at=1.0)],
        [Adapter(id="a", account_id=owner, name="lift", handler_ref="m:A", latest=1, created_at=1.0)],
        [_eval(owner, "rec", 1.0), _eval(owner, "dry", 2.0)],
        [_episode("rec", 0, recorded=False), _episode("rec", 1, recorded=True), _episode("dry", 0, recorded=False)],
        [
            Worker(id="worker-1", version_id="v", purpose="serve", state="ready", pid=11, created_at=1.0),
            Worker(id="worker-0", version_id="v", purpose="check", state="stopped", pid=10, created_at=0.5),
            Instance(id="instance-1", eval_id="rec", state="running", pid=21, pids=[22, 23], created_at=1.0),
            Instance(id="instance-0", eval_id="rec", state="lost", created_at=0.5),
        ],
    ]
    with ctx.store.write() as session:
        for batch in rows:
            session.add_all(batch)
            session.flush()
    ctx.blobs.put("eval/rec/1/1/video.mp4", b"12345")


def _eval(owner, eval_id, at):
    return Eval(
        id=eval_id,
        account_id=owner,
        status="completed",
        model="arm",
        version_id="v",
        benchmark="table",
        benchmark_version_id="bv",
        request={},
        plan={},
        estimate={},
        total=2,
        recorded=eval_id == "rec",
        created_at=at,
    )


def _episode(eval_id, index, *, recorded):
    outcome = {"index": index, "attempt": 1, "steps": 1, "acts": 1, "recorded": recorded}
    return Episode(eval_id=eval_id, index=index, state="done", outcome=outcome)
