"""Account, prices, models, volumes, secrets, health and status: what there is, and only the caller's."""

from __future__ import annotations

import os

import pytest

from runner.cluster.base import ClusterLostError
from runner.cluster.fake import FakeCluster
from runner.pricing import CARDS, cpu_usd
from runner.testing import first_key, make_client, make_context


def test_the_account_tells_what_it_holds(client, other, things):
    """Usage counts the caller's own policies and benchmarks; no card is held; the limit is 8."""
    mine = client.get("/v1/account").json()
    assert mine["usage"] == {"policies": 1, "benchmarks": 1}
    assert mine["gpus"] == {
        "limit": 8,
        "in_use": {"serving": 0, "eval": 0, "total": 0},
        "available": 8,
        "waiting_evals": [],
    }
    assert mine["balance"]["balance"] == 0
    assert mine["limits"]["max_gpus_per_user"] == 8
    assert other.get("/v1/account").json()["usage"] == {"policies": 0, "benchmarks": 0}


def test_the_price_list_has_the_listed_cards(client):
    """Every published card has its row with all published fields, beside cores, memory and regions."""
    prices = client.get("/v1/pricing").json()
    assert {row["gpu"] for row in prices["gpus"]} == {"A100", "A100-40GB", "B200", "H100", "L4", "RTX-PRO-6000"}
    fields = {
        "gpu",
        "usd_per_hour",
        "usd_per_second",
        "vram_gb",
        "policy",
        "benchmark",
        "rt_core",
        "nvenc",
        "render_ms",
    }
    assert all(fields <= set(row) for row in prices["gpus"])
    assert {row["gpu"] for row in prices["gpus"] if row["benchmark"]} == {"L4", "RTX-PRO-6000"}
    assert prices["cpu"]["usd_per_core_hour"] > 0
    assert prices["memory"]["usd_per_gib_hour"] > 0
    assert (prices["compute_billed"], prices["min_billable_s"]) == (True, 60)
    assert {"region": "us-west", "multiplier": 1.75} in prices["regions"]


def test_processor_time_costs_by_the_list(client):
    """An hour of one core and one GiB costs what the list says."""
    prices = client.get("/v1/pricing").json()
    hour = prices["cpu"]["usd_per_core_hour"] + prices["memory"]["usd_per_gib_hour"]
    assert cpu_usd(3600, 3600) == pytest.approx(hour)
    assert all(card.usd_per_hour > 0 for card in CARDS)


def test_no_model_is_served_yet(client):
    """The list of models is empty for both endpoints; a third endpoint is refused by name."""
    assert client.get("/v1/models").json() == {"data": []}
    assert client.get("/v1/models", params={"endpoint": "chat"}).json() == {"data": []}
    assert "'chat' or 'decide'" in client.get("/v1/models", params={"endpoint": "sing"}).json()["detail"]


def test_recordings_are_listed_as_volumes(client, other, things):
    """An eval with a video is the volume `eval:<id>` with its size; one without is not; another's is not shown."""
    listed = client.get("/v1/volumes").json()
    assert [(row["name"], row["state"], row["size_bytes"]) for row in listed["data"]] == [("eval:rec", "active", 5)]
    assert (listed["total"], listed["next_cursor"]) == (1, None)
    assert other.get("/v1/volumes").json()["data"] == []


def test_secrets_are_refused_until_they_exist(client):
    """The list is empty; storing and removing say that secrets come later, and echo no value."""
    assert client.get("/v1/secrets").json() == {"secrets": []}
    stored = client.post("/v1/secrets", json={"name": "hub", "env": {"TOKEN": "tell-no-one"}})
    removed = client.delete("/v1/secrets/hub")
    assert (stored.status_code, removed.status_code) == (400, 404)
    assert all("later version" in answer.json()["detail"] for answer in (stored, removed))
    assert "tell-no-one" not in stored.text


def test_health_names_this_start(connect):
    """Health tells the process and an id that differs between two starts."""
    one, two = connect().get("/healthz").json(), connect().get("/healthz").json()
    assert (one["status"], one["pid"]) == ("ok", os.getpid())
    assert one["instance"] != two["instance"]


def test_status_tells_what_runs(ctx, client, other, things):
    """The caller's open workers and instances are listed, ended ones not; the head only to the first account."""
    mine = client.get("/v1/status").json()
    assert mine["gateway"]["pid"] == os.getpid()
    serving = {"id": "worker-1", "deployment": "arm", "purpose": "serve", "state": "ready", "pid": 11, "acts": 0}
    assert mine["workers"] == [serving]
    assert mine["instances"] == [{"id": "instance-1", "eval": "rec", "state": "running", "pid": 21, "pids": [22, 23]}]
    assert mine["head"] == {"pids": ctx.cluster.head_pids()}
    theirs = other.get("/v1/status").json()
    assert (theirs["workers"], theirs["instances"], "head" in theirs) == ([], [], False)


@pytest.mark.parametrize("pretend", [False, True])
def test_status_tells_the_cards_and_whether_they_are_real(tmp_path, pretend):
    """Cards by name, with a word where an operator declared them."""
    cluster = FakeCluster(cards={"L4": 2}, pretend=pretend)
    cluster.ensure()
    ctx = make_context(tmp_path, cluster=cluster)
    told = make_client(ctx, first_key()).get("/v1/status").json()
    assert (told["cards"], told["pretend"]) == ({"L4": 2}, pretend)
    cluster.lose_head()
    told = make_client(ctx, first_key()).get("/v1/status").json()
    assert (told["cards"], told["pretend"]) == (None, None)
    ctx.store.close()


def test_status_survives_a_lost_head(ctx, client, monkeypatch):
    """While the cluster is gone, status answers and says so."""

    def lost(*_):
        raise ClusterLostError("the head did not answer")

    monkeypatch.setattr(type(ctx.cluster), "head_pids", lost)
    assert client.get("/v1/status").json()["head"] == {"pids": [], "error": "the head did not answer"}


def test_the_bounds_read_as_a_change_answers_them(client, things):
    """What `GET` tells of a deployment's scaling is what the change before it answered; nothing else changed."""
    path = "/v1/deployments/arm/scaling"
    assert client.get(path).json()["min_workers"] == 0
    changed = client.put(path, json={"min_workers": 2}).json()
    assert changed["min_workers"] == 2
    assert client.get(path).json() == changed
