"""What the operator is told about all servers."""

from __future__ import annotations

import re

import msgspec

from edgewise.errors import ReadableError

_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")


class BadPorts(ReadableError, ValueError):
    """A range of ports that cannot be meant."""


class GamePorts(msgspec.Struct, frozen=True):
    """Ports of nodes that servers may get, both ends included."""

    first: int = 7000
    last: int = 8000


def game_ports(text: str) -> GamePorts:
    """A range such as 7000-8000."""
    found = _RANGE.fullmatch(text.strip())
    if not found:
        raise BadPorts(f"--game-ports {text!r} is no range: write it like 7000-8000")
    first, last = int(found[1]), int(found[2])
    if first > last:
        raise BadPorts(f"--game-ports {text} is upside down: {first} is above {last}")
    if not first >= 1 or last > 65535:
        raise BadPorts(f"--game-ports {text}: ports are numbers from 1 to 65535")
    return GamePorts(first, last)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    sidecar_image: str = ""  # empty: pods get no sidecar, and games no SDK
    operator_url: str = ""  # where sidecars find the operator
    ports: GamePorts = GamePorts()
