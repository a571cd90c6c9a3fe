"""The clusters that a hub knows, and the Secrets that lead into them."""

from __future__ import annotations

from edgewise.api.clusters import Cluster
from edgewise.api.secrets import SECRET_LABEL
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Secret
from edgewise.kube.objects import Key
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.connected_cluster import ConnectedCluster


class Registry:
    """Two caches of the hub; whoever runs the hub's connection fills them."""

    def __init__(self, hub: ConnectedCluster, namespace: str) -> None:
        self.hub = hub
        self.namespace = namespace
        self.clusters: Cache[Cluster] = hub.cache(Cluster, Selection(namespace=namespace))
        self.secrets: Cache[Secret] = hub.cache(
            Secret, Selection(namespace=namespace, labels=SECRET_LABEL)
        )

    @property
    def client(self) -> Client:
        return self.hub.client

    def cluster(self, name: str) -> Cluster | None:
        return self.clusters.get(Key(self.namespace, name))

    def secret(self, name: str) -> Secret | None:
        return self.secrets.get(Key(self.namespace, name))
