"""Durations as Kubernetes writes them in specs: 40m, 1h30m, 90s, 500ms."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from edgewise.api.schema import Rule, rules
from edgewise.errors import ReadableError

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Duration = Annotated[
    str,
    Meta(min_length=1, max_length=32),
    rules(
        Rule(
            r"self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') "
            "&& duration(self) <= duration('8760h')",
            "must be a duration of at most a year, such as 40m, 1h30m, 90s or 500ms",
        )
    ),
]


class BadDuration(ReadableError, ValueError):
    """A text that is no duration."""


def seconds_of(text: str) -> float:
    """How many seconds a duration has."""
    if not _WHOLE.fullmatch(text):
        raise BadDuration(f"{text!r} is no duration: write it like 40m, 1h30m, 90s or 500ms")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
