"""Which key opens what."""

from __future__ import annotations

import pytest

PUBLIC = ["/healthz", "/v1/models", "/v1/pricing", "/v1/templates"]
OWNED = [
    ("GET", "/v1/status"),
    ("GET", "/v1/account"),
    ("GET", "/v1/keys"),
    ("POST", "/v1/keys"),
    ("DELETE", "/v1/keys/any"),
    ("GET", "/v1/volumes"),
    ("GET", "/v1/secrets"),
    ("POST", "/v1/secrets"),
    ("DELETE", "/v1/secrets/any"),
]


@pytest.mark.parametrize("path", PUBLIC)
def test_public_paths_need_no_key(connect, path):
    """Health, models and prices answer anyone, also with a key nobody has."""
    assert connect(None).get(path).status_code == 200
    assert connect("seq_live_unknown").get(path).status_code == 200


@pytest.mark.parametrize(("method", "path"), OWNED)
@pytest.mark.parametrize("header", [None, "Bearer seq_live_nobody", "Basic abc", "Bearer ", "seq_live_bare"])
def test_other_paths_need_a_key_that_exists(connect, method, path, header):
    """No header, another scheme and an unknown key are `unauthenticated`, whatever the body."""
    headers = {} if header is None else {"Authorization": header}
    answer = connect(None).request(method, path, headers=headers, json={"nonsense": 1} if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert "seq_live_nobody" not in answer.text


@pytest.mark.parametrize(("method", "path"), OWNED)
def test_an_act_key_opens_no_management_path(client, connect, things, method, path):
    """An act key is `forbidden` everywhere but at its deployment's door."""
    secret = client.post("/v1/keys", json={"deployment": "arm"}).json()["secret"]
    answer = connect(secret).request(method, path, json={} if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "act key" in answer.json()["detail"]
