"""Continuous inheritance: a watch for each parent and kind, while a child asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from edgewise.api.tenancy import MANAGED
from edgewise.kube.errors import Forbidden, Invalid
from edgewise.kube.objects import Object
from edgewise.runtime.api import Api
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.merge_patch import difference
from edgewise.tenancy.apply import Writer
from edgewise.tenancy.inheriting import COPY, content, copy_of, inheritable, same, types_of
from edgewise.tenancy.names import COPY_OF
from edgewise.tenancy.tree.seen import Branch, Tree

# How long the first lists of a tree are waited for, in seconds.
FIRST_LIST = 2.0

Watched = tuple[type[Object], Selection]


class Follower:
    """The watches of all trees, and the copies that follow them."""

    def __init__(self, caches: SharedCaches) -> None:
        self._caches = caches
        self._open: dict[str, set[Watched]] = {}

    async def follow(
        self, tree: Tree, api: Api, wake: Callable[[], None], troubles: list[str]
    ) -> bool:
        """Whether all of it could be looked at; else to be tried again."""
        heirs = [branch for branch in tree.branches.values() if _follows(branch)]
        wanted = {each for branch in heirs for each in _watched(branch)}
        self._keep(tree.tenant.metadata.name, wanted, wake)
        await self._wait_for(wanted)
        followed = True
        for branch in heirs:
            for kind in _types(branch):
                unseen = [each for each in _pair(branch) if not self._cache(kind, each).synced]
                if not unseen:
                    await self._sync(branch, kind, api, troubles)
                    continue
                followed = False
                why = self._caches.error(kind, unseen[0]) or "no answer yet"
                troubles.append(
                    f"{kind.KIND.kind} of {branch.parent} is not copied to {branch.name}: {why}"
                )
        return followed

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
            cache = self._caches.of(kind, selection)
            cache.subscribe(lambda _, __, bulk: None if bulk else wake())
        for kind, selection in before - wanted:
            self._caches.close(kind, selection)
        if wanted:
            self._open[root] = wanted
        else:
            self._open.pop(root, None)

    async def _sync(
        self, branch: Branch, kind: type[Object], api: Api, troubles: list[str]
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
            elif not same(copy, made):
                await self._correct(copy, made, api, troubles)
        for made in wanted.values():
            await writer.copy(made, troubles)

    async def _correct(self, copy: Object, made: Object, api: Api, troubles: list[str]) -> None:
        patch = difference(content(copy), content(made))
        meta = {
            "labels": difference(copy.metadata.labels, made.metadata.labels) or {},
            "annotations": {COPY_OF: made.metadata.annotations[COPY_OF]},
        }
        try:
            await api.patch(copy, {**(patch or {}), "metadata": meta})
        except (Forbidden, Invalid) as error:
            troubles.append(f"{copy.KIND.kind} {copy.key} could not follow its parent's: {error}")

    def _cache(self, kind: type[Object], selection: Selection) -> Cache[Object]:
        return self._caches.of(kind, selection)


def _follows(branch: Branch) -> bool:
    """A disabled tenant's copies stay as they are."""
    space = branch.source.spec.workspace if branch.source is not None else None
    return (
        space is not None
        and space.sync == "Continuous"
        and bool(space.inherit)
        and branch.ready
        and branch.enabled
        and branch.binding is not None
    )


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
