"""What the program for reports has told this operator: the newest summary of each placement."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from edgewise.kube.objects import Key
from edgewise.placement.ranking import Value
from edgewise.placement.reports import Heard, PlacementHeard, Summary

NOT_YET = "the program for reports was not reached yet"


class VoteBoard:
    """In memory only: after a restart everything is told again, and measured again."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._placements: dict[Key, tuple[float, PlacementHeard]] = {}
        self.trouble = NOT_YET
        self._listeners: list[Callable[[Key], None]] = []

    def on_news(self, listener: Callable[[Key], None]) -> None:
        self._listeners.append(listener)

    def take(self, summary: Summary) -> None:
        now = self._clock()
        self.trouble = ""
        for each in summary.placements:
            key = Key(each.namespace, each.name)
            self._placements[key] = (now, each)
            for listener in self._listeners:
                listener(key)

    def fail(self, trouble: str) -> None:
        """Nothing is heard; each placement says so."""
        news = trouble != self.trouble
        self.trouble = trouble
        if news:
            for key in list(self._placements):
                for listener in self._listeners:
                    listener(key)

    def forget(self, key: Key) -> None:
        self._placements.pop(key, None)

    def pods(self, key: Key, uid: str) -> dict[str, tuple[Heard, float]]:
        """By uid of the pod: what was heard, and when we were told."""
        told, found = self._found(key, uid)
        return {each.subject: (each, told) for each in (found.pods if found else ())}

    def nodes(self, key: Key, uid: str) -> dict[str, Value]:
        told, found = self._found(key, uid)
        return {
            each.subject: value_of(each, told, each.subject, source="Probe")
            for each in (found.nodes if found else ())
        }

    def _found(self, key: Key, uid: str) -> tuple[float, PlacementHeard | None]:
        told, found = self._placements.get(key, (0.0, None))
        return (told, found) if found is not None and found.uid == uid else (0.0, None)

    def keys(self) -> Iterable[Key]:
        return tuple(self._placements)


def value_of(heard: Heard, told: float, node: str, *, source: str = "Reports") -> Value:
    return Value(
        node=node,
        rtt_ms=heard.rtt_ms,
        p95_ms=heard.p95_ms,
        newest_ms=heard.newest_ms,
        least_ms=heard.least_ms,
        settled=heard.settled,
        n=heard.clients,
        last=told - heard.last_age,
        source=source,
    )
