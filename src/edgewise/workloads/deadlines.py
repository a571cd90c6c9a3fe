"""Deadlines are moments of the wall clock, written into the status.

A timer would be lost with its process. A moment survives, and any operator can take it up.
If the clock is set back, a moment seems further away than the whole time it stands for; it
is then drawn in, so that no step of the clock makes anybody wait longer than once more.
"""

from __future__ import annotations

from datetime import UTC, datetime

# Clocks of two operators may differ by so much before a moment counts as out of reach.
SKEW = 5.0
# What RFC 3339 can write. With an offset a status can say a moment outside of it.
_FIRST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def stamp(moment: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    written = datetime.fromtimestamp(min(max(moment, _FIRST), _LAST), UTC).isoformat(
        timespec="milliseconds"
    )
    return written.replace("+00:00", "Z")


def moment(written: str | None) -> float | None:
    """The moment that is written; None where nothing readable is."""
    if not written:
        return None
    try:
        parsed = datetime.fromisoformat(written)
    except ValueError:
        return None
    # Without a zone it is UTC: everything we write is.
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def kept(written: str | None, period: float, now: float) -> float:
    """The deadline that is written, unless it lies further ahead than its whole period."""
    found = moment(written)
    latest = now + period
    return latest if found is None or found > latest + SKEW else found
