"""Finds placements in the connected clusters, derives report keys, and publishes reports."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from edgewise.api.placement import LatencyPlacement, LatencyPlacementSpec, seconds
from edgewise.clusters.connections import Connection, Connections
from edgewise.kube.errors import Forbidden, KubeError, NotFound
from edgewise.kube.kinds.core import Node
from edgewise.placement.broker_url import BadBrokerUrl, BrokerUrl
from edgewise.placement.hub.publishing import Publishers, Unpublished
from edgewise.placement.report_keys import CLIENT, GROUP, LIFETIME_SECONDS, report_key
from edgewise.placement.reports import TOPIC
from edgewise.placement.reports_secret import (
    NAME,
    NAMESPACE,
    PING,
    PING_PORT,
    ReportsAccess,
    UnusableReportsSecret,
    read_access,
)
from edgewise.placement.templates import fits
from edgewise.runtime.errors import NotThere, Unacceptable, Unavailable
from edgewise.runtime.tasks import Task

# How long it is remembered where a cluster's reports go.
REMEMBERED_SECONDS = 30.0
MOST_NODES = 200
# The target may tolerate any taint; what it does not tolerate, the operator leaves out.
TOLERANT: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]}


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the ping agent of a node answers."""

    node: str
    ping: str


class ReportKey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """With it one client reports for one placement, until it expires."""

    client: str
    group: str
    key: str
    """In hexadecimal; what a report is signed with."""
    expires: int
    """Seconds since 1970; part of every report."""
    topic: str
    broker: str
    """Where to publish, such as mqtt://203.0.113.5:1883; empty: report over HTTP."""
    observation_ms: float
    mode: str
    nodes: list[NodeAddress] = []
    """Only with mode Probe: what to measure."""


class PlacementHalf:
    def __init__(self, connections: Connections, *, clock: Callable[[], float] = time.time) -> None:
        self._connections = connections
        self._clock = clock
        self._known: dict[str, tuple[float, ReportsAccess]] = {}
        self._nodes_known: dict[str, tuple[float, list[Node]]] = {}
        self._nodes_asked: dict[str, asyncio.Task[list[Node]]] = {}
        self._publishers = Publishers()
        connections.on_close(self._forget)

    async def find(self, cluster: str, namespace: str, name: str) -> LatencyPlacement | None:
        connection = self._connection(cluster)
        try:
            return await connection.client.get(LatencyPlacement, name, namespace)
        except NotFound:
            return None
        except KubeError as error:
            raise Unavailable(f"the cluster {cluster} does not answer: {error}") from error

    async def key(
        self, cluster: str, placement: LatencyPlacement, client: str, group: str
    ) -> ReportKey:
        if not CLIENT.fullmatch(client) or not GROUP.fullmatch(group):
            raise Unacceptable("client and group have letters, digits, dots and dashes only")
        access = await self._access(cluster)
        expires = int(self._clock()) + LIFETIME_SECONDS
        meta, spec = placement.metadata, placement.spec
        nodes: list[NodeAddress] = []
        if spec.mode == "Probe":
            nodes = addresses_of(await self._nodes(cluster), spec, ping_port(access))
        return ReportKey(
            client=client,
            group=group,
            key=report_key(access.key, meta.uid, client, group, expires).hex(),
            expires=expires,
            topic=topic_of(cluster, placement),
            broker=access.broker,
            observation_ms=seconds(spec.observation) * 1000,
            mode=spec.mode,
            nodes=nodes,
        )

    async def publish(
        self, cluster: str, placement: LatencyPlacement, reports: Sequence[bytes]
    ) -> None:
        """What is wrong with a report is found where all others are checked, too."""
        access = await self._access(cluster)
        if not access.broker:
            raise Unavailable(f"the cluster {cluster} names no broker that can be reached")
        try:
            broker = BrokerUrl.parse(access.broker)
            await self._publishers.publish(broker, topic_of(cluster, placement), reports)
        except (BadBrokerUrl, Unpublished) as error:
            raise Unavailable(f"the broker of {cluster} cannot be reached: {error}") from error

    async def keep_publishers(self) -> None:
        """For as long as the server runs."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._publishers.close()

    def tasks(self) -> tuple[Task, ...]:
        return (Task("publishers of reports", self.keep_publishers),)

    def _forget(self, connection: Connection) -> None:
        self._known.pop(connection.name, None)
        self._nodes_known.pop(connection.name, None)
        self._nodes_asked.pop(connection.name, None)

    def _connection(self, cluster: str) -> Connection:
        connection = self._connections.get(cluster)
        if connection is None:
            trouble = self._connections.trouble(cluster)
            if trouble == "is being connected to":
                raise NotThere(f"there is no cluster {cluster!r}")
            raise Unavailable(f"the cluster {cluster} {trouble}")
        return connection

    async def _access(self, cluster: str) -> ReportsAccess:
        until, known = self._known.get(cluster, (0.0, None))
        if known is not None and until > self._clock():
            return known
        try:
            found = await read_access(self._connection(cluster).client)
        except (KubeError, UnusableReportsSecret) as error:
            raise Unavailable(f"the reports of {cluster} cannot be reached: {error}") from error
        if found is None:
            raise Unavailable(
                f"the cluster {cluster} runs no program for reports: there is no Secret "
                f"{NAMESPACE}/{NAME}"
            )
        self._known[cluster] = (self._clock() + REMEMBERED_SECONDS, found)
        return found

    async def _nodes(self, cluster: str) -> list[Node]:
        """Remembered, because every client asks again after a few minutes; and asked for once,
        however many clients come at the same moment: a list of nodes may have megabytes."""
        until, known = self._nodes_known.get(cluster, (0.0, []))
        if until > self._clock():
            return known
        asked = self._nodes_asked.get(cluster)
        if asked is None:
            asked = self._nodes_asked[cluster] = asyncio.create_task(self._list_nodes(cluster))
            asked.add_done_callback(lambda done: self._answered(cluster, done))
        return await asyncio.shield(asked)

    def _answered(self, cluster: str, asked: asyncio.Task[list[Node]]) -> None:
        if self._nodes_asked.get(cluster) is asked:
            del self._nodes_asked[cluster]
        if not asked.cancelled():
            asked.exception()  # whoever waits has it; there may be nobody any more

    async def _list_nodes(self, cluster: str) -> list[Node]:
        try:
            nodes = (await self._connection(cluster).client.list(Node)).items
        except Forbidden:
            nodes = []
        except KubeError as error:
            raise Unavailable(f"the cluster {cluster} does not answer: {error}") from error
        self._nodes_known[cluster] = (self._clock() + REMEMBERED_SECONDS, nodes)
        return nodes


def ping_port(access: ReportsAccess) -> int:
    """Where the ping agents of a cluster answer, as its program for reports says."""
    if not access.ping:
        return PING_PORT
    # No more digits than a port has: of thousands Python makes no number.
    written = access.ping if re.fullmatch("[0-9]{1,5}", access.ping) else "0"
    if not 0 < int(written) < 65536:
        raise Unavailable(
            f"`{PING}` of the Secret {NAMESPACE}/{NAME} is no port: start the program for reports "
            "again, which writes it"
        )
    return int(written)


def addresses_of(
    nodes: Sequence[Node], spec: LatencyPlacementSpec, port: int = PING_PORT
) -> list[NodeAddress]:
    """Of the nodes that the placement may choose, as many as a client can be asked to measure."""
    found: list[NodeAddress] = []
    for node in nodes:
        if node.spec.unschedulable or not fits(node, TOLERANT, spec.nodes.selector):
            continue
        by_type = {each.type: each.address for each in node.status.addresses}
        address = by_type.get("ExternalIP") or by_type.get("InternalIP")
        if address and len(found) < MOST_NODES:
            host = f"[{address}]" if ":" in address else address
            found.append(NodeAddress(node=node.metadata.name, ping=f"{host}:{port}"))
    return found


def topic_of(cluster: str, placement: LatencyPlacement) -> str:
    meta = placement.metadata
    return f"{TOPIC}/{cluster}/{meta.namespace}/{meta.name}"
