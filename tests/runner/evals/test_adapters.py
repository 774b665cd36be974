"""The registry of adapters, through its routes."""

from __future__ import annotations

import pytest

from runner.store.queries import evals
from runner.testing import account_of, first_key
from seq.contract.adapters import content_hash

from .conftest import ADAPTER, SOURCE


def register(client, **what):
    return client.post("/v1/adapters", json={**ADAPTER, **what})


def test_the_same_bytes_are_the_same_version(client):
    """A file registered again is the version it already is; a changed one is the next."""
    first = register(client).json()
    again = register(client).json()
    changed = register(client, source=SOURCE + "# more\n").json()
    back = register(client).json()
    assert first == {
        "name": "bridge",
        "version": 1,
        "created": True,
        "lossy": True,
        "sha256": content_hash("Bridge", SOURCE),
    }
    assert again == {**first, "created": False}
    assert (changed["version"], changed["created"]) == (2, True)
    assert (back["version"], back["created"]) == (1, False)


def test_the_file_comes_back_byte_for_byte(client):
    """The source of a version is what was registered, under the hash that names it."""
    register(client)
    register(client, source=SOURCE + "# more\n")
    latest = client.get("/v1/adapters/bridge/source").json()
    first = client.get("/v1/adapters/bridge/source", params={"version": 1}).json()
    assert (latest["version"], latest["source"]) == (2, SOURCE + "# more\n")
    assert first["source"] == SOURCE
    assert first["sha256"] == content_hash(first["class_name"], first["source"])


def test_listing_and_showing(client):
    """`ls` has a row a name, `show` every version newest first."""
    register(client)
    register(client, source=SOURCE + "# more\n")
    register(client, name="other")
    rows = client.get("/v1/adapters").json()["adapters"]
    assert [(row["name"], row["latest"], row["versions"], row["lossy"]) for row in rows] == [
        ("bridge", 2, 2, True),
        ("other", 1, 1, True),
    ]
    shown = client.get("/v1/adapters/bridge").json()
    assert [version["version"] for version in shown["versions"]] == [2, 1]
    assert shown["evals"] == []


def test_a_name_held_by_another_class_is_a_conflict_unless_replaced(client):
    """Another module:Class takes a name only with replace."""
    register(client)
    other = {"handler_ref": "mine:Bridge", "source": SOURCE + "# mine\n"}
    refused = register(client, **other)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "adapter:Bridge" in refused.json()["detail"]
    assert register(client, **other, replace=True).json()["version"] == 2


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ({"source": "class Bridge(:\n"}, 400, "not Python"),
        ({"source": "class Other:\n    pass\n"}, 400, "no class Bridge"),
        ({"source": "class Bridge:\n    pass\n" + "#" * 300_000}, 413, "bytes"),
        ({"transforms": []}, 400, "transforms"),
        ({"name": "9bad"}, 400, "name"),
        ({"pairs": []}, 400, "pairs"),
    ],
)
def test_what_is_no_adapter_is_refused(client, what, status, said):
    """Files that cannot be an adapter are refused in a sentence, and nothing is kept."""
    refused = register(client, **what)
    assert refused.status_code == status
    assert said in refused.json()["detail"]
    assert client.get("/v1/adapters").json()["total"] == 0


def test_a_removed_adapter_is_gone_and_its_name_free(client):
    """`rm` deletes every version."""
    register(client)
    assert client.delete("/v1/adapters/bridge").json() == {"name": "bridge", "deleted_versions": 1}
    assert client.get("/v1/adapters/bridge").status_code == 404
    assert register(client).json()["version"] == 1


def test_an_adapter_in_use_stays(client, ctx):
    """While an eval that uses it has not ended, an adapter cannot be removed; afterwards it can."""
    register(client)
    started = client.post("/v1/eval", json={"model": "arm", "benchmark": "table", "adapter": "bridge"}).json()
    refused = client.delete("/v1/adapters/bridge")
    assert refused.status_code == 409
    assert refused.json()["details"]["evals"] == [started["eval_id"]]
    assert client.get("/v1/adapters").json()["adapters"][0]["last_eval"]["eval_id"] == started["eval_id"]
    client.post(f"/v1/eval/{started['eval_id']}/cancel")
    assert client.delete("/v1/adapters/bridge").status_code == 200
    with ctx.store.read() as session:
        row = evals.find(session, account_of(ctx, first_key()), started["eval_id"])[0]
    assert row.plan["adapter"]["sha256"] == content_hash("Bridge", SOURCE)


def test_another_accounts_adapter_is_not_found(client, other):
    """Every route answers another account's name exactly as one that does not exist."""
    register(client)
    for method, path in (("GET", ""), ("GET", "/source"), ("DELETE", "")):
        theirs = other.request(method, f"/v1/adapters/bridge{path}")
        missing = other.request(method, f"/v1/adapters/nobody{path}")
        assert theirs.status_code == missing.status_code == 404
        assert theirs.json()["detail"].replace("bridge", "nobody") == missing.json()["detail"]
    assert other.get("/v1/adapters").json()["adapters"] == []


def test_an_unknown_version_is_answered_with_those_there_are(client):
    """name@vN of a version that is not there names the versions."""
    register(client)
    refused = client.get("/v1/adapters/bridge/source", params={"version": 7}).json()
    assert refused["code"] == "not_found"
    assert "bridge@v1" in refused["hint"]
