"""How long a packet takes, as somebody writes it and as it is kept."""

from __future__ import annotations

import re

import msgspec

from edgewise.local.errors import BadSpec

LONGEST = 10_000.0

_NUMBER = r"\d+(?:\.\d+)?"
_TIME = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>ms|s)", re.ASCII)
_PLUS_MINUS = re.compile(r"±|\+-")


class Delay(msgspec.Struct, frozen=True):
    """Milliseconds one way, and the standard deviation by which they vary."""

    ms: float = 0.0
    jitter: float = 0.0

    def __str__(self) -> str:
        return f"{self.ms:g}ms" + (f"±{self.jitter:g}ms" if self.jitter else "")


def milliseconds(text: str) -> float:
    """`20ms` or `2s` as a number."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise BadSpec(f"{text!r} is not a latency: write it as 20ms")
    time = float(found["number"]) * (1000 if found["unit"] == "s" else 1)
    if time > LONGEST:
        raise BadSpec(f"a latency of {text} is more than {LONGEST / 1000:.0f} s: choose less")
    return time


def parse_delay(text: str) -> Delay:
    """`12.5ms`, or with jitter `12.5ms±2ms`; where no key has the sign, `12.5ms+-2ms`."""
    parts = _PLUS_MINUS.split(text)
    if len(parts) > 2 or not all(map(_TIME.fullmatch, parts)):
        raise BadSpec(f"{text!r} is not a latency: write it as 12.5ms, or 12.5ms±2ms")
    return Delay(*map(milliseconds, parts))
