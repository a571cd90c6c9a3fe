"""Continuous inheritance: a watch for each parent and kind, while a child asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from edgewise.api.tenancy import MANAGED
from edgewise.kube.errors import Forbidden, Invalid, TooLarge
from edgewise.kube.kinds.rbac import RBAC
from edgewise.kube.objects import Object
from edgewise.runtime.api import Api
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.merge_patch import difference
from edgewise.tenancy.apply import LONGEST, Writer
from edgewise.tenancy.inheriting import (
    COPY,
    MOST_INHERITED,
    content,
    copy_of,
    inheritable,
    same,
    types_of,
)
from edgewise.tenancy.names import COPY_OF
from edgewise.tenancy.tree.seen import Branch, Tree, Uncopied

# How long the first lists of a tree are waited for, in seconds.
FIRST_LIST = 2.0

Watched = tuple[type[Object], Selection]


class Followed(msgspec.Struct):
    complete: bool = True  # False: something could not be looked at, and is to be tried again
    # Namespaces that lack something of what they inherit, and why.
    uncopied: dict[str, Uncopied] = msgspec.field(default_factory=dict)


class Follower:
    """The watches of all trees, and the copies that follow them."""

    def __init__(self, caches: SharedCaches) -> None:
        self._caches = caches
        self._open: dict[str, set[Watched]] = {}

    async def follow(self, tree: Tree, api: Api, wake: Callable[[], None]) -> Followed:
        heirs = [branch for branch in tree.branches.values() if branch.follows]
        wanted = {each for branch in heirs for each in _watched(branch)}
        self._keep(tree.tenant.metadata.name, wanted, wake)
        await self._wait_for(wanted)
        found = Followed()
        for branch in heirs:
            troubles: list[str] = []
            namesakes: list[str] = []
            for kind in _types(branch):
                unseen = [each for each in _pair(branch) if not self._is_followed(kind, each)]
                if not unseen:
                    await self._sync(branch, kind, api, troubles, namesakes)
                    # Comparing writes nothing, and would hold up everybody for all of a tree.
                    await asyncio.sleep(0)
                    continue
                found.complete = False
                why = self._caches.error(kind, unseen[0]) or "no answer yet"
                troubles.append(
                    f"{kind.KIND.kind} of {branch.parent} is not copied to {branch.name}: {why}"
                )
            if troubles:
                found.uncopied[branch.name] = Uncopied(_one_sentence(troubles))
            elif namesakes:
                found.uncopied[branch.name] = Uncopied(_one_sentence(namesakes), on_purpose=True)
        return found

    async def _wait_for(self, wanted: set[Watched]) -> None:
        """A first list takes a moment. One that is refused takes for ever, and whoever waits for it
        keeps a worker from all other trees: those that have failed before are not waited for."""
        try:
            async with asyncio.timeout(FIRST_LIST):
                for kind, selection in wanted:
                    if self._caches.error(kind, selection) is None:
                        await self._caches.wait_for(kind, selection)
        except TimeoutError:
            return

    def forget(self, root: str) -> None:
        self._keep(root, set(), lambda: None)

    def _keep(self, root: str, wanted: set[Watched], wake: Callable[[], None]) -> None:
        before = self._open.get(root, set())
        for kind, selection in wanted - before:
            room = partial(self._room, root, (kind, selection))
            cache = self._caches.of(kind, selection, most=room)
            cache.subscribe(lambda _, __, bulk: None if bulk else wake())
        for kind, selection in before - wanted:
            self._caches.close(kind, selection)
        if wanted:
            self._open[root] = wanted
        else:
            self._open.pop(root, None)

    async def _sync(
        self,
        branch: Branch,
        kind: type[Object],
        api: Api,
        troubles: list[str],
        namesakes: list[str],
    ) -> None:
        originals = self._cache(kind, _originals(branch))
        copies = self._cache(kind, _copies(branch))
        wanted = {
            each.metadata.name: copy_of(each, branch.name, kept=True)
            for each in originals
            if inheritable(each)
        }
        writer = Writer(api)
        for copy in copies:
            made = wanted.pop(copy.metadata.name, None)
            if made is None:
                await api.delete(copy, propagation="Background")
            elif not same(copy, made) and not await self._corrected(copy, made, api, troubles):
                # A role is bound once and for all, and what is immutable stays: such a copy is
                # made anew. One that cannot be made is gone: it would keep what its original lost.
                await api.delete(copy, propagation="Background")
                await writer.copy(made, troubles, namesakes)
        for made in wanted.values():
            await writer.copy(made, troubles, namesakes)

    async def _corrected(self, copy: Object, made: Object, api: Api, troubles: list[str]) -> bool:
        """Whether it may stay: it is as its original is now, or gives nobody a right."""
        patch = difference(content(copy), content(made))
        meta = {
            "labels": difference(copy.metadata.labels, made.metadata.labels) or {},
            "annotations": {COPY_OF: made.metadata.annotations[COPY_OF]},
        }
        try:
            await api.patch(copy, {**(patch or {}), "metadata": meta})
        except Invalid:
            return False
        except Forbidden as error:
            if copy.KIND.group == RBAC:
                return False
            troubles.append(f"{copy.KIND.kind} {copy.key} could not follow its parent's: {error}")
        return True

    def _room(self, root: str, mine: Watched) -> int:
        """How many bytes one cache of a tree may hold, beside the others."""
        others = (each for each in self._open.get(root, ()) if each != mine)
        return max(0, MOST_INHERITED - sum(self._caches.weight(*each) for each in others))

    def _is_followed(self, kind: type[Object], selection: Selection) -> bool:
        """What is too large stays as it was seen last, and nobody knows what became of it."""
        too_large = isinstance(self._caches.error(kind, selection), TooLarge)
        return self._cache(kind, selection).synced and not too_large

    def _cache(self, kind: type[Object], selection: Selection) -> Cache[Object]:
        return self._caches.of(kind, selection)


def _one_sentence(troubles: list[str]) -> str:
    """The first one: a parent may have thousands of objects that cannot be copied."""
    more = len(troubles) - 1
    return troubles[0][:LONGEST] + (f"; and {more} more" if more else "")


def _types(branch: Branch) -> list[type[Object]]:
    space = branch.source.spec.workspace if branch.source is not None else None
    return types_of(space.inherit) if space is not None else []


def _watched(branch: Branch) -> Iterable[Watched]:
    for kind in _types(branch):
        for selection in _pair(branch):
            yield kind, selection


def _pair(branch: Branch) -> tuple[Selection, Selection]:
    return _originals(branch), _copies(branch)


def _originals(branch: Branch) -> Selection:
    return Selection(namespace=branch.parent)


def _copies(branch: Branch) -> Selection:
    return Selection(namespace=branch.name, labels=f"{MANAGED}={COPY}")
