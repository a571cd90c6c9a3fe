"""What holds for a whole installation: the entry point, and the key of the seats."""

from __future__ import annotations

import contextlib

import msgspec

from edgewise.exposure.port_range import PortRange
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.gateway_api import GATEWAY_KINDS


class Site(msgspec.Struct, frozen=True, kw_only=True):
    seat_key: bytes
    public_url: str = "http://127.0.0.1:8080"  # where the gateway answers HTTP
    public_host: str = "127.0.0.1"  # where its TCP and UDP ports are
    domain: str = ""  # seats are also hosts below it
    domain_port: int = 0  # 0: the scheme's own
    ports: PortRange = PortRange()
    node_host: str = ""  # for NodePort; empty: the address of a node
    gateway: str = ""  # for GatewayAPI: namespace/name of the Gateway to hang routes on
    # Those of its kinds that the cluster knows.
    gateway_kinds: frozenset[str] = frozenset(each.KIND.kind for each in GATEWAY_KINDS)

    def __repr__(self) -> str:
        return f"Site({self.public_url}, {self.public_host})"


async def known_gateway_kinds(client: Client) -> frozenset[str]:
    """A kind that is not there cannot be watched; whoever needs it is told so."""
    found = set()
    for each in GATEWAY_KINDS:
        with contextlib.suppress(NotFound):
            found.add((await client.kind_of(each.KIND.api_version, each.KIND.kind)).kind)
    return frozenset(found)
