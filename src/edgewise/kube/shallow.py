"""JSON that is nested deeper than anybody can read it.

The API server stores what leaves a schema open ten thousand levels deep. A decoder gives up at
about a thousand, and with one such object it would give up the whole list that it is in: then
nobody's objects would be looked after. So what lies too deep is cut off, and the rest is read.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

# Deeper than anything that is meant, and far from the end of any stack.
DEEPEST = 100

_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decoded(decoder: msgspec.json.Decoder[T], content: bytes | msgspec.Raw) -> T:
    """What the decoder makes of it, without what lies too deep."""
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(shallow(bytes(content)))


def shallow(content: bytes, most: int = DEEPEST, *, instead: bytes = b"null") -> bytes:
    """The same with `instead` for every object and list below so many others."""
    kept: list[bytes] = []
    depth = start = end = 0
    for token in _TOKENS.finditer(content):
        match content[token.start()]:
            case 0x7B | 0x5B:  # { and [
                depth += 1
                if depth == most + 1:
                    start = token.start()
            case 0x7D | 0x5D:
                if depth == most + 1:
                    kept += (content[end:start], instead)
                    end = token.end()
                depth -= 1
    return b"".join((*kept, content[end:]))


def is_deep(value: Any, most: int = DEEPEST) -> bool:
    """Whether something lies below so many objects and lists."""
    level = [value]
    for _ in range(most):
        if not level:
            return False
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += (part for part in each.values() if isinstance(part, dict | list))
            elif isinstance(each, list):
                inner += (part for part in each if isinstance(part, dict | list))
        level = inner
    return bool(level)
