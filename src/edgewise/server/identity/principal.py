"""Who is calling, once that has been proved."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from edgewise.errors import ReadableError


def with_article(role: Role) -> str:
    return f"an {role}" if role in (Role.ADMIN, Role.APP) else f"a {role}"


class Role(StrEnum):
    ADMIN = "admin"  # operates the hub
    APP = "app"  # an application: owns sessions and the clients in them
    READER = "reader"  # looks at everything, changes nothing
    CLIENT = "client"  # one person in one session


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    role: Role
    # The application that sessions belong to, as an owner is written (see `ownership`); for a
    # client, the one it came from is unknown.
    application: str = ""
    # Only of a client: the one session (by its uid, so not a namesake) and who it is in there.
    session: str = ""
    session_uid: str = ""
    client: str = ""
    # The last time that its application had taken it out when the proof was made (see `removals`).
    removal: int = 0
    # When the proof ends, in seconds since the epoch; None is never.
    expires: float | None = None

    def __str__(self) -> str:
        """For logs and for rate limits: names, never secrets."""
        if self.role is Role.CLIENT:
            return f"client {self.client} of {self.session}"
        return f"{self.role} {self.application}".strip()


class Unauthenticated(ReadableError):
    """The proof is missing or does not hold; the text is for whoever sent it."""


class IdentityUnavailable(ReadableError):
    """Nobody can say now whether the proof holds: the issuer's keys cannot be had."""
