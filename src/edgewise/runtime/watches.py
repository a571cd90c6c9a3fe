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
    # The same for one that cannot be read and has nothing but metadata: those keys have to wait.
    unread: Route | None = None


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
    unread: Callable[[Object, CacheView], Iterable[Key]] | None = None,
) -> Watch:
    """Objects that concern whatever keys `by(obj, cache)` names.

    One that cannot be read has nothing but metadata, and keeps the keys that it concerns from
    being reconciled, or all of its namespace if `by` cannot tell; `unread` says it better.
    """

    return Watch(
        kind,
        Selection(namespace, labels, fields),
        _routed(by),
        _routed(unread) if unread is not None else None,
    )


def nobody(_: Object, __: CacheView) -> Iterable[Key]:
    """For kinds whose absence leads to nothing that could be regretted."""
    return ()


def read(
    kind: type[Object], *, namespace: str | None = None, labels: str = "", fields: str = ""
) -> Watch:
    """Objects to have in the cache, whose changes wake nobody."""
    return Watch(kind, Selection(namespace, labels, fields), _to_nobody)


def itself(kind: type[Object], selection: Selection = EVERYTHING) -> Watch:
    """The controller's own kind."""
    return Watch(kind, selection, _to_itself)


def _routed(by: Callable[[T, CacheView], Iterable[Key]]) -> Route:
    return lambda obj, _, cache: by(obj, cache)


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
