"""What clients measured, as votes: one for each client, node and time of observation. Pure.

A node's value is the median of its clients: while fewer than half of them lie, it lies between
the least and the greatest value that an honest client measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median

import msgspec

# Votes of one client that are remembered for one pod or node.
MOST_VOTES = 16
# Half-lives after which a vote is forgotten: it counts less than a thousandth then.
FORGOTTEN_AFTER = 10


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What the votes about one pod or node come to."""

    rtt_ms: float
    p95_ms: float
    newest_ms: float  # by the last vote of each client alone
    clients: int
    first: float  # when the first vote that counts arrived
    last: float


class _Vote(msgspec.Struct):
    period: int  # which time of observation
    total: float
    count: int
    at: float  # when the last part of it arrived

    @property
    def mean(self) -> float:
        return self.total / self.count


class Ballot:
    """The votes about one pod or node."""

    def __init__(self) -> None:
        self._votes: dict[str, list[_Vote]] = {}
        self._first = math.inf

    def __len__(self) -> int:
        return len(self._votes)

    def cast(self, client: str, rtt_ms: float, *, at: float, period: float) -> None:
        """Several reports within one time of observation are one vote, their mean."""
        self._first = min(self._first, at)
        number = math.floor(at / period)
        votes = self._votes.setdefault(client, [])
        if votes and votes[-1].period == number:
            last = votes[-1]
            last.total, last.count, last.at = last.total + rtt_ms, last.count + 1, at
            return
        votes.append(_Vote(number, rtt_ms, 1, at))
        del votes[:-MOST_VOTES]

    def tally(self, now: float, *, half_life: float, min_clients: int) -> Tally | None:
        """None: too few clients have voted."""
        self._forget(now - FORGOTTEN_AFTER * half_life)
        if len(self._votes) < max(1, min_clients):
            return None
        means = [_faded(votes, now, half_life) for votes in self._votes.values()]
        newest = [votes[-1].mean for votes in self._votes.values()]
        return Tally(
            rtt_ms=median(means),
            p95_ms=percentile(newest, 95),
            newest_ms=median(newest),
            clients=len(means),
            first=self._first,
            last=max(votes[-1].at for votes in self._votes.values()),
        )

    def _forget(self, before: float) -> None:
        for client in [name for name, votes in self._votes.items() if votes[-1].at < before]:
            del self._votes[client]


def _faded(votes: list[_Vote], now: float, half_life: float) -> float:
    weights = [math.exp2(-max(0.0, now - vote.at) / half_life) for vote in votes]
    whole = sum(weights)
    if whole <= 0:
        return votes[-1].mean
    return sum(vote.mean * weight for vote, weight in zip(votes, weights, strict=True)) / whole


def percentile(values: Iterable[float], percent: float) -> float:
    """The least value that is not below `percent` of them (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
