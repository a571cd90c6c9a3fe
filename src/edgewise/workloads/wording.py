"""Texts of others, as they fit into a status."""

from __future__ import annotations

import re

# Of a message in a client's record, and of one in a condition.
MESSAGE = 300
CONDITION = 1000


def shorten(text: str, most: int = MESSAGE) -> str:
    """On one line, and cut in the middle: where something begins says what it is, and the cause
    stands last."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half].rstrip()} … {text[-half:].lstrip()}"


def without_name(words: str, pod: str) -> str:
    """What the API server says of a pod, without the pod's name: that is another one with each
    attempt, and the same thing said twice should read the same."""
    for kind in ("pods", "Pod"):
        for verdict in ("forbidden", "invalid"):
            words = words.removeprefix(f'{kind} "{pod}" is {verdict}: ')
    return words.replace(f' "{pod}"', "").replace(pod, "the pod")


def alike(one: str, other: str) -> bool:
    """Whether two texts say the same but for numbers: what is used of a quota, or the port from
    which a webhook was asked, is another one with each attempt."""
    return re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other)
