"""Traces by non-homogeneous Poisson processes: a rate that changes with time for each event.

Arrivals are made by thinning: points at the greatest rate, each kept with the share that the
rate has at its time. The same preset and seed are always the same trace.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Mapping

import msgspec

from edgewise.bench.evaluation.trace import Do, Event, Trace, TraceError

# Points (minute, events a minute); straight lines between them.
Curve = tuple[tuple[float, float], ...]


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    minutes: float
    rates: Mapping[Do, Curve]
    # Sessions that are there from the beginning, so that the first clients have one.
    first_sessions: int = 1
    about: str = ""


# Two that come and go for long (a, c), two that stay (b, d), as figure 5.1 of the text has them.
PRESETS: dict[str, Preset] = {
    "a": Preset(
        minutes=30,
        about="a quick rise, then long departures",
        rates={
            Do.CREATE_SESSION: ((0, 0.9), (8, 0.6), (10, 0.15), (30, 0.1)),
            Do.CREATE_CLIENT: ((0, 2.0), (2, 5.0), (7, 5.0), (9, 1.2), (30, 0.6)),
            Do.DELETE_CLIENT: ((0, 0), (8, 0.4), (11, 2.0), (26, 2.0), (30, 1.0)),
            Do.DELETE_SESSION: ((0, 0), (14, 0), (16, 0.15), (30, 0.15)),
            Do.DELETE_POD: ((0, 0), (2, 0.6), (30, 0.6)),
        },
    ),
    "b": Preset(
        minutes=30,
        about="a rise, then it stays high",
        rates={
            Do.CREATE_SESSION: ((0, 0.9), (8, 0.4), (30, 0.1)),
            Do.CREATE_CLIENT: ((0, 2.0), (3, 4.5), (8, 4.0), (10, 1.0), (30, 1.0)),
            Do.DELETE_CLIENT: ((0, 0), (8, 0.5), (12, 0.8), (30, 0.8)),
            Do.DELETE_SESSION: ((0, 0), (30, 0.02)),
            Do.DELETE_POD: ((0, 0), (2, 0.6), (30, 0.6)),
        },
    ),
    "c": Preset(
        minutes=30,
        about="two waves, each followed by departures",
        rates={
            Do.CREATE_SESSION: ((0, 0.8), (6, 0.3), (14, 0.3), (16, 0.8), (20, 0.2), (30, 0.1)),
            Do.CREATE_CLIENT: (
                (0, 3.0),
                (5, 5.0),
                (7, 0.5),
                (14, 0.5),
                (16, 5.0),
                (20, 4.5),
                (21, 0.5),
                (30, 0.3),
            ),
            Do.DELETE_CLIENT: (
                (0, 0),
                (6, 0.5),
                (8, 2.5),
                (14, 2.0),
                (16, 0.4),
                (20, 0.8),
                (22, 2.6),
                (30, 2.0),
            ),
            Do.DELETE_SESSION: ((0, 0), (10, 0.15), (16, 0), (22, 0.15), (30, 0.2)),
            Do.DELETE_POD: ((0, 0), (2, 0.6), (30, 0.6)),
        },
    ),
    "d": Preset(
        minutes=30,
        about="a slow rise to the end",
        rates={
            Do.CREATE_SESSION: ((0, 0.4), (30, 0.3)),
            Do.CREATE_CLIENT: ((0, 1.2), (15, 1.6), (30, 1.6)),
            Do.DELETE_CLIENT: ((0, 0), (5, 0.3), (30, 0.5)),
            Do.DELETE_SESSION: ((0, 0), (30, 0.03)),
            Do.DELETE_POD: ((0, 0), (2, 0.6), (30, 0.6)),
        },
    ),
    "poster": Preset(
        minutes=60,
        about="one long session, as at a poster hall",
        rates={
            Do.CREATE_CLIENT: ((0, 0.6), (8, 2.2), (14, 1.2), (30, 1.6), (44, 0.5), (60, 0.1)),
            Do.DELETE_CLIENT: ((0, 0), (8, 0.7), (16, 1.3), (34, 1.2), (44, 1.8), (60, 1.2)),
            Do.DELETE_POD: ((0, 0), (4, 0.4), (60, 0.4)),
        },
    ),
}


def rate_at(curve: Curve, minute: float) -> float:
    """Events a minute at this time; before the first and after the last point it stays level."""
    place = bisect.bisect_right([point[0] for point in curve], minute)
    if place == 0:
        return curve[0][1]
    if place == len(curve):
        return curve[-1][1]
    (left, low), (right, high) = curve[place - 1], curve[place]
    return low + (high - low) * (minute - left) / (right - left)


def generated(preset: str, seed: int, *, scale: float = 1.0, minutes: float | None = None) -> Trace:
    """The trace of this preset and seed; `scale` multiplies every rate but that of failures, and
    `minutes` leaves out what comes later."""
    if preset not in PRESETS:
        raise TraceError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    if not 0 < scale <= 100:
        raise TraceError(f"a rate {scale:g} times as high is no rate: say more than 0, up to 100")
    made = PRESETS[preset]
    if minutes is not None and not 0 < minutes <= made.minutes:
        raise TraceError(
            f"trace {preset} has {made.minutes:g} minutes: say more than 0, up to that"
        )
    events = _Making(made, random.Random(f"{preset}/{seed}"), scale).events()
    seconds = (minutes or made.minutes) * 60
    return Trace(
        preset=_name(preset, scale, minutes),
        seed=seed,
        seconds=seconds,
        events=tuple(event for event in events if event.at <= seconds),
    )


def _name(preset: str, scale: float, minutes: float | None) -> str:
    """So that runs of what was changed are not taken for runs of the whole."""
    name = preset if scale == 1 else f"{preset}-times-{scale:g}"
    return name if minutes is None else f"{name}-first-{minutes:g}-minutes"


class _Making:
    """Keeps who is there, so that every event has a target that exists."""

    def __init__(self, preset: Preset, chance: random.Random, scale: float) -> None:
        self._preset = preset
        self._chance = chance
        self._scale = {do: 1.0 if do is Do.DELETE_POD else scale for do in Do}
        self._members: dict[str, list[str]] = {}
        self._sessions = 0
        self._clients = 0

    def events(self) -> list[Event]:
        found = [self._made(0.0, Do.CREATE_SESSION) for _ in range(self._preset.first_sessions)]
        greatest = sum(
            self._scale[do] * max(rate for _, rate in curve)
            for do, curve in self._preset.rates.items()
        )
        minute = 0.0
        while (minute := minute + self._chance.expovariate(greatest)) < self._preset.minutes:
            rates = {
                do: self._scale[do] * rate_at(curve, minute)
                for do, curve in self._preset.rates.items()
            }
            point = self._chance.random() * greatest
            for do, rate in rates.items():
                if point < rate:
                    found.append(self._made(round(minute * 60, 3), do))
                    break
                point -= rate
        return [event for event in found if event is not None]

    def _made(self, at: float, do: Do) -> Event | None:
        """The event with its target; nothing where there is none."""
        if do is Do.DELETE_POD:
            return Event(at=at, do=do)
        if do is Do.CREATE_SESSION:
            self._sessions += 1
            name = f"s{self._sessions}"
            self._members[name] = []
            return Event(at=at, do=do, session=name)
        of = [
            name for name, clients in self._members.items() if clients or do is not Do.DELETE_CLIENT
        ]
        if not of:
            return None
        session = self._chance.choice(of)
        if do is Do.DELETE_SESSION:
            del self._members[session]
            return Event(at=at, do=do, session=session)
        clients = self._members[session]
        if do is Do.CREATE_CLIENT:
            self._clients += 1
            clients.append(f"c{self._clients}")
            return Event(at=at, do=do, session=session, client=clients[-1])
        return Event(
            at=at, do=do, session=session, client=clients.pop(self._chance.randrange(len(clients)))
        )
