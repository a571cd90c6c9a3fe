"""Joins two clusters, so that their nodes and pods reach each other, and parts them again."""

from __future__ import annotations

from edgewise.local.addresses import AddressPlan
from edgewise.local.layout import Home


def peers(home: Home) -> list[AddressPlan]:
    """The clusters that this one is joined to."""
    folder = home.path / "peers"
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return [AddressPlan(int(name)) for name in sorted(names, key=int)]
