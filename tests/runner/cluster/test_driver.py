"""The driver's answers where Ray gives none; all else of it is tried on a real head in `test_cluster`."""

from __future__ import annotations

from types import SimpleNamespace

from ray import exceptions

from runner.cluster import driver


def test_a_host_that_is_too_busy_to_answer_lives_with_unknown_pids(monkeypatch):
    """No number stands in for them: it would be taken for a process."""

    def late(_asked, timeout):
        raise exceptions.GetTimeoutError(f"nothing within {timeout} s")

    host = SimpleNamespace(placed=SimpleNamespace(remote=lambda: None))
    monkeypatch.setattr(driver.ray, "get_actor", lambda _name: host)
    monkeypatch.setattr(driver.ray, "get", late)
    monkeypatch.setattr(driver.ray.util, "list_named_actors", lambda: ["instance-a", "worker-b", "worker-b.1"])
    assert driver.Driver().placed("instance-a") == [None, None]
    assert driver.Driver().placed("worker-b") == [None, None, None]
