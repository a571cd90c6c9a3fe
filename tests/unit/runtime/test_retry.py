"""The type of an error names when to try again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.retry import (
    BACKOFF,
    NOW,
    ON_CHANGE,
    NotUntilItChanges,
    ReconcileError,
    Retry,
    TryAgainAfter,
    TryAgainNow,
    after,
    retry_for,
)


class NoSuchTemplate(NotUntilItChanges):
    pass


@pytest.mark.parametrize(
    ("error", "policy"),
    [
        (ReconcileError("x"), BACKOFF),
        (TryAgainNow("x"), NOW),
        (TryAgainAfter("x", 7.0), after(7.0)),
        (NoSuchTemplate("x"), ON_CHANGE),
        (Conflict(409), NOW),
        (AlreadyExists(409), NOW),
        (Invalid(422), ON_CHANGE),
        (Forbidden(403), BACKOFF),
        (NotFound(404), BACKOFF),
        (TooManyRequests(429, retry_after=3.0), after(3.0)),
        (TooManyRequests(429), after(1.0)),
        (ServerError(503, retry_after=2.0), after(2.0)),
        (ServerError(503, retry_after=86400.0), after(60.0)),
        (ServerError(500), BACKOFF),
        (ApiError(418), BACKOFF),
        (Unreachable("x"), BACKOFF),
        (KeyError("a mistake of ours"), BACKOFF),
    ],
    ids=lambda value: type(value).__name__,
)
def test_policy(error: Exception, policy: Retry) -> None:
    assert retry_for(error) == policy


@given(failures=st.integers(1, 10**9), chance=st.floats(0, 1))
def test_a_delay_grows_to_its_limit_and_keeps_at_least_half(failures: int, chance: float) -> None:
    backoff = Backoff(first=0.1, most=30.0)
    full = backoff.delay(failures, lambda: 1.0)
    assert full <= 30.0
    assert full / 2 <= backoff.delay(failures, lambda: chance) <= full
    assert full == 30.0 or backoff.delay(failures + 1, lambda: 1.0) > full
