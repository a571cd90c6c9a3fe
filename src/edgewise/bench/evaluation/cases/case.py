"""What a design does for the events of a trace."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from edgewise.bench.evaluation.trace import Trace
from edgewise.bench.evaluation.workloads.workload import NAMESPACE, Workload
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Namespace, Node
from edgewise.runtime.awaiting import Waiting, watching

# For its pods to go: dozens at once, while the machine has other work.
GONE_SECONDS = 600.0


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a case runs: a cluster with an empty namespace."""

    client: Client
    workload: Workload
    # Of nodes, for those who need a port on one of them.
    addresses: Sequence[str]
    within: float  # seconds: for how long anything is waited for


class Case(abc.ABC):
    """One design. A join is measured from `join` to the first answer at one of `urls`.

    What a design has nothing to do for, it leaves out.
    """

    async def prepare(self, trace: Trace) -> None:
        """All that the design has ready before the first client comes."""

    async def create_session(self, session: str) -> None:
        """Before its first client."""

    async def delete_session(self, session: str) -> None:
        """After its last client has left."""

    async def join(self, session: str, client: str) -> None:
        """Ask for a place. It need not be there yet."""

    @abc.abstractmethod
    def urls(self, session: str, client: str) -> AsyncIterator[str]:
        """Where the client tries next, for as long as it asks; waits where that is of use."""

    async def lost(self, session: str, client: str) -> None:
        """What a client does whose pod is gone, before it tries again."""

    async def leave(self, session: str, client: str) -> None:
        """The client will not come back."""


def takes_pods(node: Node) -> bool:
    """Of a workload that tolerates nothing, as that of every case."""
    return not any(taint.effect == "NoSchedule" for taint in node.spec.taints)


async def node_addresses(client: Client) -> list[str]:
    """Of nodes that take ordinary pods: nothing need listen at the others."""
    found = [
        address.address
        for node in (await client.list(Node)).items
        if takes_pods(node)
        for address in node.status.addresses
        if address.type == "InternalIP"
    ]
    return [each for each in found if ":" not in each] or found


async def make_namespace(client: Client) -> None:
    """An empty one: what another run left there would be measured as well."""
    await remove_namespace(client)
    await client.create(Namespace.named(NAMESPACE))


async def remove_namespace(client: Client) -> None:
    with contextlib.suppress(NotFound):
        await client.delete(Namespace, NAMESPACE)
    async with watching(client, Namespace) as (namespaces,):
        found: Waiting[Namespace] = namespaces
        key = Namespace.named(NAMESPACE).key
        await found.until(
            key, lambda seen: seen is None, f"namespace {NAMESPACE} gone", GONE_SECONDS
        )
