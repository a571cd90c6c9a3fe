"""A watch as a stream of typed changes: lines of JSON, each one event of any size."""

from __future__ import annotations

import logging
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from edgewise.kube.errors import UNREADABLE_JSON, Status, Undecodable, error_from_status
from edgewise.kube.objects import Object

T = TypeVar("T", bound=Object)

_log = logging.getLogger(__name__)


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Change(msgspec.Struct, Generic[T]):
    """One event. A bookmark's object has nothing but the resource version in its metadata."""

    type: ChangeType
    object: T

    @property
    def resource_version(self) -> str:
        return self.object.metadata.resource_version


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _MetadataOnly(msgspec.Struct):
    metadata: dict[str, Any] = {}


_envelopes = msgspec.json.Decoder(_Envelope)
_statuses = msgspec.json.Decoder(Status)
_bookmarks: msgspec.json.Decoder[Change[Object]] = msgspec.json.Decoder(Change[Object])
_headers = msgspec.json.Decoder(_MetadataOnly)
# The API server writes the type first, so one glance tells which decoder a line needs.
_BOOKMARK = b'{"type":"BOOKMARK"'
_ERROR = b'{"type":"ERROR"'


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[Change[T]]:
    return msgspec.json.Decoder(Change[kind])  # type: ignore[valid-type]


class LineSplitter:
    """Cuts chunks into lines. A line may span any number of chunks, and is joined once."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._pending.append(chunk)
            return []
        if self._pending:
            self._pending.append(lines[0])
            lines[0] = b"".join(self._pending)
        rest = lines.pop()
        self._pending = [rest] if rest else []
        return lines


class ChangeDecoder(Generic[T]):
    """Decodes the lines of one watch; an ERROR event comes out as the typed error."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decode = _decoder(kind).decode

    def decode(self, line: bytes) -> Change[T]:
        try:
            if line.startswith(_BOOKMARK):
                # Types with required fields could not hold a bookmark's bare metadata.
                return _bookmarks.decode(line)  # type: ignore[return-value]
            if not line.startswith(_ERROR):
                return self._decode(line)
        except msgspec.ValidationError as error:
            return self._unusual(line, error)
        except UNREADABLE_JSON as error:
            raise _broken(error) from error
        return self._unusual(line, None)

    def _unusual(self, line: bytes, error: msgspec.ValidationError | None) -> Change[T]:
        """An ERROR event, which is raised, or an object that does not fit and may be mended."""
        try:
            envelope = _envelopes.decode(line)
            if error is None or envelope.type == "ERROR":
                raise error_from_status(_statuses.decode(envelope.object))
            change = msgspec.convert(envelope.type, ChangeType)
        except UNREADABLE_JSON as worse:
            raise _broken(worse) from worse
        return Change(change, mend(self._kind, bytes(envelope.object), error))


def _broken(error: Exception) -> Undecodable:
    return Undecodable(f"the API server sent a broken watch event: {error}")


def mend(kind: type[T], document: bytes, error: msgspec.ValidationError) -> T:
    """What its type can still make of an object, or an error that names the object."""
    broken = undecodable(kind, document, error)
    try:
        mended = kind.mended(document)
    except UNREADABLE_JSON:
        mended = None
    if mended is None:
        raise broken from error
    _log.warning("%s; the part that does not fit is ignored", broken)
    return mended


def undecodable(
    kind: type[Object], document: bytes | msgspec.Raw, error: msgspec.ValidationError
) -> Undecodable:
    """Names the object that does not fit its type, so that somebody can repair it."""
    try:
        metadata = _headers.decode(document).metadata
    except UNREADABLE_JSON:
        metadata = {}
    name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
    return Undecodable(f"{kind.KIND.kind} {name} does not fit its type: {error}")
