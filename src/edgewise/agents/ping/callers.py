"""How much one caller of the ping agent may ask."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A probe sends 5 questions; these leave room for a house full of people behind one NAT."""

    per_caller: float = 50.0  # questions a second
    burst: int = 100
    altogether: float = 5_000.0
    connections: int = 1_000
    connections_per_caller: int = 32
