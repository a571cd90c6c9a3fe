"""What the plan of an autoscaler sees, as values."""

from __future__ import annotations

import msgspec

from edgewise.api.games import GameAutoscaler


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How a game stands. Servers of all its versions count."""

    replicas: int  # the number that the game has now
    ready: int = 0
    allocated: int = 0  # those that the game reserved for itself are not free either
    queued: int = 0  # callers that wait for a server

    @property
    def in_use(self) -> int:
        return self.allocated + self.queued


class Said(msgspec.Struct, frozen=True):
    """What a webhook answered; None: the number may stay."""

    desired: int | None


class Trouble(msgspec.Struct, frozen=True):
    """Why there is no number: a word for programs, and a sentence."""

    reason: str
    message: str


class Wished(msgspec.Struct, frozen=True):
    """That some moment ago a policy wanted so many."""

    at: float
    number: int


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What only this process knows of an autoscaler. A new one begins carefully: see `begun`."""

    evaluated: float | None = None
    asked_for: Counts | None = None  # what it looked like then
    wishes: tuple[Wished, ...] = ()
    heard: bool = False  # whether any evaluation came to an end
    trouble: Trouble | None = None  # of the last one

    @classmethod
    def begun(cls, replicas: int, now: float) -> History:
        """As if the policy had wanted just now what there is: so a window of stabilization is
        not cut short by a restart of the operator."""
        return cls(wishes=(Wished(now, replicas),))


class ScalerSeen(msgspec.Struct, frozen=True, kw_only=True):
    scaler: GameAutoscaler
    counts: Counts | None  # None: there is no such game
    rival: str = ""  # an older autoscaler of the same game
    going: bool = False  # the game is being deleted
    answer: Said | Trouble | None = None  # of the webhook, if one has come
    asking: bool = False  # the webhook is being asked
    history: History = History()
