"""Keys and certificates for the webhook server: made, written as PEM, and read back."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edgewise.runtime.webhooks.certificate_rotation import Facts, Policy, Validity

# Clocks of other machines may be a little behind.
BACKDATED_SECONDS = 300.0


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """What the replicas share. The newest authority comes first; only its key is kept."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    serving: bytes
    serving_key: bytes

    @property
    def bundle(self) -> bytes:
        return b"".join(self.authorities)

    def __repr__(self) -> str:
        return f"Material({len(self.authorities)} authorities)"


def start_anew(names: Sequence[str], now: float, policy: Policy) -> Material:
    authority, key = _new_authority(now, policy)
    serving, serving_key = _issue(authority, key, names, now, policy)
    return Material(
        authorities=(authority,), authority_key=key, serving=serving, serving_key=serving_key
    )


def add_authority(material: Material, now: float, policy: Policy) -> Material:
    authority, key = _new_authority(now, policy)
    kept = (authority, *material.authorities)
    return msgspec.structs.replace(material, authorities=kept, authority_key=key)


def issue_serving(material: Material, names: Sequence[str], now: float, policy: Policy) -> Material:
    serving, key = _issue(material.authorities[0], material.authority_key, names, now, policy)
    return msgspec.structs.replace(material, serving=serving, serving_key=key)


def drop_old_authorities(material: Material) -> Material:
    return msgspec.structs.replace(material, authorities=material.authorities[:1])


def split_bundle(bundle: bytes) -> tuple[bytes, ...]:
    """The certificates of a PEM bundle, each in PEM; ValueError if there is none."""
    return tuple(_pem(certificate) for certificate in x509.load_pem_x509_certificates(bundle))


def facts_of(
    material: Material,
    names: Sequence[str],
    *,
    injected_at: float | None,
    rotation_wanted: bool,
) -> Facts:
    """What the rotation has to know; ValueError if the material cannot be used."""
    authorities = [x509.load_pem_x509_certificate(pem) for pem in material.authorities]
    serving = x509.load_pem_x509_certificate(material.serving)
    _check_pair(authorities[0], material.authority_key)
    _check_pair(serving, material.serving_key)
    issuers = [_vouches(authority, serving) for authority in authorities]
    if not any(issuers):
        raise ValueError("no authority in the bundle vouches for the serving certificate")
    return Facts(
        authorities=tuple(_validity(authority) for authority in authorities),
        serving=_validity(serving),
        serving_is_from_newest=issuers[0],
        serving_names_match=_names_of(serving) == set(names),
        injected_at=injected_at,
        rotation_wanted=rotation_wanted,
    )


def _new_authority(now: float, policy: Policy) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    # Each has a name of its own, so that nothing has to tell two of the same name apart.
    name = _name(f"edgewise webhooks {secrets.token_hex(4)}")
    certificate = (
        _builder(name, name, key, now, policy.authority_lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(certificate), _key_pem(key)


def _issue(
    authority_pem: bytes, authority_key: bytes, names: Sequence[str], now: float, policy: Policy
) -> tuple[bytes, bytes]:
    authority = x509.load_pem_x509_certificate(authority_pem)
    signer = _read_key(authority_key)
    key = ec.generate_private_key(ec.SECP256R1())
    # It must not outlive who vouches for it.
    lifetime = min(policy.serving_lifetime, authority.not_valid_after_utc.timestamp() - now)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        _builder(_name("edgewise webhooks"), authority.subject, key, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
        .add_extension(issuer, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _pem(certificate), _key_pem(key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: float,
    lifetime: float,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now - BACKDATED_SECONDS, UTC))
        .not_valid_after(datetime.fromtimestamp(now + lifetime, UTC))
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_of(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return {*names.get_values_for_type(x509.DNSName), *(str(address) for address in addresses)}


def _vouches(authority: x509.Certificate, serving: x509.Certificate) -> bool:
    try:
        serving.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _check_pair(certificate: x509.Certificate, key: bytes) -> None:
    if _read_key(key).public_key() != certificate.public_key():
        raise ValueError("a key does not belong to its certificate")


def _read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic curve key")
    return key


def _validity(certificate: x509.Certificate) -> Validity:
    return Validity(
        begin=certificate.not_valid_before_utc.timestamp() + BACKDATED_SECONDS,
        end=certificate.not_valid_after_utc.timestamp(),
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
