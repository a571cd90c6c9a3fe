"""The keys and certificates of a cluster: EC keys, so that all of them take a blink.

Idempotent: what is there already stays, so that a half-made set is completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edgewise.local.control_plane.identities import Leaf
from edgewise.local.layout import certificate, key, write_atomically
from edgewise.runtime.webhooks.certificate_authority import key_usage

_VALID = timedelta(days=3650)
# Certificates stay good when the clock of the machine is set back a little.
_BACKDATED = timedelta(hours=1)


def ensure_pki(
    folder: Path, authorities: Iterable[str], leaves: Iterable[Leaf], signing_keys: Iterable[str]
) -> None:
    """Make whatever is missing. A certificate is written after its key, so it vouches for both."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in authorities:
        if not certificate(folder, name).exists():
            _make_authority(folder, name)
    for leaf in leaves:
        if not certificate(folder, leaf.file).exists():
            _make_leaf(folder, leaf)
    for name in signing_keys:
        if not (folder / f"{name}.pub").exists():
            private = ec.generate_private_key(ec.SECP256R1())
            write_atomically(key(folder, name), _pem(private))
            public = private.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            write_atomically(folder / f"{name}.pub", public)


def _pem(private: ec.EllipticCurvePrivateKey) -> bytes:
    return private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _subject(common_name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _blank(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALID)
    )


def _write(
    folder: Path, name: str, private: ec.EllipticCurvePrivateKey, made: x509.Certificate
) -> None:
    write_atomically(key(folder, name), _pem(private))
    write_atomically(certificate(folder, name), made.public_bytes(serialization.Encoding.PEM))


def _make_authority(folder: Path, name: str) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"edgewise-{name}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(private.public_key())
    made = (
        _blank(subject, subject, private.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(private, hashes.SHA256())
    )
    _write(folder, name, private, made)


def _make_leaf(folder: Path, leaf: Leaf) -> None:
    issuer = x509.load_pem_x509_certificate(certificate(folder, leaf.authority).read_bytes())
    issuer_key = serialization.load_pem_private_key(
        key(folder, leaf.authority).read_bytes(), password=None
    )
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise TypeError("a cluster's authorities have EC keys")
    private = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH] if leaf.client else []
    if leaf.server:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = (
        _blank(_subject(leaf.common_name, leaf.organization), issuer.subject, private.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if leaf.names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in leaf.names]),
            critical=False,
        )
    _write(folder, leaf.file, private, builder.sign(issuer_key, hashes.SHA256()))


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
