"""Where a template's clients do not become ready, and when that is worth another try.

The leader counts: two clients in a row that are not ready in time make a location degraded for
their template, one that becomes ready lifts it. The mark is written into the status of the
Location, so that all replicas place by it and a restart does not forget it. What led to it is
counted in memory, and counted again after a restart.

A mark counts for the template as it was: whoever changes the template lifts it. While it lasts, one
client at a time finds out whether the location works again, after waits that grow.

Public ports are counted (`public_ports`), but for those that others in the cluster took. One
client that gets none is enough to know that there are none; that ends when somebody leaves the
location, or after a short while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from datetime import datetime, timedelta

import msgspec

from edgewise.api.global_sessions import Degradation, Location
from edgewise.api.sessions import SessionTemplate
from edgewise.runtime.backoff import Backoff

# What the operator says of a client that gets no public port.
PORTS_EXHAUSTED = "PortsExhausted"
DEGRADED_AFTER = 2
MOST_MARKS = 64  # of one location, as its schema says
TRIALS = Backoff(first=60.0, most=900.0)
PORTS_AGAIN_SECONDS = 30.0


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a client was not ready in time."""

    reason: str = ""
    message: str = ""

    @property
    def exhausted(self) -> bool:
        return self.reason == PORTS_EXHAUSTED

    @property
    def text(self) -> str:
        return shorten(": ".join(each for each in (self.reason, self.message) if each), 300)


def mark_of(
    marks: Mapping[str, Degradation], template: SessionTemplate | None
) -> Degradation | None:
    """What of a location's marks speaks against it for this template as it is now."""
    if template is None or not marks:
        return None
    found = marks.get(template.metadata.name)
    if found is None or found.generation != template.metadata.generation:
        return None
    return found


def describe(mark: Degradation, template: str) -> str:
    """As the end of "it …"."""
    said = Failure(reason=mark.reason, message=mark.message)
    if said.exhausted:
        return f"is full: {mark.message or 'no public port is free'}"
    return (
        f"is degraded for {template} since {mark.since:%Y-%m-%dT%H:%M:%SZ}: "
        f"{mark.failures} clients in a row were not ready in time"
    ) + (f" ({said.text})" if said.text else "")


def shorten(text: str, most: int) -> str:
    """The cause is often said at the end, so what goes is in the middle."""
    if len(text) <= most:
        return text
    head = (most - 3) // 3
    return f"{text[:head]} … {text[-(most - 3 - head) :]}"


# What the leader learns ------------------------------------------------------------------


class _Streak(msgspec.Struct):
    generation: int
    count: int = 0
    last: Failure = Failure()
    news: bool = False  # there was one more since marks were last worked out


class Lessons:
    """What happened to the clients of each template in each location, until it is a mark."""

    def __init__(self) -> None:
        self._streaks: dict[tuple[str, str], _Streak] = {}
        self._worked: set[tuple[str, str]] = set()
        self._left: set[str] = set()

    def failed(self, location: str, template: SessionTemplate, failure: Failure) -> None:
        key, generation = (location, template.metadata.name), template.metadata.generation
        streak = self._streaks.get(key)
        if streak is None or streak.generation != generation:
            streak = self._streaks[key] = _Streak(generation)
        streak.count += 1
        streak.last, streak.news = failure, True

    def worked(self, location: str, template: SessionTemplate) -> None:
        key = location, template.metadata.name
        self._streaks.pop(key, None)
        self._worked.add(key)

    def left(self, location: str) -> None:
        """Somebody who was served gave a seat up, and with it perhaps a port."""
        self._left.add(location)

    def plan(
        self,
        locations: Mapping[str, Location],
        templates: Mapping[str, SessionTemplate],
        now: datetime,
    ) -> dict[str, dict[str, Degradation | None]]:
        """The marks that change, by location; None lifts one. Say `written` afterwards."""
        plan: dict[str, dict[str, Degradation | None]] = {}
        for key in [key for key in self._streaks if not _exist(key, locations, templates)]:
            del self._streaks[key]
        for name, location in locations.items():
            marks = location.status.degraded
            concerned = {template for where, template in self._streaks if where == name}
            changes: dict[str, Degradation | None] = {}
            room = MOST_MARKS - len(marks)
            # Marks that are there come first: one that is lifted makes room for another.
            for template in [*sorted(marks), *sorted(concerned - marks.keys())]:
                before = marks.get(template)
                after = self._judge(name, templates.get(template), before, now)
                grows = (after is not None) - (before is not None)
                if after != before and grows <= max(room, 0):
                    changes[template] = after
                    room -= grows
            if changes:
                plan[name] = changes
        return plan

    def written(self, but_of: Container[str] = ()) -> None:
        """The marks are as they were planned, `but_of` some clusters: what they were made from is
        not needed again."""
        self._worked = {key for key in self._worked if key[0] in but_of}
        self._left = {cluster for cluster in self._left if cluster in but_of}
        for (cluster, _), streak in self._streaks.items():
            streak.news = streak.news and cluster in but_of

    def _judge(
        self,
        location: str,
        template: SessionTemplate | None,
        before: Degradation | None,
        now: datetime,
    ) -> Degradation | None:
        if template is None:
            return None
        mark = before if before and self._holds(location, template, before, now) else None
        streak = self._streaks.get((location, template.metadata.name))
        if streak is None or not streak.news or streak.generation != template.metadata.generation:
            return mark
        if streak.last.exhausted:
            known = mark is not None and mark.reason == PORTS_EXHAUSTED
            wait = PORTS_AGAIN_SECONDS
        else:
            # Those who came before the mark tell nothing new; who tries it since then does.
            known = streak.count < DEGRADED_AFTER if mark is None else now < mark.trial
            wait = TRIALS.delay(mark.failures if mark is not None else 1)
        return mark if known else _mark(streak, mark, now, timedelta(seconds=wait))

    def _holds(
        self, location: str, template: SessionTemplate, mark: Degradation, now: datetime
    ) -> bool:
        if mark.generation != template.metadata.generation:
            return False
        if (location, template.metadata.name) in self._worked:
            return False
        ports = mark.reason == PORTS_EXHAUSTED
        return not (ports and (location in self._left or now >= mark.trial))


def _exist(
    key: tuple[str, str],
    locations: Mapping[str, Location],
    templates: Mapping[str, SessionTemplate],
) -> bool:
    return key[0] in locations and key[1] in templates


def _mark(
    streak: _Streak, before: Degradation | None, now: datetime, wait: timedelta
) -> Degradation:
    return Degradation(
        generation=streak.generation,
        failures=max(streak.count, before.failures + 1 if before is not None else 0),
        reason=streak.last.reason[:64],
        message=shorten(streak.last.message, 256),
        since=before.since if before is not None else now,
        trial=now + wait,
    )


# Who tries -------------------------------------------------------------------------------


class Trials:
    """Of each replica one client at a time; the leader's mark says from when on."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until: dict[tuple[str, str], float] = {}

    def open(self, location: str, template: str) -> bool:
        return self._until.get((location, template), 0.0) <= self._monotonic()

    def begin(self, location: str, template: str, seconds: float) -> None:
        """Nobody else is sent there until the outcome is known, or can no longer be."""
        now = self._monotonic()
        self._until = {key: until for key, until in self._until.items() if until > now}
        self._until[location, template] = now + seconds
