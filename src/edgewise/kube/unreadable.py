"""Objects that the API server stores and their type cannot hold.

What a schema leaves open can be anything, and what an older schema let in stays. One such object
must not keep the others of its kind from being read, so it is set aside by what can still be
told of it. It is there: nobody may take it for deleted.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, TypeVar

import msgspec

from edgewise.kube.errors import UNREADABLE_JSON, Undecodable
from edgewise.kube.objects import Key, Object, ObjectMeta

T = TypeVar("T", bound=Object)

_log = logging.getLogger(__name__)


class _MetadataOnly(msgspec.Struct):
    metadata: dict[str, Any] = {}


_headers = msgspec.json.Decoder(_MetadataOnly)


class Unreadable(msgspec.Struct, frozen=True):
    """An object that does not fit its type: which one, and why."""

    metadata: ObjectMeta
    why: str  # a sentence that names it

    @property
    def key(self) -> Key:
        return self.metadata.key


class UnreadableObject(Undecodable):
    """One object of an answer cannot be read; the others can."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(unreadable.why)
        self.unreadable = unreadable


def mend(kind: type[T], document: bytes, error: msgspec.ValidationError) -> T:
    """What its type can still make of an object, or an error that names the object."""
    broken = _undecodable(kind, document, error)
    try:
        mended = kind.mended(document)
    except UNREADABLE_JSON:
        mended = None
    if mended is None:
        raise broken from error
    _log.warning("%s; the part that does not fit is ignored", broken)
    return mended


@cache
def bare(kind: type[Object]) -> type[Object]:
    """A type that holds nothing of an object but its metadata."""

    class Bare(Object):
        KIND = kind.KIND

    return Bare


def _undecodable(
    kind: type[Object], document: bytes, error: msgspec.ValidationError
) -> Undecodable:
    """Names the object that does not fit its type, so that somebody can repair it."""
    try:
        metadata = _headers.decode(document).metadata
    except UNREADABLE_JSON:
        metadata = {}
    name = "/".join(str(metadata[each]) for each in ("namespace", "name") if metadata.get(each))
    why = f"{kind.KIND.kind} {name} does not fit its type: {error}"
    told = _told(metadata)
    if not (told.name and told.uid and told.resource_version):
        return Undecodable(why)  # nobody could say when it goes
    return UnreadableObject(Unreadable(told, why))


def _told(metadata: dict[str, Any]) -> ObjectMeta:
    """Without annotations, which may be large, and concern its own controller alone."""
    metadata = {name: value for name, value in metadata.items() if name != "annotations"}
    try:
        return msgspec.convert(metadata, ObjectMeta)
    except msgspec.ValidationError:
        names = ("name", "namespace", "uid", "resourceVersion")
        texts = {each: metadata[each] for each in names if isinstance(metadata.get(each), str)}
        return msgspec.convert(texts, ObjectMeta)
