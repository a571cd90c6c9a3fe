"""An OIDC issuer on loopback, for tests of logins: it gives a token to everybody.

with running_issuer(folder) as issuer:
    issuer.configuration()  # for `edgewise local up --authentication`
    issuer.token("alice", groups=["staff"])
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import http.server
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AUDIENCE = "edgewise"
PREFIX = "oidc:"
KEY_ID = "one"


class Issuer:
    def __init__(self, url: str, certificate: str) -> None:
        self.url = url
        self.certificate = certificate  # PEM
        self._key = ec.generate_private_key(ec.SECP256R1())

    def token(
        self,
        name: str,
        *,
        groups: Sequence[str] = (),
        seconds: int = 300,
        audience: str = AUDIENCE,
        stranger: bool = False,
        **claims: Any,
    ) -> str:
        """`stranger`: signed by a key that is not ours."""
        key = ec.generate_private_key(ec.SECP256R1()) if stranger else self._key
        now = int(time.time())
        content = {
            "iss": self.url,
            "aud": audience,
            "sub": name,
            "groups": [*groups],
            "iat": now,
            "exp": now + seconds,
            **claims,
        }
        return jwt.encode(content, key, algorithm="ES256", headers={"kid": KEY_ID})

    def configuration(self, prefix: str = PREFIX) -> dict[str, Any]:
        """An AuthenticationConfiguration that trusts this issuer."""
        return {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "jwt": [
                {
                    "issuer": {
                        "url": self.url,
                        "audiences": [AUDIENCE],
                        "certificateAuthority": self.certificate,
                    },
                    "claimMappings": {
                        "username": {"claim": "sub", "prefix": prefix},
                        "groups": {"claim": "groups", "prefix": prefix},
                    },
                }
            ],
        }

    def documents(self) -> dict[str, Any]:
        """What it answers, by path."""
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            },
            "/keys": {"keys": [self._public()]},
        }

    def _public(self) -> dict[str, str]:
        numbers = self._key.public_key().public_numbers()
        return {
            "kty": "EC",
            "crv": "P-256",
            "use": "sig",
            "alg": "ES256",
            "kid": KEY_ID,
            "x": _encoded(numbers.x),
            "y": _encoded(numbers.y),
        }


def _encoded(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32, "big")).rstrip(b"=").decode()


@contextlib.contextmanager
def running_issuer(folder: Path, address: str = "127.0.0.1") -> Iterator[Issuer]:
    """Over HTTPS, as API servers want it; `folder` keeps the certificate."""
    certificate, key = _certificate(folder, address)
    known: dict[str, Any] = {}

    class Answers(http.server.BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            document = known.get(self.path)
            body = json.dumps(document).encode()
            self.send_response(200 if document is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests have enough to say."""

    server = http.server.ThreadingHTTPServer((address, 0), Answers)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer = Issuer(f"https://{address}:{server.server_address[1]}", certificate.read_text())
    known |= issuer.documents()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _certificate(folder: Path, address: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edgewise test issuer")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    files = folder / "issuer.crt", folder / "issuer.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].touch(mode=0o600)
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
