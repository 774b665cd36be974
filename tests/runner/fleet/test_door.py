"""The gateway's own way to a worker: the one certificate it takes, and what it makes of refusals."""

from __future__ import annotations

import hashlib
import ssl

import httpx
import pytest

from runner.fleet import certificates
from runner.fleet.door import _pinned, _refusal
from seq.contract.errors import error_body

NOW = 1_790_000_000.0


def shake_hands(client_context, certificate, tmp_path):
    """A TLS handshake in memory; raises ssl.SSLError where the client refuses."""
    path = tmp_path / "server.pem"
    path.write_text(certificate.cert_pem + certificate.key_pem)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(path)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert(binary_form=True)


def test_a_workers_own_certificate_is_taken_and_known_by_its_fingerprint(tmp_path):
    """The handshake with the pinned certificate succeeds; its DER bytes hash to the fingerprint robots are given."""
    made = certificates.make("worker-1", "127.0.0.1", NOW)
    shown = shake_hands(_pinned(made.cert_pem), made, tmp_path)
    assert hashlib.sha256(shown).hexdigest() == made.fingerprint


def test_any_other_certificate_is_refused(tmp_path):
    """A worker with another certificate of the same name is not talked to."""
    mine, other = (certificates.make("worker-1", "127.0.0.1", NOW) for _ in range(2))
    with pytest.raises(ssl.SSLError):
        shake_hands(_pinned(mine.cert_pem), other, tmp_path)


def test_the_policys_own_exception_is_told_with_its_frames():
    """A `policy_error` reads as type and message, with the traceback beside it."""
    exception = {"type": "KeyError", "message": "'x'", "traceback": 'File "policy.py"'}
    body = error_body("policy_error", "the policy raised", details={"exception": exception})
    error = _refusal(httpx.Response(500, json=body.wire()))
    assert (str(error), error.traceback) == ("KeyError: 'x'", 'File "policy.py"')


def test_other_refusals_are_told_in_the_workers_words():
    """A refusal without an exception is its sentence; an answer that is none of ours is its status."""
    body = error_body("invalid_request", "camera 'front' is missing")
    assert str(_refusal(httpx.Response(400, json=body.wire()))) == "camera 'front' is missing"
    assert str(_refusal(httpx.Response(502, text="<html>"))) == "the worker answered HTTP 502"
