"""Which public ports are taken, and by whom.

The claim itself is the creation of a PortClaim, which only one can do. This index only helps
to pick a port that is likely to be free.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Set
from contextlib import suppress

import msgspec

from edgewise.api.exposure import PortClaim
from edgewise.exposure.port_range import PortRange
from edgewise.runtime.caching.cache import Cache


def port_claim_name(protocol: str, port: int) -> str:
    """HTTP never gets a port of its own, so TCP and UDP are all there is."""
    return f"{protocol.lower()}-{port}"


class PortClaimSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    number: int
    protocol: str
    uid: str
    version: str


# A port that a gateway could not listen at is not offered again for so long.
AVOIDED_FOR = 600.0

Holder = tuple[str, str]  # what of the owner, and the name of the port


class PortIndex:
    def __init__(
        self, ports: PortRange, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._ports = ports
        self._monotonic = monotonic
        self._taken: dict[str, set[int]] = defaultdict(set)
        self._of_owner: dict[str, dict[Holder, PortClaimSeen]] = defaultdict(dict)
        self._avoided: dict[int, float] = {}
        self._reserved: set[int] = set()
        self._following: Cache[PortClaim] | None = None

    def follow(self, claims: Cache[PortClaim]) -> None:
        if self._following is not claims:
            self._following = claims
            claims.subscribe(self._changed)

    def __len__(self) -> int:
        """Of each protocol, free or not."""
        return len(self._ports)

    def claims_of(self, owner_uid: str) -> dict[Holder, PortClaimSeen]:
        return dict(self._of_owner.get(owner_uid, {}))

    def pick(self, protocol: str, seed: str, also_taken: Set[int]) -> int | None:
        """A port that seems free. Different seeds begin at different places, so that two
        operators that pick at once rarely pick the same."""
        return self.probe(seed, self._taken[protocol], self._reserved, also_taken)

    def probe(self, seed: str, *taken: Set[int]) -> int | None:
        size = len(self._ports)
        start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
        now = self._monotonic()
        for step in range(size):
            port = self._ports.first + (start + step) % size
            if self._avoided.get(port, 0.0) <= now and not any(port in each for each in taken):
                return port
        return None

    def avoid(self, port: int) -> None:
        self._avoided[port] = self._monotonic() + AVOIDED_FOR

    def reserve(self, ports: Set[int]) -> Callable[[], None]:
        """Keep ports from being picked while they are claimed; returns how to end that."""
        self._reserved |= ports
        return lambda: self._reserved.difference_update(ports)

    def _changed(self, old: PortClaim | None, new: PortClaim | None, _: bool) -> None:
        if old is not None:
            seen = read_claim(old)
            self._taken[seen.protocol].discard(seen.number)
            owned = self._of_owner.get(old.spec.uid, {})
            with suppress(KeyError):
                del owned[old.spec.holder, old.spec.port]
            if not owned:
                self._of_owner.pop(old.spec.uid, None)
        if new is not None:
            seen = read_claim(new)
            self._taken[seen.protocol].add(seen.number)
            self._of_owner[new.spec.uid][new.spec.holder, new.spec.port] = seen


def read_claim(claim: PortClaim) -> PortClaimSeen:
    protocol, _, number = claim.metadata.name.rpartition("-")
    return PortClaimSeen(
        number=int(number) if number.isdecimal() else 0,
        protocol=protocol.upper(),
        uid=claim.metadata.uid,
        version=claim.metadata.resource_version,
    )
