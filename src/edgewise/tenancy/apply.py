"""Carries the orders of a plan out. Every one of them may be repeated after a crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from edgewise.api.tenancy import OWNER_UID, PARENT, TENANT, TENANT_UID, SubNamespace, Tenant
from edgewise.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RbacSubject, RoleBinding
from edgewise.kube.objects import Object
from edgewise.runtime.api import Api
from edgewise.runtime.retry import TryAgainAfter
from edgewise.tenancy.inheriting import copy_of, inheritable, types_of
from edgewise.tenancy.names import INHERITED, KEPT, SUBJECTS, SUSPENDED
from edgewise.tenancy.orders import (
    Correct,
    Create,
    Delete,
    Inherit,
    MoveAmounts,
    Order,
    Suspend,
    Sweep,
)
from edgewise.tenancy.quota.reading import enforced_patch, hard_patch, new_quota
from edgewise.tenancy.quota.tree_quota import NewAccount, SetEnforced, SetHard

AT_ONCE = 16


async def at_once(most: int, calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """So many at a time, in their order; all are tried, and then the first error is raised."""
    waiting = [*calls]
    if len(waiting) == 1:
        await waiting[0]
        return
    places = asyncio.Semaphore(most)

    async def one(call: Coroutine[Any, Any, None]) -> None:
        async with places:
            await call

    answers = await asyncio.gather(*(one(each) for each in waiting), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer


class Outcome(msgspec.Struct):
    """What a round of writes found out."""

    foreign: set[str] = msgspec.field(default_factory=set)
    refused: str = ""  # why the API server does not take the quota
    # Objects that could not be copied or emptied, each with a sentence.
    troubles: list[str] = msgspec.field(default_factory=list)


class Writer:
    def __init__(self, api: Api) -> None:
        self._api = api

    async def carry_out(self, orders: Sequence[Order]) -> Outcome:
        """All of one round: they do not depend on each other."""
        outcome = Outcome()
        await at_once(AT_ONCE, [self._carry_out(each, outcome) for each in orders])
        return outcome

    async def _carry_out(self, order: Order, outcome: Outcome) -> None:
        match order:
            case Create(made):
                await self._create(made, outcome)
            case Correct(found, patch):
                await self._api.patch(found, patch)
            case Delete(found):
                await self._api.delete(found, propagation="Background")
            case Sweep(found):
                await self._sweep(found)
            case MoveAmounts():
                await self._move(order, outcome)
            case Suspend():
                await self._suspend(order, outcome)
            case Inherit():
                await self._inherit(order, outcome)

    async def _create(self, made: Object, outcome: Outcome) -> None:
        try:
            await self._api.create(made)
        except AlreadyExists:
            if not isinstance(made, Namespace):
                raise
            found = await self._api.get(Namespace, made.metadata.name)
            if any(
                found.metadata.labels.get(label) != made.metadata.labels.get(label)
                for label in (TENANT_UID, OWNER_UID)
            ):
                outcome.foreign.add(made.metadata.name)
        except Forbidden as error:
            # While a namespace ends nothing can be made in it; its own change wakes us.
            if "being terminated" not in str(error):
                raise

    async def _sweep(self, found: Namespace | Tenant) -> None:
        if not await self._asked_for(found):
            await self._api.delete(found, propagation="Background")

    async def _asked_for(self, found: Namespace | Tenant) -> bool:
        """A live read: a cache that is behind must not cost anybody a namespace."""
        if isinstance(found, Tenant):
            ref = found.spec.parent
            return ref is not None and await self._is_there(
                SubNamespace, ref.name, ref.namespace, ref.uid
            )
        labels = found.metadata.labels
        if PARENT in labels:
            sources = await self._api.list(SubNamespace, labels[PARENT])
            uids = {each.metadata.uid for each in sources.items}
            return labels.get(OWNER_UID) in uids
        return await self._is_there(Tenant, labels.get(TENANT, ""), "", labels.get(TENANT_UID, ""))

    async def _is_there(self, kind: type[Object], name: str, namespace: str, uid: str) -> bool:
        try:
            return (await self._api.get(kind, name, namespace)).metadata.uid == uid
        except NotFound:
            return False

    # Quota --------------------------------------------------------------------------

    async def _move(self, order: MoveAmounts, outcome: Outcome) -> None:
        write, found = order.write, order.found
        try:
            match write:
                case NewAccount():
                    await self._api.create(new_quota(write))
                case SetHard() if found is not None:
                    await self._api.patch(found, hard_patch(write, found))
                case SetEnforced() if found is not None:
                    await self._api.patch(found, enforced_patch(write), subresource="status")
        except Invalid as error:
            outcome.refused = str(error)
        except Forbidden as error:
            if "being terminated" not in str(error):
                raise

    # Rights of a disabled tenant ------------------------------------------------------

    async def _suspend(self, order: Suspend, outcome: Outcome) -> None:
        name = order.namespace.metadata.name
        for binding in (await self._api.list(RoleBinding, name)).items:
            if binding.metadata.name == KEPT:
                continue  # it has the operator in it, and follows its own rule
            patch = emptied(binding) if order.suspended else filled(binding)
            if patch is None:
                continue
            try:
                await self._api.patch(binding, patch)
            except Forbidden as error:
                outcome.troubles.append(
                    f"RoleBinding {name}/{binding.metadata.name} has more rights than an owner, "
                    f"so it stays as it is: {error}"
                )
        mark = {"metadata": {"annotations": {SUSPENDED: "true" if order.suspended else None}}}
        await self._api.patch(order.namespace, mark)

    # Copies -------------------------------------------------------------------------

    async def _inherit(self, order: Inherit, outcome: Outcome) -> None:
        for kind in types_of(order.kinds):
            for original in (await self._api.list(kind, order.parent)).items:
                if inheritable(original):
                    copy = copy_of(original, order.namespace.metadata.name, kept=False)
                    await self.copy(copy, outcome.troubles)
        mark = {"metadata": {"annotations": {INHERITED: order.mark}}}
        await self._api.patch(order.namespace, mark)

    async def copy(self, made: Object, troubles: list[str]) -> None:
        try:
            await self._api.create(made)
        except AlreadyExists:
            return  # a namesake is left alone
        except (Forbidden, Invalid) as error:
            troubles.append(f"{made.KIND.kind} {made.key} could not be copied: {error}")


def emptied(binding: RoleBinding) -> dict[str, object] | None:
    """The subjects go into an annotation, word for word; a second time changes nothing."""
    if SUBJECTS in binding.metadata.annotations or not binding.subjects:
        return None
    kept = json.dumps(msgspec.to_builtins(binding.subjects))
    return {
        "metadata": {
            "resourceVersion": binding.metadata.resource_version,
            "annotations": {SUBJECTS: kept},
        },
        "subjects": [],
    }


def filled(binding: RoleBinding) -> dict[str, object] | None:
    kept = binding.metadata.annotations.get(SUBJECTS)
    if kept is None:
        return None
    try:
        subjects = msgspec.json.decode(kept, type=list[RbacSubject])
    except msgspec.DecodeError as error:
        raise TryAgainAfter(
            f"the subjects kept on RoleBinding {binding.key} cannot be read: {error}", 60.0
        ) from error
    return {
        "metadata": {
            "resourceVersion": binding.metadata.resource_version,
            "annotations": {SUBJECTS: None},
        },
        "subjects": msgspec.to_builtins(subjects),
    }
