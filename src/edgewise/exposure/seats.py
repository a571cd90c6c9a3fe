"""Seats: what a client holds in a pod, and the secret that leads there.

The id of a seat is derived from who sits there and not from where, so it stays the same
when the pod is replaced. Without the key nobody can guess it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

SEAT_LENGTH = 26


def seat_id(key: bytes, owner_uid: str, client: str, pod_template: str) -> str:
    """Unguessable, stable, and a DNS label."""
    return _derive(key, f"{owner_uid}/{client}/{pod_template}")


def seat_token(key: bytes, seat: str) -> str:
    """What the client shows at the gateway, where the template asks for tokens."""
    return _derive(key, f"token/{seat}")


def token_hash(token: str) -> str:
    """What the gateway knows of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def port_seat(owner_uid: str, client: str, pod_template: str) -> str:
    """Names the TCP and UDP routes of a seat; the port leads there, so it is no secret."""
    return _text(hashlib.sha256(f"{owner_uid}/{client}/{pod_template}".encode()).digest())


def _derive(key: bytes, message: str) -> str:
    return _text(hmac.digest(key, message.encode(), "sha256"))


def _text(digest: bytes) -> str:
    return base64.b32encode(digest).decode().lower()[:SEAT_LENGTH]
