"""What can go wrong, for the program that uses the SDK. The texts are the server's sentences."""

from __future__ import annotations


class EdgewiseError(Exception):
    """The base of everything that the SDK raises on purpose."""


class Unreachable(EdgewiseError):
    """The server does not answer."""


class ApiError(EdgewiseError):
    """The server said no."""

    def __init__(
        self,
        status: int,
        type: str = "",
        detail: str = "",
        *,
        request_id: str = "",
        retry_after: float | None = None,
        location: str = "",
    ) -> None:
        super().__init__(detail or f"the server answered with HTTP {status}")
        self.status = status
        self.type = type.rpartition("/")[2]
        self.request_id = request_id
        self.retry_after = retry_after
        self.location = location


class NotAllowed(ApiError):
    """The token is missing, wrong or expired (401), or does not allow this (403)."""


class NotFound(ApiError):
    """No such session, or the client is not in it."""


class AlreadySeated(ApiError):
    """The client sits elsewhere: `location` says where."""


class Busy(ApiError):
    """Not now: no place, too many requests, or the hub's records cannot be reached."""


class NotReady(EdgewiseError):
    """The time was up before the client had a seat that works."""
