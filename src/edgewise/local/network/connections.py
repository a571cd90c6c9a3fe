"""Which clusters are joined, so that their nodes and pods reach each other.

A pair is written down on both sides; the network is then made accordingly by
whoever makes it next, so that a control plane that starts anew is joined again.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from edgewise.local.errors import LocalError
from edgewise.local.layout import Home, write_atomically
from edgewise.local.network.addresses import AddressPlan


class Peer(msgspec.Struct, frozen=True):
    """Another cluster that this one is joined to."""

    home: str
    index: int
    # Milliseconds that a packet takes from one to the other.
    latency: float = 0.0

    @property
    def addresses(self) -> AddressPlan:
        return AddressPlan(self.index)


def peers(home: Home) -> list[Peer]:
    """Those that still exist; a cluster that was taken down is nobody's peer."""
    folder = _folder(home)
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [msgspec.json.decode(file.read_bytes(), type=Peer) for file in files]
    return [peer for peer in found if Home(Path(peer.home)).exists()]


def remember(one: Home, other: Home, latency: float) -> None:
    for home, peer in ((one, other), (other, one)):
        record = peer.read()
        if not record.spec.real:
            raise LocalError(
                f"cluster {peer.name!r} has simulated nodes only, and so no network to join; "
                "start it with `--nodes 1` or more"
            )
        _folder(home).mkdir(exist_ok=True, mode=0o700)
        entry = Peer(str(peer.path), record.index, latency)
        write_atomically(_folder(home) / str(record.index), msgspec.json.encode(entry))


def forget(one: Home, other: Home) -> None:
    for home, peer in ((one, other), (other, one)):
        for entry in peers(home):
            if entry.home == str(peer.path):
                (_folder(home) / str(entry.index)).unlink(missing_ok=True)


def forget_everywhere(home: Home) -> None:
    """Before a cluster goes."""
    for peer in peers(home):
        forget(home, Home(Path(peer.home)))


def _folder(home: Home) -> Path:
    return Path(os.path.join(home.path, "peers"))
