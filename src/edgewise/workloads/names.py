"""Derived names: two operators that plan the same object name it alike.

The API server lets only one of them create it. Numbers in names only grow, so the name of a
pod that is gone is never given to another one.
"""

from __future__ import annotations

import hashlib

_OWNER_PART = 24


def pod_name(owner: str, owner_uid: str, pod_template: str, ordinal: int) -> str:
    """At most 63 characters, so that it is also a host name and a label."""
    return f"{_stem(owner, owner_uid, pod_template)}-{ordinal}"


def content_digest(content: bytes) -> str:
    """Tells whether something was made from this very content."""
    return hashlib.sha256(content).hexdigest()[:16]


def _stem(owner: str, uid: str, part: str) -> str:
    return f"{cut_name(owner, _OWNER_PART)}-{part}-{short_hash(owner, uid, part, length=5)}"


def cut_name(name: str, length: int) -> str:
    return name[:length].replace(".", "-").rstrip("-")


def short_hash(*parts: str, length: int) -> str:
    digest = hashlib.sha256("/".join(parts).encode()).digest()
    # Letters and digits without vowels, as Kubernetes does it: no words come out of it.
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:length])
