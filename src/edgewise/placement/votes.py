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
MOST_VOTES = 8
# With so many clients a value does not hang on a single vote.
SEVERAL_CLIENTS = 3
# Half-lives after which a vote is forgotten: it counts less than a thousandth then.
FORGOTTEN_AFTER = 10


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What the votes about one pod or node come to."""

    rtt_ms: float
    p95_ms: float
    newest_ms: float  # by the last vote of each client alone
    least_ms: float  # by the better one of the last two of each
    settled: bool  # whether it is more than one vote, which one late answer may have made
    clients: int
    last: float


class _Vote(msgspec.Struct):
    period: int  # which time of observation
    total: float
    count: int
    at: float  # when the last part of it arrived

    @property
    def mean(self) -> float:
        return self.total / self.count


class _Voter(msgspec.Struct):
    """One client: its last votes, and what they come to."""

    votes: list[_Vote] = []
    value: float = 0.0
    half_life: float = 0.0  # by which it was computed; 0: there was a vote since

    @property
    def least(self) -> float:
        """What is late makes a vote longer, and nothing makes it shorter."""
        return min(vote.mean for vote in self.votes[-2:])

    def faded(self, half_life: float) -> float:
        # How much votes weigh beside each other does not change while they age together.
        if self.half_life != half_life:
            self.value, self.half_life = _faded(self.votes, half_life), half_life
        return self.value


class Ballot:
    """The votes about one pod or node."""

    def __init__(self) -> None:
        self._voters: dict[str, _Voter] = {}

    def __len__(self) -> int:
        return len(self._voters)

    def size(self) -> int:
        return sum(len(voter.votes) for voter in self._voters.values())

    def knows(self, client: str) -> bool:
        return client in self._voters

    def cast(self, client: str, rtt_ms: float, *, at: float, period: float) -> None:
        """Several reports within one time of observation are one vote, their mean."""
        number = math.floor(at / period)
        voter = self._voters.setdefault(client, _Voter())
        voter.half_life = 0.0
        if voter.votes and voter.votes[-1].period == number:
            last = voter.votes[-1]
            last.total, last.count, last.at = last.total + rtt_ms, last.count + 1, at
            return
        voter.votes.append(_Vote(number, rtt_ms, 1, at))
        del voter.votes[:-MOST_VOTES]

    def tally(self, now: float, *, half_life: float, min_clients: int) -> Tally | None:
        """None: too few clients have voted."""
        self._forget(now - FORGOTTEN_AFTER * half_life)
        voters = self._voters.values()
        if len(voters) < max(1, min_clients):
            return None
        newest = [voter.votes[-1].mean for voter in voters]
        return Tally(
            rtt_ms=median(voter.faded(half_life) for voter in voters),
            p95_ms=percentile(newest, 95),
            newest_ms=median(newest),
            least_ms=median(voter.least for voter in voters),
            settled=len(voters) >= SEVERAL_CLIENTS or all(len(each.votes) > 1 for each in voters),
            clients=len(voters),
            last=max(voter.votes[-1].at for voter in voters),
        )

    def _forget(self, before: float) -> None:
        for client in [name for name, each in self._voters.items() if each.votes[-1].at < before]:
            del self._voters[client]


def _faded(votes: list[_Vote], half_life: float) -> float:
    """The median of a client's votes, weighted by their age: one bad second does not outvote those
    before it."""
    newest = votes[-1].at
    # Where the clock was set back, a vote from before seems to come from the future.
    ages = ((vote.mean, max(0.0, newest - vote.at)) for vote in votes)
    weighted = sorted((mean, math.exp2(-age / half_life)) for mean, age in ages)
    half = sum(weight for _, weight in weighted) / 2
    passed = 0.0
    for value, weight in weighted:
        passed += weight
        if passed >= half:
            return value
    return votes[-1].mean


def percentile(values: Iterable[float], percent: float) -> float:
    """The least value that is not below `percent` of them (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
