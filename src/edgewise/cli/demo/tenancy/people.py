"""Who acts in the demo: people of tenants, and what they wait for."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from edgewise.api.tenancy import State, SubNamespace, Tenant
from edgewise.cli.demo.play import DemoError
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import ApiError, Forbidden
from edgewise.kube.objects import Object
from edgewise.local.clusters import LocalCluster

T = TypeVar("T", bound=Object)
PATIENCE = 60.0
_POLL_SECONDS = 0.1


class People:
    """Each is told apart by impersonation, which the API server treats as it treats them."""

    def __init__(self, cluster: LocalCluster, stack: contextlib.AsyncExitStack) -> None:
        self._cluster = cluster
        self._stack = stack
        self._known: dict[str, Client] = {}

    async def who(self, name: str) -> Client:
        if name not in self._known:
            access = load_access(self._cluster.kubeconfig)
            acting = msgspec.structs.replace(access, impersonation=(("Impersonate-User", name),))
            self._known[name] = await self._stack.enter_async_context(Client(acting))
        return self._known[name]


async def until(
    client: Client,
    kind: type[T],
    name: str,
    namespace: str,
    holds: Callable[[T], bool],
    what: str,
) -> T:
    """The object once this is so of it; else a sentence."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = await client.get(kind, name, namespace)
        if holds(found):
            return found
        if time.monotonic() > deadline:
            raise DemoError(f"after {PATIENCE:.0f} s {what} is not so: {found}")
        await asyncio.sleep(_POLL_SECONDS)


async def established(client: Client, kind: type[Any], name: str, namespace: str = "") -> Any:
    def is_so(found: Tenant | SubNamespace) -> bool:
        return found.status.state == State.ESTABLISHED.value

    return await until(client, kind, name, namespace, is_so, f"that {name} is established")


async def allowed(do: Callable[[], Awaitable[object]], what: str) -> None:
    """Until it is: rights and quotas of a new namespace follow it by a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            await do()
        except ApiError as error:
            if time.monotonic() > deadline:
                raise DemoError(f"{what} is refused still: {error}") from error
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return


async def refused(do: Callable[[], Awaitable[object]], what: str) -> str:
    """By what; that it is let through, for good, is a failure."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            await do()
        except Forbidden as error:
            return str(error)
        await asyncio.sleep(_POLL_SECONDS)
    raise DemoError(f"{what} was let through")
