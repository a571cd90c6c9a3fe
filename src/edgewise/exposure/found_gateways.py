"""The gateways that run in the cluster now, found by their Service."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise.exposure.publishing import Gateway
from edgewise.kube.kinds.endpoints import EndpointSlice
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection

# The headless Service whose endpoints are the control ports of the gateways.
GATEWAYS = "edgewise-gateway-control"


class FoundGateways:
    """The control ports of the gateways that run in the cluster now."""

    def __init__(self, namespace: str) -> None:
        self.selection = Selection(
            namespace=namespace, labels=f"kubernetes.io/service-name={GATEWAYS}"
        )
        self._cache: Cache[EndpointSlice] | None = None

    def follow(self, cache: Cache[EndpointSlice]) -> None:
        self._cache = cache

    def now(self) -> list[Gateway]:
        if self._cache is None:
            return []
        return [gateway for piece in self._cache for gateway in gateways_in(piece)]


def gateways_in(piece: EndpointSlice) -> Iterable[Gateway]:
    """Those that are not ready yet are told too: they become it by knowing the routes."""
    for endpoint in piece.endpoints or ():
        if endpoint.conditions.terminating:
            continue
        for port in piece.ports or ():
            for address in endpoint.addresses:
                host = f"[{address}]" if ":" in address else address
                serving = endpoint.conditions.ready is not False
                yield Gateway(f"http://{host}:{port.port}", serving)
