"""What comes by aiohttp, taken in within bounds."""

from __future__ import annotations

import aiohttp

from edgewise.kube.bounds import Broken, TooMuch, unpacker
from edgewise.kube.connections import AnswerTooLarge, BrokenAnswer


async def read_whole(answer: aiohttp.ClientResponse, *, gzip: bool, largest: int) -> bytes:
    """The body of an answer, unpacked. What is left over of a larger one is not read."""
    parts, size = [], 0
    try:
        packed = unpacker(_coding(answer), gzip=gzip, largest=largest)
        while chunk := await answer.content.readany():
            part = packed.feed(chunk) if packed else chunk
            size += len(part)
            if size > largest:
                raise TooMuch
            parts.append(part)
        if packed:
            packed.finish()
    except TooMuch:
        raise AnswerTooLarge(f"its answer has more than {largest:,} bytes") from None
    except Broken as error:
        raise BrokenAnswer(str(error)) from error
    finally:
        if not answer.content.at_eof():
            drop(answer)
    return b"".join(parts)


def check_plain(answer: aiohttp.ClientResponse) -> None:
    try:
        unpacker(_coding(answer), gzip=False, largest=0)
    except Broken as error:
        raise BrokenAnswer(str(error)) from error


def drop(answer: aiohttp.ClientResponse) -> None:
    """Cut the connection: a TLS farewell would wait for a peer that may be long gone."""
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    answer.close()


def _coding(answer: aiohttp.ClientResponse) -> str:
    return ", ".join(answer.headers.getall("Content-Encoding", []))
