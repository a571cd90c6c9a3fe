"""Objects and lists as JSON: decoded straight into their types, with decoders made once."""

from __future__ import annotations

from functools import cache
from typing import Generic, TypeVar

import msgspec

from edgewise.kube.errors import NOT_KUBERNETES, UNREADABLE_JSON, Undecodable
from edgewise.kube.objects import Object
from edgewise.kube.shallow import decoded
from edgewise.kube.unreadable import Unreadable, UnreadableObject, mend

T = TypeVar("T", bound=Object)
S = TypeVar("S")


class Listing(msgspec.Struct, Generic[T]):
    """Objects as they were at one resource version: a page of them, or all."""

    items: list[T]
    resource_version: str = ""
    continue_token: str = ""
    size: int = 0  # in bytes, as it came
    unreadable: list[Unreadable] = []  # not among the items


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _ListDocument(msgspec.Struct, Generic[T]):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[T] | None = None


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


@cache
def _list_decoder(kind: type[T]) -> msgspec.json.Decoder[_ListDocument[T]]:
    return msgspec.json.Decoder(_ListDocument[kind])  # type: ignore[valid-type]


_raw_lists = msgspec.json.Decoder(_ListDocument[msgspec.Raw])  # type: ignore[type-var]


def encode(obj: Object) -> bytes:
    if not obj.kind:
        # Objects from a list come without these two; every object that is sent needs them.
        obj = msgspec.structs.replace(obj, api_version=obj.KIND.api_version, kind=obj.KIND.kind)
    return msgspec.json.encode(obj)


def decode(kind: type[T], content: bytes) -> T:
    try:
        found: T = decoded(_decoder(kind), content)
    except msgspec.ValidationError as error:
        return mend(kind, content, error)
    except UNREADABLE_JSON as error:
        raise Undecodable(
            f"the API server sent a broken answer: {error} ({NOT_KUBERNETES})"
        ) from error
    return found


def decode_as(type: type[S], content: bytes) -> S:
    """An answer that is no object."""
    try:
        return msgspec.json.decode(content, type=type)
    except UNREADABLE_JSON as error:
        raise Undecodable(
            f"the API server sent a broken answer: {error} ({NOT_KUBERNETES})"
        ) from error


def decode_list(kind: type[T], content: bytes) -> Listing[T]:
    try:
        document = decoded(_list_decoder(kind), content)
    except msgspec.ValidationError as error:
        return _one_by_one(kind, content, error)
    except UNREADABLE_JSON as error:
        raise Undecodable(f"the API server sent a broken list: {error}") from error
    return Listing(
        document.items or [],
        document.metadata.resource_version,
        document.metadata.continue_token,
        len(content),
    )


def count_items(content: bytes) -> int:
    """How many objects a list has, without making them."""
    try:
        return len(_raw_lists.decode(content).items or ())
    except (msgspec.ValidationError, *UNREADABLE_JSON):
        return 0  # decoding it says what is wrong


def _one_by_one(kind: type[T], content: bytes, error: msgspec.ValidationError) -> Listing[T]:
    """Finds the odd one out, and mends it; what cannot be mended is named, and set aside."""
    try:
        document = decoded(_raw_lists, content)
    except UNREADABLE_JSON:
        raise Undecodable(f"the list of {kind.KIND.plural} does not fit: {error}") from error
    metadata = document.metadata
    listing: Listing[T] = Listing(
        [], metadata.resource_version, metadata.continue_token, len(content)
    )
    for item in document.items or []:
        try:
            listing.items.append(decode(kind, bytes(item)))
        except UnreadableObject as one:
            listing.unreadable.append(one.unreadable)
    return listing
