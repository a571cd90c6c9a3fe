"""What the hub knows, followed in the hub cluster: sessions, bindings, locations, clusters."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from edgewise.api.global_sessions import ClientBinding, GlobalSession, Location, binding_name
from edgewise.api.sessions import GROUP, SessionTemplate
from edgewise.clusters.registry import Registry
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists
from edgewise.kube.kinds.core import ConfigMap, Secret
from edgewise.kube.objects import Key
from edgewise.kube.selectors import name_is
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.connected_cluster import ConnectedCluster, Patience
from edgewise.runtime.metrics import Metrics
from edgewise.sessions.hub.lookups import Lookups

IDENTITY_NAME = "edgewise-hub"
HEARTBEATS_LABEL = f"{GROUP}/heartbeats"


def by_session(binding: ClientBinding) -> str:
    return binding.spec.session


def by_location(binding: ClientBinding) -> str | None:
    return binding.spec.location or None


class Hub:
    """Use `prepare` once, then run `link`."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        link: ConnectedCluster | None = None,
        patience: Patience | None = None,
        metrics: Metrics | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.hub_id = ""
        # Of a server: its connection to the hub, with the caches that others have in it.
        self.link = link or ConnectedCluster(
            "the hub",
            client,
            patience=patience,
            metrics=metrics,
            label="hub",
            monotonic=monotonic,
        )
        here = Selection(namespace=namespace)
        self.sessions: Cache[GlobalSession] = self.link.cache(GlobalSession, here)
        self.bindings: Cache[ClientBinding] = self.link.cache(ClientBinding, here)
        self.locations: Cache[Location] = self.link.cache(Location, here)
        self.registry = Registry(self.link, namespace)
        self.templates: Cache[SessionTemplate] = self.link.cache(SessionTemplate, here)
        self.heartbeats: Cache[ConfigMap] = self.link.cache(
            ConfigMap, Selection(namespace=namespace, labels=HEARTBEATS_LABEL)
        )
        self._template_lookups: Lookups[str, SessionTemplate] = Lookups(self._ask_for_template)

    async def prepare(self) -> None:
        """Make what every hub has once; of several replicas the first one decides."""
        mine = ConfigMap.named(IDENTITY_NAME, self.namespace, data={"id": secrets.token_hex(8)})
        try:
            identity = await self.client.create(mine)
        except AlreadyExists:
            identity = await self.client.get(ConfigMap, IDENTITY_NAME, self.namespace)
        self.hub_id = identity.data["id"]

    # Reading ------------------------------------------------------------------------

    def session(self, name: str) -> GlobalSession | None:
        return self.sessions.get(Key(self.namespace, name))

    def template(self, name: str) -> SessionTemplate | None:
        return self.templates.get(Key(self.namespace, name))

    async def find_template(self, name: str) -> SessionTemplate | None:
        """Also one that was made a moment ago, and that the cache does not show yet."""
        known = self.template(name)
        return known if known is not None else await self._template_lookups.find(name)

    async def _ask_for_template(self, name: str) -> SessionTemplate | None:
        # A list, because whoever mirrors the templates has the right to it.
        listing = await self.client.list(SessionTemplate, self.namespace, fields=name_is(name))
        for found in listing.items:
            self.templates.write_through(found)
            return found
        return None

    @property
    def secrets(self) -> Cache[Secret]:
        return self.registry.secrets

    def location(self, name: str) -> Location | None:
        return self.locations.get(Key(self.namespace, name))

    def binding(self, session: GlobalSession, client: str) -> ClientBinding | None:
        name = binding_name(session.metadata.name, session.metadata.uid, client)
        return self.bindings.get(Key(self.namespace, name))

    def bindings_of(self, session: GlobalSession) -> list[ClientBinding]:
        uid = session.metadata.uid
        return [
            binding
            for binding in self.bindings.by(by_session, session.metadata.name)
            if binding.spec.session_uid == uid
        ]
