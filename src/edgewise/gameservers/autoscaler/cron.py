"""Cron expressions: when one last came due, in the time of a zone.

Five fields: minute, hour, day of month, month, day of week. A field is `*`, a number, a range
`1-5`, a list `1,3`, each with a step `/2` if wanted; months and days may be named (JAN, MON).
As in cron, if both days are given, either is enough.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from edgewise.errors import ReadableError

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# A 29th of February on a certain day of the week comes back after at most 40 years; who wants
# that has no game. Eight years find every 29th of February.
_LONGEST_DAYS = 8 * 366
_DAY_MINUTES = 24 * 60
# No zone sets its clock back by more minutes than this.
_CLOCK_CHANGE = 3 * 60


class BadCron(ReadableError, ValueError):
    """What is written is no cron expression, or no time zone."""


class _Field(msgspec.Struct, frozen=True):
    what: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("day of week", 0, 7, _DAYS)  # Sunday is both 0 and 7


class Cron(msgspec.Struct, frozen=True):
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool  # both days are given

    def matches(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> Cron:
    fields = text.split()
    if len(fields) != 5:
        raise BadCron(f"{text!r} has {len(fields)} fields: a cron expression has five")
    minute, hour, day, month, weekday = fields
    return Cron(
        minutes=tuple(sorted(_numbers(minute, _MINUTE), reverse=True)),
        hours=tuple(sorted(_numbers(hour, _HOUR), reverse=True)),
        days=frozenset(_numbers(day, _DAY)),
        months=frozenset(_numbers(month, _MONTH)),
        weekdays=frozenset(number % 7 for number in _numbers(weekday, _WEEKDAY)),
        either_day=day[0] != "*" and weekday[0] != "*",
    )


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadCron(f"there is no time zone {name!r}: name one such as Europe/Lisbon") from error


def last_due(cron: Cron, zone: ZoneInfo, now: float) -> float | None:
    """When it last came due, at or before `now`; None if not within eight years.

    An hour that the clock leaves out comes due when it would have been; one that comes twice,
    the first time.
    """
    today = datetime.fromtimestamp(now, UTC).astimezone(zone).replace(tzinfo=None)
    # Within an hour that comes twice, `today` is of the second one, and so would be all made of it.
    day = today.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    first = day - timedelta(days=_LONGEST_DAYS)
    # What is later than that by the clock on the wall was not due yet, whatever the clock did.
    latest = today.hour * 60 + today.minute + _CLOCK_CHANGE
    while day > first:
        if day.month not in cron.months:
            day, latest = day.replace(day=1) - timedelta(days=1), _DAY_MINUTES
            continue
        if cron.matches(day):
            for hour in cron.hours:
                for minute in cron.minutes if hour * 60 <= latest else ():
                    if hour * 60 + minute > latest:
                        continue
                    due = day.replace(hour=hour, minute=minute, tzinfo=zone).timestamp()
                    if due <= now:
                        return due
        day, latest = day - timedelta(days=1), _DAY_MINUTES
    return None


def _numbers(text: str, field: _Field) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        begin, dash, until = span.partition("-")
        if span == "*":
            start, end = field.low, field.high
        else:
            start = _number(begin, field)
            end = _number(until, field) if dash else field.high if slash else start
        if end < start:
            raise BadCron(f"{part!r} as {field.what} goes backwards")
        found.update(range(start, end + 1, _step(step, field) if slash else 1))
    return found


def _number(text: str, field: _Field) -> int:
    if text.upper() in field.names:
        return field.names.index(text.upper()) + field.low
    number = _digits(text)
    if number is None or not field.low <= number <= field.high:
        raise BadCron(f"{text!r} is no {field.what}: it goes from {field.low} to {field.high}")
    return number


def _step(text: str, field: _Field) -> int:
    number = _digits(text)
    if not number:
        raise BadCron(f"{text!r} is no step of {field.what}: it is a number above 0")
    return number


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else None
