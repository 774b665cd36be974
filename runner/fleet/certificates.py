"""The self-signed certificate a worker shows; robots know it by its fingerprint, not by an authority."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = timedelta(days=3650)
CLOCK_SKEW = timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """PEM texts, and the hex SHA-256 of the certificate's DER bytes."""

    cert_pem: str
    key_pem: str
    fingerprint: str


def make(name: str, host: str, now: float) -> Certificate:
    """A certificate for the worker `name` at the address `host`, with a key of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    start = datetime.fromtimestamp(now, timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - CLOCK_SKEW)
        .not_valid_after(start + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(
        cert_pem=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key_pem=private.decode(),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
    )
