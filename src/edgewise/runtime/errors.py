"""What can stand between a caller and what it asked for, each as a type of its own.

The texts are sentences for whoever called; the HTTP layer adds only the status.
"""

from __future__ import annotations

from edgewise.errors import ReadableError


class ServiceError(ReadableError):
    """The base of all of them."""


class Unavailable(ServiceError):
    """It cannot be done now, and may be later: come back after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: int = 5) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotThere(ServiceError):
    """There is no such session, client, template or location."""


class Refused(ServiceError):
    """It contradicts how things are, and trying again will not help."""


class Unacceptable(ServiceError):
    """The request is well formed, but what it says cannot be right."""
