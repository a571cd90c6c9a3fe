"""Which tenants there are in the hub's cluster, for the API tokens that belong to one."""

from __future__ import annotations

from collections.abc import Callable

from edgewise.api.tenancy import DISABLED, TENANT_UID
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.server.identity.principal import IdentityUnavailable

OF_TENANTS = Selection(labels=TENANT_UID)


class Tenants:
    """Looks at the namespaces of tenants, whose labels say whether each is enabled.

    Nothing is watched before the first token of a tenant is there. Caches of its own: a hub whose
    account may not see namespaces serves everybody else.
    """

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._caches = SharedCaches(client, label="tenants")
        self._changed = changed
        self._namespaces: Cache[Namespace] | None = None

    async def run(self) -> None:
        await self._caches.run()

    def look(self) -> None:
        if self._namespaces is None:
            self._namespaces = self._caches.of(Namespace, OF_TENANTS)
            self._namespaces.subscribe(lambda _old, _new, _bulk: self._changed())

    def enabled(self, name: str, uid: str) -> bool:
        """Whether this very tenant is there and enabled: a namesake is another one."""
        if self._namespaces is None or not self._namespaces.synced:
            raise IdentityUnavailable("tenants cannot be looked at yet: try again soon")
        found = self._namespaces.find(name)
        labels = found.metadata.labels if found is not None else {}
        return bool(uid) and labels.get(TENANT_UID) == uid and labels.get(DISABLED) != "true"
