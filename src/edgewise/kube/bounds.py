"""How much of an answer is taken in. What is larger is refused before it fills the memory."""

from __future__ import annotations

import zlib

import msgspec

from edgewise.errors import ReadableError

MIB = 1 << 20

# Status line and headers, chunk sizes and trailers: an API server needs some hundred bytes.
LARGEST_HEAD = 32 * 1024
# A Status that says no, with the causes of every field.
LARGEST_REFUSAL = MIB
# A line of a watch holds one object, as etcd keeps it (1.5 MiB) and JSON spells it (twice that).
LARGEST_EVENT = 8 * MIB
# A frame of exec or port-forward; API servers and kubelets send 32 KiB at a time.
LARGEST_MESSAGE = MIB
# What a command may print while its output is collected.
LARGEST_OUTPUT = 16 * MIB
# A list that goes on for longer does not end: with pages of one object that is 10,000 of several
# MiB each, more than etcd holds.
MOST_PAGES = 10_000
# A page of 500, or a document such as /openapi/v2. A page that is larger is asked for again in
# smaller ones, so this bounds no list.
LARGEST_PAGE = 32 * MIB
# A list in one piece, which is the last resort where pages take longer than history is kept:
# 10,000 pods of 25 KiB. A whole log, too.
LARGEST_WHOLE = 256 * MIB
# All answers that are under way from one server.
LARGEST_TOGETHER = 512 * MIB
GZIP = 16 + zlib.MAX_WBITS


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """In bytes, of answers as they are after unpacking."""

    object: int = LARGEST_EVENT
    page: int = LARGEST_PAGE
    whole: int = LARGEST_WHOLE
    together: int = LARGEST_TOGETHER
    # Values of JSON in one answer; 0: any number. The smallest take two bytes to send and fifty
    # times that to keep.
    values: int = 0


class TooMuch(ReadableError, OSError):
    """An answer is larger than anything that was asked for."""


class Broken(ReadableError, OSError):
    """An answer cannot be unpacked."""


class Unpacker:
    """Undoes gzip piece by piece, and stops where the whole would be too large."""

    def __init__(self, largest: int) -> None:
        self._gzip = zlib.decompressobj(GZIP)
        self._room = largest

    def feed(self, part: bytes) -> bytes:
        try:
            plain = self._gzip.decompress(part, self._room + 1)
        except zlib.error as error:
            raise Broken(f"its answer cannot be decompressed ({error})") from error
        self._room -= len(plain)
        if self._room < 0:
            raise TooMuch
        if self._gzip.unused_data:
            raise Broken("its answer cannot be decompressed (it goes on after its end)")
        return plain

    def finish(self) -> None:
        if not self._gzip.eof:
            raise Broken("its answer cannot be decompressed (it ends too early)")


def unpacker(coding: str, *, gzip: bool, largest: int) -> Unpacker | None:
    """For the Content-Encoding of an answer; only what was asked for is taken."""
    match coding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" if gzip:
            return Unpacker(largest)
    raise Broken(f"its answer is coded as {coding[:40]!r}, which was not asked for")
