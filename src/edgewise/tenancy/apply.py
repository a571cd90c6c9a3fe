"""Carries the orders of a plan out. Every one of them may be repeated after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from edgewise.api.tenancy import (
    DISABLED,
    MANAGED,
    OWNER_UID,
    PARENT,
    TENANT,
    TENANT_UID,
    SubNamespace,
    Tenant,
)
from edgewise.kube.dynamic import dynamic
from edgewise.kube.errors import (
    UNREADABLE_JSON,
    AlreadyExists,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
)
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RbacSubject, RoleBinding
from edgewise.kube.objects import Object
from edgewise.runtime.api import Api
from edgewise.runtime.retry import TryAgainNow
from edgewise.tenancy.inheriting import (
    MOST_COPIED,
    MOST_INHERITED,
    content,
    copy_of,
    inheritable,
    types_of,
)
from edgewise.tenancy.names import COPY_OF, EARLY, INHERITED, KEPT, SUBJECTS, SUSPENDED
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
# Of what the API server said, in a condition.
LONGEST = 1024


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

    try:
        answers = await asyncio.gather(*(one(each) for each in waiting), return_exceptions=True)
    finally:
        for each in waiting:
            each.close()  # one that had no place yet when we were cut off
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer


class Outcome(msgspec.Struct):
    """What a round of writes found out."""

    foreign: set[str] = msgspec.field(default_factory=set)
    refused: str = ""  # why the API server does not take the quota
    # Objects that could not be copied or emptied, each with a sentence.
    troubles: list[str] = msgspec.field(default_factory=list)
    # Namespaces of which the API server refused something, and why: the rest of the tree goes on.
    stuck: dict[str, str] = msgspec.field(default_factory=dict)
    undone: set[tuple[str, str]] = msgspec.field(default_factory=set)  # as in Tree


class Writer:
    def __init__(self, api: Api) -> None:
        self._api = api
        # Who asks for namespaces, by the parent where they do; read once in a round.
        self._askers: dict[str, set[str]] = {}
        self._reading = asyncio.Lock()

    async def carry_out(self, orders: Sequence[Order]) -> Outcome:
        """All of one round: they do not depend on each other."""
        outcome = Outcome()
        self._askers.clear()
        await at_once(AT_ONCE, [self._try(each, outcome) for each in orders])
        return outcome

    async def _try(self, order: Order, outcome: Outcome) -> None:
        try:
            await self._carry_out(order, outcome)
        except (Forbidden, Invalid, TooLarge) as error:
            place = place_of(order)
            if not place:
                raise
            outcome.stuck[place] = str(error)[:LONGEST]
            outcome.undone.add((place, step_of(order)))

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
                await self._make_way(made, outcome)
                return
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

    async def _make_way(self, made: Object, outcome: Outcome) -> None:
        """Something has the name of what the operator keeps. If the cache is only behind, the next
        round sees it; what people of the tenant made becomes ours, finalizers and all."""
        if made.metadata.labels.get(MANAGED) != "true":
            raise TryAgainNow(f"{made.KIND.kind} {made.key} is there already")
        name, namespace = made.metadata.name, made.metadata.namespace
        # Only its metadata: whatever else they wrote must not keep us from reading it.
        found = await self._api.get(dynamic(made.KIND), name, namespace)
        if found.metadata.labels.get(MANAGED) != "true":
            meta = {"labels": made.metadata.labels, "finalizers": [], "ownerReferences": []}
            await self._api.patch(found, {**content(made), "metadata": meta})
            outcome.troubles.append(
                f"{made.KIND.kind} {made.key} had the name of what the operator keeps there, and "
                "is the operator's now"
            )
        # As it is ours, the cache takes it in, and the next round sees it.
        await self._api.get(type(made), name, namespace)

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
            return labels.get(OWNER_UID) in await self._asking_in(labels[PARENT])
        return await self._is_there(Tenant, labels.get(TENANT, ""), "", labels.get(TENANT_UID, ""))

    async def _asking_in(self, parent: str) -> set[str]:
        """One read for all orphans of a parent: a uid that is gone does not come back."""
        async with self._reading:
            if parent not in self._askers:
                found = await self._api.list(SubNamespace, parent)
                self._askers[parent] = {each.metadata.uid for each in found.items}
            return self._askers[parent]

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
        meta = order.namespace.metadata
        # People of the tenant may have made bindings without end. In pages, a pass that ran out of
        # time has got somewhere, and the next one finds what it did.
        pages = self._api.pages(RoleBinding, meta.name)
        async with contextlib.aclosing(pages) as bindings:
            async for page in bindings:
                for binding in page:
                    if binding.metadata.name != KEPT:  # ours follows its own rule
                        await self._suspend_one(binding, order, outcome)
        held = "true" if DISABLED in meta.labels else EARLY
        mark = {"metadata": {"annotations": {SUSPENDED: held if order.suspended else None}}}
        await self._api.patch(order.namespace, mark)

    async def _suspend_one(self, binding: RoleBinding, order: Suspend, outcome: Outcome) -> None:
        try:
            if order.suspended:
                await self._empty(binding, outcome)
            else:
                await self._fill(binding, outcome)
        except Forbidden as error:
            outcome.troubles.append(
                f"RoleBinding {binding.key} has more rights than an owner, so it stays as it is: "
                f"{error}"
            )
        except (Invalid, TooLarge) as error:
            if not order.suspended:
                raise
            # The others are emptied all the same.
            outcome.troubles.append(f"RoleBinding {binding.key} stays as it is: {error}")

    async def _empty(self, binding: RoleBinding, outcome: Outcome) -> None:
        patch = emptied(binding)
        if patch is None:
            return
        try:
            await self._api.patch(binding, patch)
        except Invalid as error:
            # More than an annotation holds: whoever is disabled has no rights, whatever it costs.
            await self._api.patch(binding, without_subjects(binding))
            outcome.troubles.append(
                f"RoleBinding {binding.key} had more subjects than can be kept, so they are gone "
                f"for good: {error}"
            )

    async def _fill(self, binding: RoleBinding, outcome: Outcome) -> None:
        if SUBJECTS not in binding.metadata.annotations:
            return
        try:
            patch = filled(binding)
            await self._api.patch(binding, patch)
        except (*UNREADABLE_JSON, Invalid) as error:
            # People of the tenant wrote it, before it was disabled. It holds up nobody.
            await self._api.patch(binding, without_subjects(binding))
            outcome.troubles.append(
                f"what is kept on RoleBinding {binding.key} are no subjects, so it has none: "
                f"{error}"
            )

    # Copies -------------------------------------------------------------------------

    async def _inherit(self, order: Inherit, outcome: Outcome) -> None:
        home = order.namespace.metadata.name
        for kind in types_of(order.kinds):
            found = await self._api.list(kind, order.parent, most=MOST_INHERITED)
            originals = [each for each in found.items if inheritable(each)]
            if len(originals) > MOST_COPIED:
                raise TooLarge(
                    f"{order.parent} has more than {MOST_COPIED} objects of kind {kind.KIND.kind}, "
                    "which is more than can be copied"
                )
            # A pass that ran out of time goes on here: it does not ask for each of them again.
            there = await self._api.list(kind, home, most=MOST_INHERITED)
            copied = {each.metadata.annotations.get(COPY_OF) for each in there.items}
            for original in originals:
                if original.metadata.uid not in copied:
                    copy = copy_of(original, home, kept=False)
                    await self.copy(copy, outcome.troubles, outcome.troubles)
        mark = {"metadata": {"annotations": {INHERITED: order.mark}}}
        await self._api.patch(order.namespace, mark)

    async def copy(self, made: Object, troubles: list[str], namesakes: list[str]) -> None:
        try:
            await self._api.create(made)
        except AlreadyExists:
            if not await self._is_copied(made):
                namesakes.append(
                    f"{made.KIND.kind} {made.key} was there before its parent's, and is left alone"
                )
        except (Forbidden, Invalid) as error:
            troubles.append(f"{made.KIND.kind} {made.key} could not be copied: {error}")

    async def _is_copied(self, made: Object) -> bool:
        """Whether what is there is a copy of the same original; or is gone again."""
        meta = made.metadata
        try:
            found = await self._api.get(type(made), meta.name, meta.namespace)
        except NotFound:
            return True
        return found.metadata.annotations.get(COPY_OF) == meta.annotations.get(COPY_OF)


def place_of(order: Order) -> str:
    """The namespace that an order is about; empty: more than one."""
    match order:
        case Create(about) | Correct(about, _):
            return about.metadata.namespace or about.metadata.name
        case Suspend(namespace, _) | Inherit(namespace, _, _, _):
            return namespace.metadata.name
    return ""


def step_of(order: Order) -> str:
    """Which of the steps towards a namespace an order is: what it writes, for plain ones."""
    match order:
        case Create(about) | Correct(about, _):
            return about.KIND.kind
    return type(order).__name__


def emptied(binding: RoleBinding) -> dict[str, object] | None:
    """The subjects go into an annotation, word for word; a second time changes nothing.

    An annotation that is there beside subjects is not ours: whoever writes RoleBindings could
    otherwise have theirs left alone.
    """
    if not binding.subjects:
        return None
    kept = json.dumps(msgspec.to_builtins(binding.subjects))
    return _with_subjects(binding, [], kept)


def filled(binding: RoleBinding) -> dict[str, object]:
    """The subjects that are kept; whatever cannot be read is raised."""
    kept = binding.metadata.annotations[SUBJECTS]
    subjects = msgspec.json.decode(kept, type=list[RbacSubject])
    return _with_subjects(binding, msgspec.to_builtins(subjects), None)


def without_subjects(binding: RoleBinding) -> dict[str, object]:
    return _with_subjects(binding, [], None)


def _with_subjects(
    binding: RoleBinding, subjects: list[Any], kept: str | None
) -> dict[str, object]:
    return {
        "metadata": {
            "resourceVersion": binding.metadata.resource_version,
            "annotations": {SUBJECTS: kept},
        },
        "subjects": subjects,
    }
