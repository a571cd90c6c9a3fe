"""How somebody says how long packets are to take."""

from __future__ import annotations

import re

from edgewise.local.errors import BadSpec

_LATENCY = re.compile(r"(?P<who>[^=]+)=(?P<number>\d+(\.\d+)?)(?P<unit>ms|s)")
_LONGEST = 10_000.0


def parse_latency(text: str) -> tuple[str, float]:
    """`edge-1-1=20ms` as a name and milliseconds."""
    found = _LATENCY.fullmatch(text)
    if found is None:
        raise BadSpec(f"{text!r} is not a latency: write it as edge-1-1=20ms")
    milliseconds = float(found["number"]) * (1000 if found["unit"] == "s" else 1)
    if milliseconds > _LONGEST:
        raise BadSpec(f"{text!r} is more than {_LONGEST / 1000:.0f} s; choose less")
    return found["who"], milliseconds
