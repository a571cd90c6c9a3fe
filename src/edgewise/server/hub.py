"""What the fleet knows, mirrored from the hub cluster: its objects, tokens and keys."""

from __future__ import annotations

import asyncio
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
from edgewise.kube.errors import AlreadyExists, KubeError
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
# Between two attempts to make the keys for client tokens anew.
KEYS_PAUSE_SECONDS = 1.0
_CREDENTIALS = (api_tokens.LABEL_VALUE, client_tokens.LABEL_VALUE)

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
        self._keys_gone = asyncio.Event()
        # Another one whenever a token may have been given or taken back.
        self.credentials_version = 0
        self._credential_listeners: list[Callable[[], None]] = []
        self.secrets.subscribe(self._secret_changed)

    async def prepare(self) -> None:
        """Make what every fleet has once; of several replicas the first one decides."""
        mine = ConfigMap.named(IDENTITY_NAME, self.namespace, data={"id": secrets.token_hex(8)})
        try:
            identity = await self.client.create(mine)
        except AlreadyExists:
            identity = await self.client.get(ConfigMap, IDENTITY_NAME, self.namespace)
        self.fleet_id = identity.data["id"]
        await self._make_keys()

    async def keep_keys(self) -> None:
        """Whoever deletes the keys ends all client tokens, and new ones are signed anew."""
        while True:
            await self._keys_gone.wait()
            try:
                await self._make_keys()
            except KubeError as error:
                _log.warning("the keys for client tokens cannot be made: %s", error)
            # Whoever made them, the mirror shows them in a moment.
            await asyncio.sleep(KEYS_PAUSE_SECONDS)
            if self._keys_gone.is_set():
                _log.warning(
                    "client tokens cannot be checked: there is no Secret %s with the label %s=%s",
                    client_tokens.SECRET_NAME,
                    SECRET_LABEL,
                    client_tokens.LABEL_VALUE,
                )

    async def _make_keys(self) -> None:
        try:
            await self.client.create(client_tokens.new_keys_secret(self.namespace))
        except AlreadyExists:
            _log.debug("the keys for client tokens are there already")

    # Reading ------------------------------------------------------------------------

    def session(self, name: str) -> FleetSession | None:
        return self.sessions.get(Key(self.namespace, name))

    def template(self, name: str) -> SessionTemplate | None:
        return self.templates.get(Key(self.namespace, name))

    async def find_template(self, name: str) -> SessionTemplate | None:
        """Also one that was made a moment ago, and that the mirror does not show yet."""
        known = self.template(name)
        if known is not None:
            return known
        # A list, because whoever mirrors the templates has the right to it.
        listing = await self.client.list(
            SessionTemplate, self.namespace, fields=f"metadata.name={name}"
        )
        for found in listing.items:
            self.templates.write_through(found)
            return found
        return None

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

    def on_credentials(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a token may have been given or taken back."""
        self._credential_listeners.append(listener)

    def _secret_changed(self, old: Secret | None, new: Secret | None, _: bool) -> None:
        labels = {each.metadata.labels.get(SECRET_LABEL) for each in (old, new) if each is not None}
        if labels.isdisjoint(_CREDENTIALS):
            return
        if old is not None:
            self._tokens.pop(_token_id(old), None)
        if new is not None and _holds_keys(new):
            self._use_keys(new)
        elif old is not None and _holds_keys(old):
            self._keys = None
            self._keys_gone.set()
        elif new is not None and new.metadata.labels.get(SECRET_LABEL) == api_tokens.LABEL_VALUE:
            self._know_token(new)
        self.credentials_version += 1
        for listener in self._credential_listeners:
            listener()

    def _use_keys(self, secret: Secret) -> None:
        self._keys_gone.clear()
        try:
            self._keys = client_tokens.keys_in(secret)
        except UnusableKeys as error:
            # The keys that we have stay good: a broken Secret locks nobody out.
            _log.error("%s", error)

    def _know_token(self, secret: Secret) -> None:
        try:
            self._tokens[_token_id(secret)] = api_tokens.token_in(secret)
        except TokenError as error:
            _log.warning("%s", error)


def _holds_keys(secret: Secret) -> bool:
    meta = secret.metadata
    return (
        meta.name == client_tokens.SECRET_NAME
        and meta.labels.get(SECRET_LABEL) == client_tokens.LABEL_VALUE
    )


def _token_id(secret: Secret) -> str:
    return secret.metadata.name.removeprefix(api_tokens.secret_name(""))
