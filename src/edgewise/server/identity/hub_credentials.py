"""The tokens and keys that a hub keeps in Secrets, as its caches show them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from edgewise.api.secrets import SECRET_LABEL
from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, KubeError
from edgewise.kube.kinds.core import Secret
from edgewise.runtime.caching.cache import Cache
from edgewise.server.identity import api_tokens, client_tokens
from edgewise.server.identity.api_tokens import ApiToken, TokenError
from edgewise.server.identity.client_tokens import SigningKeys, UnusableKeys
from edgewise.server.identity.tenants import Tenants

# Between two attempts to make the keys for client tokens anew.
KEYS_PAUSE_SECONDS = 1.0
_CREDENTIALS = (api_tokens.LABEL_VALUE, client_tokens.LABEL_VALUE)

_log = logging.getLogger(__name__)


class HubCredentials:
    """Use `prepare` once, then run `keep_keys`."""

    def __init__(self, client: Client, namespace: str, secrets: Cache[Secret]) -> None:
        self._client = client
        self._namespace = namespace
        self._tokens: dict[str, ApiToken] = {}
        self._keys: SigningKeys | None = None
        self._keys_gone = asyncio.Event()
        # Another one whenever a token may have been given or taken back.
        self.version = 0
        self._listeners: list[Callable[[], None]] = []
        self._tenants = Tenants(client, self._changed)
        secrets.subscribe(self._secret_changed)

    async def prepare(self) -> None:
        """Make the keys, if no other replica has made them."""
        try:
            await self._client.create(client_tokens.new_keys_secret(self._namespace))
        except AlreadyExists:
            _log.debug("the keys for client tokens are there already")

    async def keep_keys(self) -> None:
        """Whoever deletes the keys ends all client tokens, and new ones are signed anew."""
        while True:
            await self._keys_gone.wait()
            try:
                await self.prepare()
            except KubeError as error:
                _log.warning("the keys for client tokens cannot be made: %s", error)
            # Whoever made them, the cache shows them in a moment.
            await asyncio.sleep(KEYS_PAUSE_SECONDS)
            if self._keys_gone.is_set():
                _log.warning(
                    "client tokens cannot be checked: there is no Secret %s with the label %s=%s",
                    client_tokens.SECRET_NAME,
                    SECRET_LABEL,
                    client_tokens.LABEL_VALUE,
                )

    def api_token(self, id: str) -> ApiToken | None:
        return self._tokens.get(id)

    def tenant_enabled(self, token: ApiToken) -> bool:
        return self._tenants.enabled(token.tenant, token.tenant_uid)

    async def look_at_tenants(self) -> None:
        await self._tenants.run()

    def signing_keys(self) -> SigningKeys | None:
        return self._keys

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a token may have been given or taken back."""
        self._listeners.append(listener)

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
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        for listener in self._listeners:
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
            token = api_tokens.token_in(secret)
        except TokenError as error:
            _log.warning("%s", error)
            return
        self._tokens[_token_id(secret)] = token
        if token.tenant:
            self._tenants.look()


def _holds_keys(secret: Secret) -> bool:
    meta = secret.metadata
    return (
        meta.name == client_tokens.SECRET_NAME
        and meta.labels.get(SECRET_LABEL) == client_tokens.LABEL_VALUE
    )


def _token_id(secret: Secret) -> str:
    return secret.metadata.name.removeprefix(api_tokens.secret_name(""))
