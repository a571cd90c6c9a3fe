"""The key from which the addresses of all seats of a cluster are made."""

from __future__ import annotations

import contextlib
import secrets

from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.kinds.core import Namespace, Secret

SEAT_KEY_SECRET = "edgewise-seat-key"  # noqa: S105 - the name of it
SEAT_KEY = "key"
SEAT_KEY_BYTES = 32


class UnusableSeatKey(ReadableError):
    """There is a Secret with the key, and what it holds cannot be one."""


async def seat_key(client: Client, namespace: str) -> bytes:
    """The key from which all addresses of seats are made: created once, then kept for ever."""
    for _ in range(2):
        try:
            secret = await client.get(Secret, SEAT_KEY_SECRET, namespace)
        except NotFound:
            await create_seat_key(client, namespace)
            continue
        key = secret.data.get(SEAT_KEY, b"")
        if len(key) < SEAT_KEY_BYTES // 2:
            raise UnusableSeatKey(
                f"the Secret {namespace}/{SEAT_KEY_SECRET} has no usable `{SEAT_KEY}`: delete the "
                "Secret to have a new one made (every address of a seat changes with it)"
            )
        return key
    raise UnusableSeatKey(f"the Secret {namespace}/{SEAT_KEY_SECRET} vanished while it was read")


async def create_seat_key(client: Client, namespace: str) -> None:
    secret = Secret.named(SEAT_KEY_SECRET, namespace)
    secret.data = {SEAT_KEY: secrets.token_bytes(SEAT_KEY_BYTES)}
    with contextlib.suppress(AlreadyExists):  # by another replica, at the same time
        try:
            await client.create(secret)
        except NotFound:  # the namespace is not there: nobody installed the chart
            with contextlib.suppress(AlreadyExists):
                await client.create(Namespace.named(namespace))
            await client.create(secret)
