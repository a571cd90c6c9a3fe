"""Fleets of old versions: how a GameType tells a Fleet to make no server any more.

It is an annotation of the Fleet, so that a GameType says the number and this in one write.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from edgewise.api.games import GROUP

OUTGOING = f"{GROUP}/outgoing"
OUTGOING_SINCE = f"{GROUP}/outgoing-since"


class Outgoing(StrEnum):
    """How far a fleet is on its way out, in this order. Whatever it loses is not replaced."""

    NO = ""
    IDLE = "Idle"  # servers that are allocated are left alone
    ALL = "All"  # they are asked to end too
    NOW = "Now"  # they are ended: the hard deadline is over

    @property
    def makes_none(self) -> bool:
        return self is not Outgoing.NO

    @property
    def keeps_allocated(self) -> bool:
        return self is Outgoing.IDLE


def outgoing_of(annotations: Mapping[str, str]) -> Outgoing:
    """What is marked; a word that is not known is taken for the most careful one."""
    written = annotations.get(OUTGOING, "")
    try:
        return Outgoing(written)
    except ValueError:
        return Outgoing.IDLE
