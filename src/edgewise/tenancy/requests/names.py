"""Names of requests: who knows one may look at it, so nobody can guess one."""

from __future__ import annotations

import secrets

from edgewise.api.tenancy_requests import NAME_LENGTH

_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def new_name() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(NAME_LENGTH))
