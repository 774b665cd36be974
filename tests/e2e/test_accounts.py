"""Two accounts on one platform: what is another's reads as what is not there."""

import re
from collections.abc import Iterator
from importlib import import_module

import pytest
from fastapi.routing import APIRoute

from runner.gateway.app import ROUTERS
from tests.e2e.harness import Platform

MORE = {"/v1/deployments/{name}/evals/schedule": {"benchmark": "toy-benchmark"}}
"""What a route wants beside the name, in its body or its query."""
ASKS_FOR_A_FREE_NAME = {"/v1/deployments/{name}/claim"}  # in the caller's own account


@pytest.fixture(scope="module")
def stranger(shared: Platform) -> str:
    """Another account's first key."""
    return shared.json("key", "create", "--account", "stranger")["secret"]


def test_every_route_hides_another_accounts_names(shared: Platform, stranger: str) -> None:
    """Each route that takes a name answers another account's with 404 not_found, whatever the method."""
    done = shared.seq("eval", "run", "toy-policy", "--benchmark", "toy-benchmark", "--adapter", "toy-adapter")
    names = {
        "deployments": "toy-policy",
        "benchmarks": "toy-benchmark",
        "adapters": "toy-adapter",
        "eval": re.search(r"\b[0-9a-f]{32}\b", done).group(),
        "keys": shared.json("key", "ls")["data"][0]["id"],
    }
    checked = 0
    for method, path in routes():
        noun = path.split("/")[2] if path.startswith("/v1/") else ""
        if path in ASKS_FOR_A_FREE_NAME or "{" not in path or noun not in names:
            continue
        concrete = re.sub(r"\{[^}]+\}", "1", re.sub(r"\{[^}]+\}", names[noun], path, count=1))
        more = MORE.get(path, {})
        body = None if method == "GET" else more if method == "PUT" else {}
        answer = shared.api(method, concrete, key=stranger, json=body, params=more)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), (method, concrete, answer.text)
        checked += 1
    assert checked >= 20


def routes() -> Iterator[tuple[str, str]]:
    """Every method and path of the gateway."""
    for module in ROUTERS:
        for route in import_module(f"runner.gateway.routers.{module}").router.routes:
            assert isinstance(route, APIRoute)
            for method in route.methods:
                yield method, route.path


def test_names_in_bodies_are_hidden_too(shared: Platform, stranger: str) -> None:
    """Connecting, scoring and binding a key to another account's deployment are not_found."""
    for path, body in (
        ("/v1/act/connect", {"model": "toy-policy", "session": "0" * 32}),
        ("/v1/eval", {"model": "toy-policy", "benchmark": "toy-benchmark"}),
        ("/v1/keys", {"deployment": "toy-policy"}),
    ):
        answer = shared.api("POST", path, key=stranger, json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), (path, answer.text)
    assert shared.api("GET", "/v1/act/ready?model=toy-policy", key=stranger).status_code == 404


def test_lists_show_only_ones_own(shared: Platform, stranger: str) -> None:
    """A new account has nothing."""
    for path, rows in (("/v1/deployments", "data"), ("/v1/benchmarks", "benchmarks"), ("/v1/adapters", "adapters")):
        assert shared.api("GET", path, key=stranger).json()[rows] == []
    assert shared.api("GET", "/v1/status", key=stranger).json()["workers"] == []


def test_an_act_key_drives_its_deployment_and_nothing_else(shared: Platform) -> None:
    """A key on a robot cannot list, deploy or score."""
    made = shared.json("key", "create", "--deployment", "toy-policy")
    key = made["secret"]
    assert made["kind"] == "act"
    assert shared.api("GET", "/v1/act/ready?model=toy-policy", key=key).status_code == 200
    assert shared.api("GET", "/v1/act/ready?model=panda-still", key=key).status_code in (403, 404)
    for method, path in (
        ("GET", "/v1/deployments"),
        ("POST", "/v1/keys"),
        ("GET", "/v1/account"),
        ("POST", "/v1/eval"),
    ):
        answer = shared.api(method, path, key=key, json={} if method == "POST" else None)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path
    shared.seq("key", "rm", made["id"])
    assert shared.api("GET", "/v1/act/ready?model=toy-policy", key=key).status_code == 401


def test_a_key_is_shown_once(shared: Platform) -> None:
    """Listing keys never shows one; the store holds no key's text."""
    made = shared.json("key", "create")
    assert made["secret"] not in shared.seq("key", "ls")
    assert made["secret"].encode() not in b"".join(path.read_bytes() for path in shared.home.glob("store.db*"))
    shared.seq("key", "rm", made["id"])
