"""Keys over HTTP: shown once, found by several names, never the last one removed."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import select

from runner.errors import Refused
from runner.store.queries import accounts
from runner.store.tables import Key
from runner.testing import account_of, first_key
from runner.vault import token_hash


def test_a_new_key_opens_the_account(client, connect):
    """A created key is `seq_live_` and 43 URL-safe characters, and works at once."""
    made = client.post("/v1/keys", json={"name": "laptop"}).json()
    assert re.fullmatch(r"seq_live_[A-Za-z0-9_-]{43}", made["secret"])
    assert (made["name"], made["kind"], made["account"]) == ("laptop", "full", "first")
    assert connect(made["secret"]).get("/v1/account").status_code == 200


def test_a_key_is_shown_once_and_stored_hashed(ctx, client):
    """Neither the list nor the store holds a key's text; the list shows its last four characters."""
    secret = client.post("/v1/keys", json={"name": "laptop"}).json()["secret"]
    listed = client.get("/v1/keys")
    assert secret not in listed.text
    assert f"seq_live_…{secret[-4:]}" in [row["key"] for row in listed.json()["data"]]
    with ctx.store.read() as session:
        key = session.scalars(select(Key).where(Key.name == "laptop")).one()
    assert key.hash == token_hash(secret)
    assert secret not in str(vars(key))


def test_a_key_without_a_name_gets_one(client):
    """Every key has a name to remove it by."""
    assert client.post("/v1/keys", json={}).json()["name"].startswith("key-")


def test_keys_are_listed_in_pages(client):
    """The list walks all keys once, oldest first, by limit and cursor."""
    for number in range(4):
        client.post("/v1/keys", json={"name": f"k{number}"})
    seen, cursor = [], None
    while True:
        answer = client.get("/v1/keys", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        assert (answer["total"], answer["offset"]) == (5, len(seen))
        seen += [row["name"] for row in answer["data"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == ["k0", "k1", "k2", "k3", "local"]


@pytest.mark.parametrize(
    "params", [{"limit": 0}, {"limit": 201}, {"limit": "many"}, {"cursor": "7"}, {"cursor": "o-1"}]
)
def test_a_wrong_page_is_refused(client, params):
    """A limit outside 1-200 and a cursor nobody gave out are `invalid_request`."""
    answer = client.get("/v1/keys", params=params)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert next(iter(params)) in answer.json()["detail"]


@pytest.mark.parametrize("form", ["id", "start", "name", "shown"])
def test_a_key_is_removed_by_any_of_its_names(client, connect, form):
    """Its id, the start of its id, its name and its shown form all mean the key; afterwards it opens nothing."""
    made = client.post("/v1/keys", json={"name": "old laptop"}).json()
    ref = {"id": made["id"], "start": made["id"][:12], "name": made["name"], "shown": made["key"]}[form]
    assert client.delete(f"/v1/keys/{ref}").json()["deleted"] == made["id"]
    assert connect(made["secret"]).get("/v1/account").status_code == 401


def test_an_ambiguous_name_is_refused(client):
    """A name that two keys have removes neither."""
    ids = {client.post("/v1/keys", json={"name": "twin"}).json()["id"] for _ in range(2)}
    answer = client.delete("/v1/keys/twin")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert set(answer.json()["details"]["keys"]) == ids
    assert client.get("/v1/keys").json()["total"] == 3


def test_an_unknown_key_is_answered_with_those_there_are(client):
    """`not_found` lists the account's keys by name."""
    answer = client.delete("/v1/keys/nope")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "local" in answer.json()["hint"]


def test_the_key_in_use_and_the_last_full_key_stay(client, connect, things):
    """A request cannot remove its own key, and an account keeps one full key, however many act keys it has."""
    second = client.post("/v1/keys", json={"name": "second"}).json()
    client.post("/v1/keys", json={"name": "robot", "deployment": "arm"})
    assert connect(second["secret"]).delete("/v1/keys/second").json()["code"] == "conflict"
    assert connect(second["secret"]).delete("/v1/keys/local").status_code == 200
    assert connect(second["secret"]).delete("/v1/keys/second").json()["code"] == "conflict"
    assert connect(second["secret"]).delete("/v1/keys/robot").status_code == 200
    assert connect(second["secret"]).get("/v1/keys").json()["total"] == 1


def test_two_keys_cannot_remove_each_other(ctx):
    """A removal that was let in before its own key was removed still leaves the account its last full key."""
    owner = account_of(ctx, first_key())
    with ctx.store.write() as session, pytest.raises(Refused, match="last full key"):
        accounts.remove_key(session, owner, "local", in_use="a key removed meanwhile")


def test_an_act_key_is_bound_to_one_deployment_of_the_account(client, other, things):
    """`deployment` is named in the key; another account's deployment is `not_found` like one that does not exist."""
    made = client.post("/v1/keys", json={"deployment": "arm"}).json()
    assert (made["kind"], made["deployment"], made["name"]) == ("act", "arm", "arm")
    assert {row["name"]: row.get("deployment") for row in client.get("/v1/keys").json()["data"]}["arm"] == "arm"
    missing = client.post("/v1/keys", json={"deployment": "leg"}).json()
    assert (missing["code"], missing["hint"]) == ("not_found", "yours: arm")
    foreign = other.post("/v1/keys", json={"deployment": "arm"}).json()
    assert (foreign["code"], "hint" in foreign) == ("not_found", False)


def test_the_first_account_makes_others(client, connect):
    """`account` makes an account with its first full key; a taken name is a conflict."""
    made = client.post("/v1/keys", json={"account": "lab"}).json()
    assert (made["account"], made["kind"]) == ("lab", "full")
    assert connect(made["secret"]).get("/v1/account").json()["account"] == "lab"
    assert client.post("/v1/keys", json={"account": "lab"}).json()["code"] == "conflict"
    assert client.post("/v1/keys", json={"account": "x", "deployment": "y"}).json()["code"] == "invalid_request"


def test_other_accounts_make_none(client, other, connect):
    """Only the first account's full keys may make accounts, and nothing is made by a refused try."""
    assert other.post("/v1/keys", json={"account": "mine"}).json()["code"] == "forbidden"
    assert client.post("/v1/keys", json={"account": "mine"}).status_code == 201


def test_accounts_do_not_see_each_others_keys(client, other):
    """Another account's key is neither listed nor removed, by any of its names."""
    made = client.post("/v1/keys", json={"name": "laptop"}).json()
    assert [row["name"] for row in other.get("/v1/keys").json()["data"]] == ["other"]
    for ref in (made["id"], made["name"], made["key"]):
        assert other.delete(f"/v1/keys/{ref}").json()["code"] == "not_found"


def test_the_keys_of_evals_are_not_listed(ctx, client, connect, things):
    """An instance's key is the platform's own business: unlisted, and no management path opens to it."""
    owner = account_of(ctx, first_key())
    with ctx.store.write() as session:
        accounts.add_key(session, owner, accounts.NewKey("zz", "seq_live_eval", "eval", "eval", eval_id="rec"), 0.0)
    assert client.get("/v1/keys").json()["total"] == 1
    assert client.delete("/v1/keys/zz").json()["code"] == "not_found"
    assert connect("seq_live_eval").get("/v1/account").json()["code"] == "forbidden"


def test_the_first_account_is_made_once(ctx):
    """Starting again keeps the first account; a fresh key (its file was lost) opens the same account."""
    with ctx.store.write() as session:
        again = accounts.ensure_first(session, first_key(), account_id="new", key_id="new", now=1.0)
        fresh = accounts.ensure_first(session, "seq_live_fresh", account_id="new", key_id="new2", now=1.0)
    assert again.id == fresh.id == account_of(ctx, first_key()) == account_of(ctx, "seq_live_fresh")
