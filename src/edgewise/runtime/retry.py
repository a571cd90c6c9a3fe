"""What to do after a reconcile has failed: the type of the error says it.

Domains raise one of the errors here, or a subclass of it; everything that the API
server can answer has its place in the table.
"""

from __future__ import annotations

import enum

import msgspec

from edgewise.errors import ReadableError
from edgewise.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    TooManyRequests,
)


class When(enum.Enum):
    NOW = "now"
    BACKOFF = "backoff"
    AFTER = "after"
    CHANGE = "change"


class Retry(msgspec.Struct, frozen=True):
    """When to try again; `seconds` counts for AFTER only."""

    when: When
    seconds: float = 0.0


NOW = Retry(When.NOW)
BACKOFF = Retry(When.BACKOFF)
ON_CHANGE = Retry(When.CHANGE)


def after(seconds: float) -> Retry:
    return Retry(When.AFTER, seconds)


class ReconcileError(ReadableError):
    """Try again, waiting longer each time."""

    retry: Retry = BACKOFF


class TryAgainNow(ReconcileError):
    """The world moved under the reconcile; look again at once."""

    retry = NOW


class TryAgainAfter(ReconcileError):
    """Somebody said how long it will take."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.retry = after(seconds)


class NotUntilItChanges(ReconcileError):
    """Trying again is of no use until somebody changes the object (or what it names)."""

    retry = ON_CHANGE


# A server that asks for a day of silence is not obeyed to the letter.
LONGEST_WISH = 60.0

# The first entry that fits counts; subclasses therefore come before their bases.
_POLICIES: tuple[tuple[type[Exception], Retry], ...] = (
    (Conflict, NOW),
    (AlreadyExists, NOW),
    (Gone, NOW),
    (Invalid, ON_CHANGE),
)


def retry_for(error: BaseException) -> Retry:
    """The retry policy that the type of an error names."""
    if isinstance(error, ReconcileError):
        return error.retry
    if isinstance(error, ApiError) and error.retry_after is not None:
        return after(min(error.retry_after, LONGEST_WISH))
    if isinstance(error, TooManyRequests):
        return after(1.0)
    for kind, policy in _POLICIES:
        if isinstance(error, kind):
            return policy
    return BACKOFF
