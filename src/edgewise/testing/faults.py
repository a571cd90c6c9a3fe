"""Which fault meets which request: told by a script, or drawn by chance from a seed."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from enum import Enum, auto
from random import Random
from typing import Protocol


class Asking(Enum):
    """What a request is, as far as faults care."""

    LIST = auto()
    PAGE = auto()  # a list, continued
    WATCH = auto()
    EVENT = auto()  # one event of a watch that runs
    READ = auto()
    WRITE = auto()


class Fault(Enum):
    GONE = auto()  # 410: as an answer or, in a running watch, as an ERROR event
    CONFLICT = auto()  # 409
    TOO_MANY = auto()  # 429 with Retry-After
    ERROR = auto()  # 500
    CUT = auto()  # the connection is cut, and nothing was carried out
    LOST = auto()  # carried out, but the answer is cut off
    LATE = auto()  # the connection is cut, and it is carried out some time later
    HALF = auto()  # carried out, and the answer is cut in the middle
    SILENT = auto()  # carried out, but nothing ever comes: half-open
    DELAY = auto()  # it takes a little
    REPEAT = auto()  # an event comes again, or an earlier one of this watch does


class Faults(Protocol):
    """Decides what happens to each request, and to each event of a watch."""

    def choose(self, asking: Asking) -> Fault | None: ...


class Script:
    """Faults in the order they were asked for, each kind of request by itself."""

    def __init__(self) -> None:
        self.asked: dict[Asking, int] = defaultdict(int)
        self._waiting: dict[Asking, deque[Fault | None]] = defaultdict(deque)

    def then(self, asking: Asking, *faults: Fault | None) -> Script:
        """The next requests of this kind meet these faults; None lets one pass."""
        self._waiting[asking].extend(faults)
        return self

    def choose(self, asking: Asking) -> Fault | None:
        self.asked[asking] += 1
        waiting = self._waiting[asking]
        return waiting.popleft() if waiting else None

    @property
    def played(self) -> bool:
        return not any(self._waiting.values())


# Not among them: LATE. A create that is carried out after somebody deleted what its next
# attempt had made is there twice, and nobody could have prevented it.
_POSSIBLE: Mapping[Asking, tuple[tuple[Fault, ...], float]] = {
    # What may happen, and how likely it is that anything does.
    Asking.LIST: ((Fault.GONE, Fault.TOO_MANY, Fault.ERROR, Fault.CUT, Fault.HALF), 0.4),
    Asking.PAGE: ((Fault.GONE, Fault.GONE, Fault.ERROR, Fault.CUT, Fault.SILENT), 0.3),
    Asking.WATCH: (
        (Fault.GONE, Fault.ERROR, Fault.CUT, Fault.SILENT, Fault.TOO_MANY, Fault.LOST),
        0.5,
    ),
    Asking.EVENT: (
        (Fault.GONE, Fault.CUT, Fault.HALF, Fault.SILENT, *(Fault.DELAY, Fault.REPEAT) * 3),
        0.25,
    ),
    Asking.READ: ((Fault.ERROR, Fault.CUT, Fault.DELAY), 0.2),
    Asking.WRITE: (
        (
            Fault.CONFLICT,
            Fault.TOO_MANY,
            Fault.ERROR,
            Fault.CUT,
            Fault.LOST,
            Fault.LOST,
            Fault.HALF,
            Fault.SILENT,
            Fault.DELAY,
        ),
        0.25,
    ),
}


class SeededFaults:
    """Faults by chance, the same for the same seed, and at most so many.

    Each kind of request has a random sequence of its own: the third list meets the same
    fault however it is interleaved with the writes.
    """

    def __init__(self, seed: int, *, most: int = 15) -> None:
        self._random = {asking: Random(f"{seed} {asking.name}") for asking in Asking}
        self._left = most
        self.happened: list[str] = []

    def choose(self, asking: Asking) -> Fault | None:
        random = self._random[asking]
        faults, likelihood = _POSSIBLE[asking]
        hit, fault = random.random() < likelihood, random.choice(faults)
        if not hit or self._left <= 0:
            return None
        self._left -= 1
        self.happened.append(f"{asking.name}:{fault.name}")
        return fault

    def heal(self) -> None:
        """From now on nothing goes wrong any more."""
        self._left = 0
