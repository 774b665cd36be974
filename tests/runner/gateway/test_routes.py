"""What holds of every route there is, whoever wrote it."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from fastapi.routing import APIRoute

from runner.gateway.app import ROUTERS
from runner.gateway.rate import DOOR, UNCOUNTED
from runner.testing import add_account, make_client, make_context

PUBLIC = {"/healthz", "/v1/models", "/v1/pricing", "/v1/templates", "/v1/templates/{name}/code"}
OWNED_BY_FIRST = {"deployments": "arm", "benchmarks": "table", "eval": "rec", "adapters": "lift"}
# It asks whether a name is free in the caller's own account.
CLAIM = "/v1/deployments/{name}/claim"


def routes():
    """Every method and path of the gateway."""
    for name in ROUTERS:
        for route in import_module(f"runner.gateway.routers.{name}").router.routes:
            assert isinstance(route, APIRoute)
            for method in sorted(route.methods):
                yield method, route.path


def noun(path):
    """`arm` of `/v1/arms/{name}`: None for a path that names no object of an account."""
    found = re.match(r"/v1/(\w+)/\{", path)
    return found and found[1]


BODIES = {"/v1/deployments/{name}/evals/schedule": {"benchmark": "b"}}
ALL = sorted(routes())
NAMED = [(method, path) for method, path in ALL if noun(path) in OWNED_BY_FIRST]


def ask(client, method, path, name="0"):
    """The answer to a request for `name`: its status, and its body without what differs between any two requests."""
    body = BODIES.get(path, {}) if method in {"POST", "PUT"} else None
    path = re.sub(r"\{[^}]*\}", "0", re.sub(r"\{[^}]*\}", name, path, count=1))
    answer = client.request(method, path, json=body, params={"handler_ref": "m:C", "benchmark": "b"})
    told = {key: value for key, value in answer.json().items() if key != "request_id"}
    return answer.status_code, told


def test_no_route_is_declared_twice():
    """One module answers a path; another's would never be reached."""
    alike = [(method, re.sub(r"\{[^}]*\}", "{}", path)) for method, path in ALL]
    assert len(set(alike)) == len(alike)


@pytest.mark.parametrize(("method", "path"), [route for route in ALL if route[1] not in PUBLIC])
def test_every_route_but_the_public_ones_needs_a_key(ctx, method, path):
    """Without a key, and before anything else is looked at, the answer is `unauthenticated`."""
    status, told = ask(make_client(ctx), method, path)
    assert (status, told["code"]) == (401, "unauthenticated")


@pytest.mark.parametrize(("method", "path"), NAMED)
def test_anothers_object_reads_like_one_that_does_not_exist(ctx, things, method, path):
    """To another account, a name that the first account has answers exactly as a name that nobody has."""
    name = OWNED_BY_FIRST[noun(path)]
    nobodys = "x" * len(name)
    other = make_client(ctx, add_account(ctx, "other"))
    status, told = ask(other, method, path, name)
    missing_status, missing = ask(other, method, path, nobodys)
    assert (status, str(told).replace(name, nobodys)) == (missing_status, str(missing))
    assert path == CLAIM or (status, told["code"]) == (404, "not_found")


@pytest.mark.parametrize("key", [None, "seq_live_nobody"])
def test_without_a_known_key_every_path_counts_by_address(tmp_path, key):
    """Public paths and refused keys alike; but for the health check and the platform's own processes."""
    slow = make_context(tmp_path, rate_per_s=0.5)
    client, free = make_client(slow, key), set()
    for method, path in ALL:
        slow.clock.sleep(10)
        answers = [ask(client, method, path) for _ in range(2)]
        assert answers[0][0] != 429, path
        if answers[1][0] != 429:
            free.add(path)
        else:
            assert "without a key, this address may ask 0.5 times a second" in answers[1][1]["detail"]
    slow.store.close()
    assert free == {path for _, path in ALL if path == "/healthz" or path.startswith("/internal/")}


def test_the_paths_that_are_named_exist():
    """A path that is renamed would silently lose its own pace."""
    assert {path for _, path in ALL} >= DOOR | UNCOUNTED
