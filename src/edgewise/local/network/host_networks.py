"""The networks that this machine already knows, so that clusters stay out of them."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Network
from typing import Any

import msgspec


def networks_of_host(besides: str) -> list[IPv4Network]:
    """Every IPv4 network that the host has a route to, but not by the link `besides`."""
    try:
        listing = subprocess.run(
            ["ip", "-json", "-4", "route", "show", "table", "main"],
            check=True,
            capture_output=True,
            timeout=10,
        )
    except FileNotFoundError:
        return []
    return networks_in(msgspec.json.decode(listing.stdout or b"[]"), besides)


def networks_in(routes: list[dict[str, Any]], besides: str) -> list[IPv4Network]:
    return [
        IPv4Network(route["dst"], strict=False)
        for route in routes
        if route["dst"] != "default" and route.get("dev") != besides
    ]
