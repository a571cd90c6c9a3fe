"""What can stand between a caller and what it asked for, each as a type of its own.

The texts are sentences for whoever called; the HTTP layer adds only the status.
"""

from __future__ import annotations


class FleetError(Exception):
    """The base of all of them."""


class Unavailable(FleetError):
    """It cannot be done now, and may be later: come back after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: int = 5) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class HubUnreachable(Unavailable):
    """The cluster that holds the truth does not answer, so nothing can be decided."""

    def __init__(self) -> None:
        super().__init__(
            "the cluster that keeps the fleet's records does not answer: whoever is seated "
            "stays seated, but nothing can be changed until it is back; try again shortly"
        )


class NotThere(FleetError):
    """There is no such session, client, template or location."""


class Refused(FleetError):
    """It contradicts how things are, and trying again will not help."""


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


class Unacceptable(FleetError):
    """The request is well formed, but what it says cannot be right."""
