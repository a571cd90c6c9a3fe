"""The Secret by which operator, server and the program for reports find each other.

It holds the cluster's report secret, from which report keys are derived, the token for the
summaries, and two addresses: where the summaries are, and where clients find the broker; and the
port of the ping agents. Keys and token are made once; the program writes the others each time it
starts.
"""

from __future__ import annotations

import contextlib
import re
import secrets

import msgspec

from edgewise.errors import ReadableError
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.kinds.core import Namespace, Secret

NAMESPACE = "edgewise-system"
NAME = "edgewise-reports"
KEY, TOKEN, URL, BROKER, PING = "key", "token", "url", "broker", "pingPort"
# At which ping agents answer on every node, unless another port is named.
PING_PORT = 7777
BYTES = 32
# It goes into a header: one that was written by hand may end with a line feed.
_TOKEN = re.compile(rb"[!-~]{16,512}")


class UnusableReportsSecret(ReadableError):
    """There is a Secret, and what it holds cannot be used."""


class ReportsAccess(msgspec.Struct, frozen=True, kw_only=True):
    key: bytes
    token: str
    url: str = ""
    broker: str = ""
    ping: str = ""  # as it is written; empty: the usual port

    def __repr__(self) -> str:
        return f"ReportsAccess({self.url}, {self.broker})"


def access_of(secret: Secret) -> ReportsAccess:
    key, token = secret.data.get(KEY, b""), secret.data.get(TOKEN, b"")
    if len(key) < BYTES // 2 or not _TOKEN.fullmatch(token):
        raise UnusableReportsSecret(
            f"the Secret {secret.key} has no usable `{KEY}` and `{TOKEN}`: delete it, and the "
            "program for reports makes a new one (all report keys end with it)"
        )
    return ReportsAccess(
        key=key,
        token=token.decode(),
        url=secret.data.get(URL, b"").decode(errors="replace"),
        broker=secret.data.get(BROKER, b"").decode(errors="replace"),
        ping=secret.data.get(PING, b"").decode(errors="replace"),
    )


async def read_access(client: Client, namespace: str = NAMESPACE) -> ReportsAccess | None:
    try:
        return access_of(await client.get(Secret, NAME, namespace))
    except NotFound:
        return None


async def is_replaced(client: Client, namespace: str, known: ReportsAccess) -> bool:
    """Whether what was read of the Secret does not hold any more, other than the addresses."""
    try:
        now = await read_access(client, namespace)
    except UnusableReportsSecret:
        return True
    return now is None or (now.key, now.token) != (known.key, known.token)


async def announce(
    client: Client, namespace: str, *, url: str, broker: str, ping_port: int = PING_PORT
) -> ReportsAccess:
    """Make the Secret, once, and say in it where we are."""
    known = await read_access(client, namespace)
    if known is None:
        await _create(client, namespace)
        known = await read_access(client, namespace)
        if known is None:
            raise UnusableReportsSecret(f"the Secret {namespace}/{NAME} vanished while it was read")
    ping = str(ping_port)
    body = {"stringData": {URL: url, BROKER: broker, PING: ping}}
    await client.patch(Secret, NAME, namespace, body=body)
    return msgspec.structs.replace(known, url=url, broker=broker, ping=ping)


async def _create(client: Client, namespace: str) -> None:
    secret = Secret.named(NAME, namespace)
    secret.data = {
        KEY: secrets.token_bytes(BYTES),
        TOKEN: secrets.token_urlsafe(BYTES).encode(),
    }
    with contextlib.suppress(AlreadyExists):
        try:
            await client.create(secret)
        except NotFound:  # the namespace is not there: nobody installed the chart
            with contextlib.suppress(AlreadyExists):
                await client.create(Namespace.named(namespace))
            await client.create(secret)
