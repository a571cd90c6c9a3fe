"""A Secret of certificates that somebody has damaged is made anew, whatever was done to it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import Key
from edgewise.runtime.webhooks.certificate_authority import Material, start_anew
from edgewise.runtime.webhooks.certificate_rotation import Policy
from edgewise.runtime.webhooks.certificates import CertificateKeeper


def locked(key: bytes) -> bytes:
    private: Any = serialization.load_pem_private_key(key, None)
    encoded: bytes = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"a word"),
    )
    return encoded


@pytest.mark.parametrize("damage", ["an encrypted key", "no key", "a certificate cut short"])
def test_it_is_made_anew(damage: str) -> None:
    good: Material = start_anew(["webhooks"], time.time(), Policy())
    data = {
        "ca.crt": good.bundle,
        "ca.key": good.authority_key,
        "tls.crt": good.serving,
        "tls.key": good.serving_key,
    }
    keeper = CertificateKeeper(
        Client(Access(server="http://127.0.0.1:1")),
        Key("edgewise", "webhooks"),
        names=["webhooks"],
        configurations=[],
    )
    assert keeper._understand(Secret.named("webhooks", "edgewise", data=data))[0] is not None
    match damage:
        case "an encrypted key":
            data["tls.key"] = locked(data["tls.key"])
        case "no key":
            del data["ca.key"]
        case _:
            data["tls.crt"] = data["tls.crt"][:200]
    assert keeper._understand(Secret.named("webhooks", "edgewise", data=data)) == (None, None)
