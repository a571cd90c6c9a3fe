"""What a controller looks at, and which of its own objects a change concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from edgewise.kube.objects import Key, Kind, Object
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.caching.selection import EVERYTHING, Selection

T = TypeVar("T", bound=Object)


class CacheView:
    """The shared caches of the kinds that one controller declared: `cache[Pod]`."""

    def __init__(self, controller: str, caches: dict[type[Object], Cache[Any]]) -> None:
        self._controller = controller
        self._caches = caches

    def __getitem__(self, kind: type[T]) -> Cache[T]:
        try:
            return self._caches[kind]
        except KeyError:
            raise KeyError(
                f"{self._controller} does not declare {kind.__name__}: "
                f"add owned(…), mapped(…) or read({kind.__name__}) to its watches"
            ) from None


Route = Callable[[Any, Kind, CacheView], Iterable[Key]]


class Watch(msgspec.Struct, frozen=True):
    """A kind to keep in the cache, and how a change of it leads to keys."""

    kind: type[Object]
    selection: Selection
    route: Route


def owned(
    kind: type[Object], *, namespace: str | None = None, labels: str = "", fields: str = ""
) -> Watch:
    """Objects that the controller's objects own (by controller reference)."""
    return Watch(kind, Selection(namespace, labels, fields), _to_owner)


def mapped(
    kind: type[T],
    by: Callable[[T, CacheView], Iterable[Key]],
    *,
    namespace: str | None = None,
    labels: str = "",
    fields: str = "",
) -> Watch:
    """Objects that concern whatever keys `by(obj, cache)` names."""

    def route(obj: T, _: Kind, cache: CacheView) -> Iterable[Key]:
        return by(obj, cache)

    return Watch(kind, Selection(namespace, labels, fields), route)


def read(
    kind: type[Object], *, namespace: str | None = None, labels: str = "", fields: str = ""
) -> Watch:
    """Objects to have in the cache, whose changes wake nobody."""
    return Watch(kind, Selection(namespace, labels, fields), _to_nobody)


def itself(kind: type[Object], selection: Selection = EVERYTHING) -> Watch:
    """The controller's own kind."""
    return Watch(kind, selection, _to_itself)


def _to_itself(obj: Object, _: Kind, __: CacheView) -> Iterable[Key]:
    return (obj.key,)


def _to_nobody(_: Object, __: Kind, ___: CacheView) -> Iterable[Key]:
    return ()


def _to_owner(obj: Object, owner_kind: Kind, _: CacheView) -> Iterable[Key]:
    for owner in obj.metadata.owner_references:
        # Without the version: an owner keeps its kind while its version moves on.
        group = owner.api_version.rpartition("/")[0]
        if owner.controller and owner.kind == owner_kind.kind and group == owner_kind.group:
            namespace = obj.metadata.namespace if owner_kind.namespaced else ""
            return (Key(namespace, owner.name),)
    return ()
