"""The Python SDK: measure, join, stay, leave.

async with Edgewise("https://edge.example.org", token).join("room-1", client="alice") as seat:
    print(seat.endpoint())
"""

from edgewise.client.edgewise import Edgewise
from edgewise.client.errors import (
    AlreadySeated,
    ApiError,
    Busy,
    EdgewiseError,
    NotAllowed,
    NotFound,
    NotReady,
    Unreachable,
)
from edgewise.client.games.match import Match
from edgewise.client.games.views import Allocation
from edgewise.client.probe import Measurement, Target, measure
from edgewise.client.sessions.seat import JoinRequest, Seat
from edgewise.client.sessions.views import IceServer

__all__ = [
    "Allocation",
    "AlreadySeated",
    "ApiError",
    "Busy",
    "Edgewise",
    "EdgewiseError",
    "IceServer",
    "JoinRequest",
    "Match",
    "Measurement",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "Seat",
    "Target",
    "Unreachable",
    "measure",
]
