"""CRDs in a cluster: applied, and waited for until the API server serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from edgewise.api.crd import crd_of
from edgewise.kube.client import Client
from edgewise.kube.errors import KubeError, NotFound
from edgewise.kube.kinds.extensions import CustomResourceDefinition
from edgewise.kube.objects import Object

POLL_SECONDS = 0.05


class NotEstablished(KubeError):
    """The API server took a CRD but does not serve it."""


async def install(client: Client, kinds: Iterable[type[Object]], *, timeout: float = 30.0) -> None:
    """Apply the CRDs and return when every kind can be listed. Safe to repeat."""
    wanted = tuple(kinds)
    for kind in wanted:
        await client.apply(crd_of(kind))
    try:
        async with asyncio.timeout(timeout):
            for kind in wanted:
                await _served(client, kind)
    except TimeoutError as error:
        raise NotEstablished(await _explain(client, wanted, timeout)) from error


async def _served(client: Client, kind: type[Object]) -> None:
    # The Established condition comes a moment before the first answer: only that one counts.
    while True:
        try:
            await client.request("GET", kind.KIND.path(), params={"limit": "1"})
        except NotFound:
            await asyncio.sleep(POLL_SECONDS)
        else:
            return


async def _explain(client: Client, kinds: tuple[type[Object], ...], timeout: float) -> str:
    for kind in kinds:
        found = await client.get(CustomResourceDefinition, crd_of(kind).metadata.name)
        refused = [
            condition.message
            for condition in found.status.conditions or ()
            if condition.status == "False" and condition.message
        ]
        if not found.established:
            reason = refused[0] if refused else "no reason is given"
            return f"the CRD {found.metadata.name} is not served after {timeout:.0f} s: {reason}"
    return f"the CRDs are not served after {timeout:.0f} seconds"
