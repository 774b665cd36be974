"""The client against a real TLS worker on a real socket: what no in-process transport can show.

Pinning happens in the handshake, so only a real one proves that every new connection is checked.
"""

import datetime as dt
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import sequence_ai
from sequence_ai import CertPinError
from sequence_ai.testing import FakePlatform

pytestmark = pytest.mark.e2e


class Identity:
    """A self-signed certificate: the server's TLS context and the fingerprint a gateway would hand out."""

    def __init__(self, folder, name):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.timezone.utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
        path = folder / f"{name}.pem"
        pem = serialization.Encoding.PEM
        path.write_bytes(
            certificate.public_bytes(pem)
            + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        self.fingerprint = certificate.fingerprint(hashes.SHA256()).hex(":").upper()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(path)


@pytest.fixture
def worker_identity(tmp_path):
    return Identity(tmp_path, "worker")


@pytest.fixture
def platform(worker_identity):
    return FakePlatform(infer=lambda body: {"outputs": body["inputs"]}, fingerprint=worker_identity.fingerprint)


def connected(platform, gateway):
    return sequence_ai.connect("toy", base_url=gateway.url, api_key=platform.key)


def test_acts_share_one_pinned_connection(platform, worker_identity):
    """A worker with the named certificate is driven over one kept-open TLS connection, the gateway over another."""
    with platform.served() as gateway, platform.served(worker_identity.context) as worker:
        platform.connect["worker_url"] = worker.url
        with connected(platform, gateway) as policy:
            assert [policy.predict(number) for number in range(5)] == list(range(5))
        assert (len(worker.peers), len(gateway.peers)) == (1, 1)
        assert {sent.headers["user-agent"].split("/")[0] for sent in platform.sent} == {"sequence-ai-python"}


def test_another_certificate_is_refused_before_anything_is_sent(platform, worker_identity, tmp_path):
    """A worker that presents another certificate than the gateway named gets no request, no secret, no retry."""
    stranger = Identity(tmp_path, "stranger")
    with platform.served() as gateway, platform.served(stranger.context) as worker:
        platform.connect["worker_url"] = worker.url
        policy = connected(platform, gateway)
        with policy, pytest.raises(CertPinError, match="nothing was sent"):
            policy.predict(1)
        assert (platform.to("/act"), len(worker.peers)) == ([], 1)


def test_every_new_connection_is_checked(platform, worker_identity, tmp_path):
    """A stranger that takes the worker's port in the middle of a session is refused at the next connection."""
    stranger = Identity(tmp_path, "stranger")
    with platform.served() as gateway, connected(platform, gateway) as policy:
        with platform.served(worker_identity.context) as worker:
            platform.connect["worker_url"] = worker.url
            policy.predict(1)
        with platform.served(stranger.context, worker.port), pytest.raises(CertPinError):
            policy.predict(2)
    assert len(platform.to("/act")) == 1


def test_a_kept_connection_that_the_server_closed_costs_no_act(platform, worker_identity):
    """A worker that restarts under the same address between two acts is reached again, the act run once."""
    with platform.served() as gateway, connected(platform, gateway) as policy:
        with platform.served(worker_identity.context) as worker:
            platform.connect["worker_url"] = worker.url
            policy.predict(1)
        with platform.served(worker_identity.context, worker.port):
            assert policy.predict(2) == 2
    assert [sent.body["inputs"] for sent in platform.to("/act")] == [1, 2]


def test_proxies_of_the_environment_are_not_for_this_machine(platform, worker_identity, monkeypatch):
    """A proxy named in the environment is used neither for a worker nor for a gateway on this machine."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with platform.served() as gateway, platform.served(worker_identity.context) as worker:
        platform.connect["worker_url"] = worker.url
        with connected(platform, gateway) as policy:
            assert policy.predict(1) == 1
