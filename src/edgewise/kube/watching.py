"""A watch as a stream of typed changes: lines of JSON, each one event of any size."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Generic, TypeVar, cast

import msgspec

from edgewise.kube.bounds import LARGEST_EVENT
from edgewise.kube.errors import (
    UNREADABLE_JSON,
    Status,
    TooLarge,
    Undecodable,
    error_from_status,
)
from edgewise.kube.objects import Object
from edgewise.kube.shallow import shallow
from edgewise.kube.unreadable import Unreadable, UnreadableObject, bare, mend

T = TypeVar("T", bound=Object)


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Change(msgspec.Struct, Generic[T]):
    """One event. A bookmark's object has nothing but the resource version in its metadata, and
    one that is `unreadable` nothing but metadata."""

    type: ChangeType
    object: T
    size: int = 0  # of its line, in bytes; the client puts it there
    unreadable: Unreadable | None = None

    @property
    def resource_version(self) -> str:
        return self.object.metadata.resource_version


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


_envelopes = msgspec.json.Decoder(_Envelope)
_statuses = msgspec.json.Decoder(Status)
_bookmarks: msgspec.json.Decoder[Change[Object]] = msgspec.json.Decoder(Change[Object])
# The API server writes the type first, so one glance tells which decoder a line needs.
_BOOKMARK = b'{"type":"BOOKMARK"'
_ERROR = b'{"type":"ERROR"'


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[Change[T]]:
    return msgspec.json.Decoder(Change[kind])  # type: ignore[valid-type]


class LineSplitter:
    """Cuts chunks into lines. A line may span any number of chunks, and is joined once.

    What is longer than `longest` comes in pieces if it may be `cut`, and is refused otherwise.
    """

    def __init__(self, longest: int = LARGEST_EVENT, *, cut: bool = False) -> None:
        self._pending: list[bytes] = []
        self._length = 0
        self._longest = longest
        self._cut = cut

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            return self._hold(chunk)
        if self._pending:
            self._pending.append(lines[0])
            lines[0] = b"".join(self._pending)
        rest = lines.pop()
        self._pending = [rest] if rest else []
        self._length = len(rest)
        return lines

    def _hold(self, chunk: bytes) -> list[bytes]:
        self._pending.append(chunk)
        self._length += len(chunk)
        if self._length <= self._longest:
            return []
        if not self._cut:
            raise TooLarge(f"the API server sent a watch event of over {self._longest:,} bytes")
        piece = b"".join(self._pending)
        self._pending, self._length = [], 0
        return [piece]


class ChangeDecoder(Generic[T]):
    """Decodes the lines of one watch; an ERROR event comes out as the typed error."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decode = _decoder(kind).decode

    def decode(self, line: bytes) -> Change[T]:
        try:
            return self._read(line)
        except RecursionError:
            return self._read(shallow(line))

    def _read(self, line: bytes) -> Change[T]:
        try:
            if line.startswith(_BOOKMARK):
                # Types with required fields could not hold a bookmark's bare metadata.
                return _bookmarks.decode(line)  # type: ignore[return-value]
            if not line.startswith(_ERROR):
                return self._decode(line)
        except msgspec.ValidationError as error:
            return self._unusual(line, error)
        except RecursionError:
            raise
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
        try:
            return Change(change, mend(self._kind, bytes(envelope.object), error))
        except UnreadableObject as one:
            found = cast(T, bare(self._kind)(metadata=one.unreadable.metadata))
            return Change(change, found, unreadable=one.unreadable)


def _broken(error: Exception) -> Undecodable:
    return Undecodable(f"the API server sent a broken watch event: {error}")
