"""Carries the plan of a fleet out. Each write may be the last: the next plan finds the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from edgewise.api.games import (
    MOST_RETIRED,
    Allocation,
    AllocationSpec,
    Fleet,
    FleetStatus,
    Operation,
    Server,
)
from edgewise.gameservers import names
from edgewise.gameservers.fleet.plan import FleetPlan, ListSeen, ServerSeen
from edgewise.kube.errors import AlreadyExists, NotFound
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.api import Api
from edgewise.runtime.merge_patch import difference
from edgewise.runtime.retry import TryAgainAfter

# Requests that are under way for one fleet at a time.
AT_ONCE = 16
# A name that something else has is tried again this often.
TAKEN_SECONDS = 10.0

T = TypeVar("T")


class FleetWriter:
    """Does for one fleet what its plan says."""

    def __init__(self, api: Api, fleet: Fleet, version: str) -> None:
        self._api = api
        self._fleet = fleet
        self._version = version

    async def reserve(self, numbers: int) -> Fleet:
        """Numbers below this one are ours alone: who else tries meets a conflict."""
        body = {
            "metadata": {"resourceVersion": self._fleet.metadata.resource_version},
            "status": {"next": numbers},
        }
        self._fleet = await self._api.patch(self._fleet, body, subresource="status")
        return self._fleet

    async def carry_out(self, plan: FleetPlan) -> None:
        await each_of(plan.mark, self._mark)
        await each_of(plan.delete, self._delete)
        await each_of(plan.forget, self._forget)
        await each_of(batched(plan.retire, MOST_RETIRED), self._retire)
        await each_of(plan.create, self._create)

    async def write_status(self, before: FleetStatus, status: FleetStatus) -> None:
        """What differs; the numbers are written when they are reserved, and only then."""
        old, new = msgspec.to_builtins(before), msgspec.to_builtins(status)
        old.pop("next", None)
        new.pop("next", None)
        patch = difference(old, new)
        if patch:
            await self._api.patch(self._fleet, {"status": patch}, subresource="status")

    async def _create(self, number: int) -> None:
        made = server_of(self._fleet, number, self._version)
        try:
            await self._api.create(made)
        except AlreadyExists:
            await self._api.get(Server, made.metadata.name, made.metadata.namespace)

    async def _retire(self, servers: Sequence[ServerSeen]) -> None:
        """Many at once. Whom a match has that was earlier, the next pass finds allocated."""
        meta = self._fleet.metadata
        taking = retiring(meta.name, meta.labels.get(names.TYPE, ""), servers, meta.namespace)
        try:
            await self._api.create(taking)
        except AlreadyExists:
            # An earlier one, perhaps of another operator: what it says is what holds.
            name = taking.metadata.name
            found = await self._api.get(Allocation, name, meta.namespace)
            if not taking.spec.retires.items() & found.spec.retires.items():
                words = f"the Allocation {name} is there and lists other servers: delete it"
                raise TryAgainAfter(words, TAKEN_SECONDS) from None

    async def _forget(self, retiring: ListSeen) -> None:
        namespace = self._fleet.metadata.namespace
        found = Allocation.named(retiring.name, namespace, spec=AllocationSpec())
        found.metadata.uid = retiring.uid
        await self._api.delete(found)

    async def _delete(self, server: ServerSeen) -> None:
        await self._api.delete(_known(server, self._fleet.metadata.namespace))

    async def _mark(self, server: ServerSeen) -> None:
        overflow = self._fleet.spec.overflow
        body = {
            "metadata": {
                "labels": {**overflow.labels, names.OVERFLOW: "true"},
                "annotations": dict(overflow.annotations),
            }
        }
        try:
            await self._api.patch(_known(server, self._fleet.metadata.namespace), body)
        except NotFound:
            return


def _known(server: ServerSeen, namespace: str) -> Server:
    found = msgspec.convert(
        {"metadata": {"name": server.name, "namespace": namespace}, "spec": {"pod": {}}}, Server
    )
    found.metadata.uid = server.uid
    return found


def server_of(fleet: Fleet, number: int, version: str) -> Server:
    """With all that it needs, so that it is not written again before it is ready."""
    meta = fleet.metadata
    labels = {
        **meta.labels,
        names.FLEET: meta.name,
        names.VERSION: version,
        names.NUMBER: str(number),
        names.SCHEDULING: str(fleet.spec.scheduling),
    }
    return Server(
        api_version=Server.KIND.api_version,
        kind=Server.KIND.kind,
        metadata=ObjectMeta(
            name=names.server_name(meta.name, number),
            namespace=meta.namespace,
            labels=labels,
            owner_references=[fleet.owner_reference()],
            finalizers=[names.SERVER_FINALIZER],
        ),
        spec=msgspec.structs.replace(fleet.spec.spec, operation=Operation.NONE),
    )


def retiring(fleet: str, game: str, servers: Sequence[ServerSeen], namespace: str) -> Allocation:
    """That the operator has taken these servers of a fleet, to remove them."""
    return Allocation.named(
        names.retiring(min(each.name for each in servers)),
        namespace,
        spec=AllocationSpec(
            retires={each.name: each.uid for each in servers},
            retired=True,
            game=game,
            fleet=fleet,
        ),
    )


def batched(things: Sequence[T], most: int) -> list[Sequence[T]]:
    return [things[at : at + most] for at in range(0, len(things), most)]


async def each_of(things: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
    """A few at a time. What fails does not keep the others from being done."""
    waiting = list(things)
    waiting.reverse()
    errors: list[BaseException] = []

    async def work() -> None:
        while waiting:
            try:
                await do(waiting.pop())
            except Exception as error:
                errors.append(error)
                if len(errors) >= AT_ONCE:
                    return

    if waiting:
        await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(waiting)))))
    if errors:
        raise errors[0]
