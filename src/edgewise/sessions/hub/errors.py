"""What can stand between a client and its seat."""

from __future__ import annotations

from edgewise.runtime.errors import Refused, Unavailable


class HubUnreachable(Unavailable):
    """The cluster that holds the truth does not answer, so nothing can be decided."""

    def __init__(self) -> None:
        super().__init__(
            "the cluster that keeps the hub's records does not answer: whoever is seated "
            "stays seated, but nothing can be changed until it is back; try again shortly"
        )


class NoPlace(Refused):
    """Every location that would do is full or cordoned; that may change."""

    retry_after = 5


class AlreadySeated(Refused):
    """The client sits in another location than the one that was asked for."""

    def __init__(self, client: str, location: str, wanted: str) -> None:
        super().__init__(
            f"{client} already sits in {location}, so it cannot join in {wanted}: use the seat "
            "it has, or ask for a move"
        )
        self.location = location
