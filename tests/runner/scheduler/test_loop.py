"""The platform's heartbeat, one step at a time."""

from __future__ import annotations

from runner.cluster.base import ClusterLostError
from runner.scheduler.loop import Loop
from runner.testing import make_context


class Counter:
    """A controller that counts its steps, and fails where told to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.steps = 0
        self._failure = failure

    def tick(self) -> None:
        self.steps += 1
        if self._failure is not None:
            raise self._failure


def test_a_failing_controller_stops_no_other(tmp_path):
    """Whatever one controller raises, the next still takes its step, in this round and in later ones."""
    ctx = make_context(tmp_path)
    controllers = [Counter(RuntimeError("broken")), Counter(ClusterLostError("gone")), Counter()]
    loop = Loop(ctx, controllers)
    loop.step()
    loop.step()
    assert [controller.steps for controller in controllers] == [2, 2, 2]
    ctx.store.close()


def test_a_lost_head_is_brought_back_before_the_controllers_look(tmp_path):
    """Each step first makes sure of the cluster."""
    ctx = make_context(tmp_path)
    ctx.cluster.lose_head()
    Loop(ctx, []).step()
    assert ctx.cluster.living() == {}
    ctx.store.close()


def test_a_woken_loop_takes_a_step_and_a_stopped_one_takes_none(tmp_path):
    """`start` takes a step at once; after `stop` no wake leads to another."""
    ctx = make_context(tmp_path, tick_s=3600.0)
    controller = Counter()
    loop = Loop(ctx, [controller])
    loop.start()
    while controller.steps == 0:
        pass
    loop.stop()
    steps = controller.steps
    ctx.wake.set()
    assert controller.steps == steps
    ctx.store.close()
