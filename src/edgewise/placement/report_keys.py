"""Report keys: what lets one client report for one placement, for a quarter of an hour.

A key is derived from the cluster's report secret, so nobody has to remember it: who holds the
secret derives it again. A report carries the HMAC of itself by that key.
"""

from __future__ import annotations

import hashlib
import hmac
import re

# How long a key lasts; a client asks its application for the next one before that.
LIFETIME_SECONDS = 900
CLIENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
CLIENT_RULE = (
    "must begin with a letter or digit and have up to 63 letters, digits, dots, dashes or "
    "underscores"
)
GROUP = re.compile(r"[A-Za-z0-9._-]{0,63}")

_MAC = re.compile(rb'(\{.*),"mac":"([0-9a-f]{64})"\}\s*', re.DOTALL)


def report_key(secret: bytes, placement_uid: str, client: str, group: str, expires: int) -> bytes:
    """None of the parts can hold a line feed, so no two of them are alike."""
    text = "\n".join(("edgewise report key 1", placement_uid, client, group, str(expires)))
    return hmac.digest(secret, text.encode(), hashlib.sha256)


def signed(body: bytes, key: bytes) -> bytes:
    """A report, a JSON object without `mac`, with the `mac` as its last member.

    The MAC is that of all bytes before it, so no two programs can write the same report
    differently.
    """
    head = body.rstrip().removesuffix(b"}")
    mac = hmac.digest(key, head, hashlib.sha256).hex()
    return head + b',"mac":"' + mac.encode() + b'"}'


def split(payload: bytes) -> tuple[bytes, bytes] | None:
    """What is signed, and the MAC as it was sent; None where there is none at the end."""
    found = _MAC.fullmatch(payload)
    return (found[1], found[2]) if found else None


def holds(head: bytes, mac: bytes, key: bytes) -> bool:
    wanted = hmac.digest(key, head, hashlib.sha256).hex().encode()
    return hmac.compare_digest(wanted, mac)
