"""When to make, renew and retire the webhooks' certificates. Pure: facts in, one step out.

A certificate authority is replaced in four steps, and at every moment each certificate in
use is vouched for by a bundle that is in use:

1. a new authority joins the bundle, and the old one still vouches for the serving certificate;
2. the bundle with both reaches every webhook configuration;
3. after a time to settle, the new authority issues the serving certificate;
4. when every replica has had time to load it, the old authority leaves the bundle.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

DAY = 86_400.0


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Lifetimes and pauses, in seconds."""

    authority_lifetime: float = 365 * DAY
    serving_lifetime: float = 60 * DAY
    # Renewed when this part of a lifetime is left.
    renew_before: float = 1 / 3
    # From the bundle being injected to every API server using it.
    settle: float = 30.0
    # From the serving certificate being stored to every replica showing it.
    overlap: float = 3600.0


class Validity(msgspec.Struct, frozen=True):
    begin: float
    end: float

    def aged(self, now: float, renew_before: float) -> bool:
        return now >= self.end - (self.end - self.begin) * renew_before


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the stored certificates."""

    # The newest one, which issues, comes first.
    authorities: tuple[Validity, ...]
    serving: Validity
    # Whether the newest authority vouches for the serving certificate.
    serving_is_from_newest: bool
    serving_names_match: bool
    # Since when all webhook configurations have had the bundle as it is now.
    injected_at: float | None = None
    rotation_wanted: bool = False


class Step(Enum):
    START_ANEW = auto()
    ADD_AUTHORITY = auto()
    ISSUE_SERVING = auto()
    DROP_OLD_AUTHORITIES = auto()
    NOTHING = auto()


def next_step(facts: Facts | None, now: float, policy: Policy) -> Step:
    """The one thing to do now; None means that nothing usable is stored."""
    if facts is None or facts.authorities[0].end <= now:
        return Step.START_ANEW
    newest, *old = facts.authorities
    if not facts.serving_is_from_newest:
        settled = facts.injected_at is not None and now >= facts.injected_at + policy.settle
        # A serving certificate that has expired helps nobody, so nothing is lost by hurrying.
        return Step.ISSUE_SERVING if settled or facts.serving.end <= now else Step.NOTHING
    if facts.rotation_wanted or newest.aged(now, policy.renew_before):
        return Step.ADD_AUTHORITY
    if not facts.serving_names_match or facts.serving.aged(now, policy.renew_before):
        return Step.ISSUE_SERVING
    if old and now >= facts.serving.begin + policy.overlap:
        return Step.DROP_OLD_AUTHORITIES
    return Step.NOTHING
