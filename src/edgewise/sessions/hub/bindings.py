"""The writes that decide where a client sits. All of them go to the hub, one at a time each.

Creating a binding under its one possible name, and changing it only if it is still the
version that was read, is all the agreement there is between replicas; it is enough.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from edgewise.api.global_sessions import (
    SESSION_LABEL,
    BindingState,
    ClientBinding,
    ClientBindingSpec,
    GlobalSession,
    binding_name,
)
from edgewise.errors import ReadableError
from edgewise.kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from edgewise.kube.objects import ObjectMeta
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.lookups import Lookups
from edgewise.sessions.hub.records import Hub

LONGEST_REASON = 1024


class BindingTaken(ReadableError):
    """Somebody else was faster; `binding` is how they left it, None if it is gone."""

    def __init__(self, binding: ClientBinding | None) -> None:
        super().__init__("somebody else was faster")
        self.binding = binding


class Bindings:
    def __init__(self, hub: Hub, *, clock: Callable[[], float] = time.time) -> None:
        self._hub = hub
        self._clock = clock
        self._lookups: Lookups[tuple[str, str, str], ClientBinding] = Lookups(self._ask_hub)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    async def read(self, session: GlobalSession, client: str) -> ClientBinding | None:
        """The truth at this moment, from the hub itself."""
        return await self._ask_hub(_key(session, client))

    async def find(self, session: GlobalSession, client: str) -> ClientBinding | None:
        """The same, unless it was not there a moment ago."""
        return await self._lookups.find(_key(session, client))

    async def _ask_hub(self, key: tuple[str, str, str]) -> ClientBinding | None:
        name = binding_name(*key)
        try:
            return await self._hub.client.get(ClientBinding, name, self._hub.namespace)
        except NotFound:
            return None
        except _SILENCE as error:
            raise HubUnreachable from error

    async def create(
        self, session: GlobalSession, client: str, *, state: BindingState, **fields: Any
    ) -> ClientBinding:
        """Seat or queue a client that has no binding; BindingTaken if it has one by now."""
        binding = ClientBinding(
            api_version=ClientBinding.KIND.api_version,
            kind=ClientBinding.KIND.kind,
            metadata=ObjectMeta(
                name=binding_name(session.metadata.name, session.metadata.uid, client),
                namespace=self._hub.namespace,
                labels={SESSION_LABEL: session.metadata.name},
                owner_references=[session.owner_reference()],
            ),
            spec=ClientBindingSpec(
                session=session.metadata.name,
                session_uid=session.metadata.uid,
                client=client,
                state=state,
                since=self.now(),
                **_bounded(fields),
            ),
        )
        try:
            created = await self._hub.client.create(binding)
            self._lookups.forget(_key(session, client))
            return created
        except AlreadyExists:
            raise BindingTaken(await self.read(session, client)) from None
        except _SILENCE as error:
            # It may have been carried out, and then the next attempt finds it.
            raise HubUnreachable from error

    async def change(self, binding: ClientBinding, **fields: Any) -> ClientBinding:
        """Change this version of a binding; BindingTaken if there is a newer one."""
        if "state" in fields and fields["state"] is not binding.spec.state:
            fields.setdefault("since", self.now())
        spec = msgspec.structs.replace(binding.spec, **_bounded(fields))
        before, after = msgspec.to_builtins(binding.spec), msgspec.to_builtins(spec)
        # What is left out as a default has to be taken away, for a merge patch to say so.
        changed = {name: after.get(name) for name in before | after}
        changed = {name: value for name, value in changed.items() if before.get(name) != value}
        meta = binding.metadata
        try:
            return await self._hub.client.patch(
                ClientBinding,
                meta.name,
                meta.namespace,
                body={
                    "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
                    "spec": changed,
                },
            )
        except (Conflict, NotFound):
            raise BindingTaken(await self._current(binding)) from None
        except _SILENCE as error:
            raise HubUnreachable from error

    async def remove(self, binding: ClientBinding) -> None:
        """End a binding; BindingTaken if there is a newer version, and nothing if it is gone."""
        meta = binding.metadata
        try:
            await self._hub.client.delete(
                ClientBinding,
                meta.name,
                meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
        except NotFound:
            return
        except Conflict:
            current = await self._current(binding)
            if current is not None and current.metadata.uid == meta.uid:
                raise BindingTaken(current) from None
        except _SILENCE as error:
            raise HubUnreachable from error

    async def _current(self, binding: ClientBinding) -> ClientBinding | None:
        meta = binding.metadata
        try:
            return await self._hub.client.get(ClientBinding, meta.name, meta.namespace)
        except NotFound:
            return None
        except _SILENCE as error:
            raise HubUnreachable from error


def _key(session: GlobalSession, client: str) -> tuple[str, str, str]:
    return session.metadata.name, session.metadata.uid, client


_SILENCE: tuple[type[Exception], ...] = (
    Unreachable,
    ServerError,
    TooManyRequests,
    asyncio.TimeoutError,
)


def unanswered(error: KubeError) -> bool:
    """Whether an error means that a cluster is in trouble, rather than that it disagrees."""
    return isinstance(error, _SILENCE)


def _bounded(fields: dict[str, Any]) -> dict[str, Any]:
    if "why" in fields:
        fields["why"] = fields["why"][:LONGEST_REASON]
    return fields
