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
from edgewise.client.probe import Measurement, Target, measure
from edgewise.client.seat import Seat, Wish
from edgewise.client.views import IceServer

__all__ = [
    "AlreadySeated",
    "ApiError",
    "Busy",
    "Edgewise",
    "EdgewiseError",
    "IceServer",
    "Measurement",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "Seat",
    "Target",
    "Unreachable",
    "Wish",
    "measure",
]
