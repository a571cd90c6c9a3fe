"""What the fleet knows, mirrored from the hub cluster: its objects, tokens and keys."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable

from edgewise.api.fleet import (
    GROUP,
    SECRET_LABEL,
    ClientBinding,
    FleetSession,
    MemberCluster,
    binding_name,
)
from edgewise.api.sessions import SessionTemplate
from edgewise.kube.client import Client
from edgewise.kube.core import ConfigMap, Secret
from edgewise.kube.errors import AlreadyExists
from edgewise.kube.objects import Key
from edgewise.runtime.cache import Cache
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.selection import Selection
from edgewise.server.identity import api_tokens, client_tokens
from edgewise.server.identity.api_tokens import ApiToken, TokenError
from edgewise.server.identity.client_tokens import SigningKeys, UnusableKeys
from edgewise.server.mirror import Mirror, Patience

IDENTITY_NAME = "edgewise-fleet"
HEARTBEATS_LABEL = f"{GROUP}/heartbeats"

_log = logging.getLogger(__name__)


def by_session(binding: ClientBinding) -> str:
    return binding.spec.session


def by_cluster(binding: ClientBinding) -> str | None:
    return binding.spec.cluster or None


class Hub:
    """Use `prepare` once, then run `mirror`."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        patience: Patience | None = None,
        metrics: Metrics | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.fleet_id = ""
        self.mirror = Mirror(
            "the hub", client, patience=patience, metrics=metrics, monotonic=monotonic
        )
        here = Selection(namespace=namespace)
        self.sessions: Cache[FleetSession] = self.mirror.cache(FleetSession, here)
        self.bindings: Cache[ClientBinding] = self.mirror.cache(ClientBinding, here)
        self.clusters: Cache[MemberCluster] = self.mirror.cache(MemberCluster, here)
        self.templates: Cache[SessionTemplate] = self.mirror.cache(SessionTemplate, here)
        self.secrets: Cache[Secret] = self.mirror.cache(
            Secret, Selection(namespace=namespace, labels=SECRET_LABEL)
        )
        self.heartbeats: Cache[ConfigMap] = self.mirror.cache(
            ConfigMap, Selection(namespace=namespace, labels=HEARTBEATS_LABEL)
        )
        self._tokens: dict[str, ApiToken] = {}
        self._keys: SigningKeys | None = None
        self.secrets.subscribe(self._secret_changed)

    async def prepare(self) -> None:
        """Make what every fleet has once; of several replicas the first one decides."""
        mine = ConfigMap.named(IDENTITY_NAME, self.namespace, data={"id": secrets.token_hex(8)})
        try:
            identity = await self.client.create(mine)
        except AlreadyExists:
            identity = await self.client.get(ConfigMap, IDENTITY_NAME, self.namespace)
        self.fleet_id = identity.data["id"]
        try:
            await self.client.create(client_tokens.new_keys_secret(self.namespace))
        except AlreadyExists:
            _log.debug("the keys for client tokens are there already")

    # Reading ------------------------------------------------------------------------

    def session(self, name: str) -> FleetSession | None:
        return self.sessions.get(Key(self.namespace, name))

    def template(self, name: str) -> SessionTemplate | None:
        return self.templates.get(Key(self.namespace, name))

    def cluster(self, name: str) -> MemberCluster | None:
        return self.clusters.get(Key(self.namespace, name))

    def binding(self, session: FleetSession, client: str) -> ClientBinding | None:
        name = binding_name(session.metadata.name, session.metadata.uid, client)
        return self.bindings.get(Key(self.namespace, name))

    def bindings_of(self, session: FleetSession) -> list[ClientBinding]:
        uid = session.metadata.uid
        return [
            binding
            for binding in self.bindings.by(by_session, session.metadata.name)
            if binding.spec.session_uid == uid
        ]

    # Credentials, for the authenticator ---------------------------------------------

    def api_token(self, id: str) -> ApiToken | None:
        return self._tokens.get(id)

    def signing_keys(self) -> SigningKeys | None:
        return self._keys

    def _secret_changed(self, old: Secret | None, new: Secret | None, _: bool) -> None:
        if old is not None:
            self._tokens.pop(_token_id(old), None)
        if new is None:
            return
        match new.metadata.labels.get(SECRET_LABEL):
            case api_tokens.LABEL_VALUE:
                try:
                    self._tokens[_token_id(new)] = api_tokens.token_in(new)
                except TokenError as error:
                    _log.warning("%s", error)
            case client_tokens.LABEL_VALUE if new.metadata.name == client_tokens.SECRET_NAME:
                try:
                    self._keys = client_tokens.keys_in(new)
                except UnusableKeys as error:
                    # The keys that we have stay good: a broken Secret locks nobody out.
                    _log.error("%s", error)


def _token_id(secret: Secret) -> str:
    return secret.metadata.name.removeprefix(api_tokens.secret_name(""))
