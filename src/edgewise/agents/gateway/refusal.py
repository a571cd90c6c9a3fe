"""Which routes are never served, whoever asks.

Routes come from objects that somebody else wrote. A route that cannot be served, or
that would lead where no pod lives, is refused alone and by name; all others go on.
"""

from __future__ import annotations

import ipaddress
import re

from edgewise.agents.gateway.settings import LABEL, Settings
from edgewise.exposure.route import Route

SHA256 = re.compile(r"[0-9a-f]{64}")


def refusal(route: Route, settings: Settings) -> str:
    """Why `route` is not served; empty if it is."""
    if not LABEL.fullmatch(route.seat):
        return f"seat {route.seat[:80]!r} is not a DNS label"
    if not LABEL.fullmatch(route.port_name):
        return f"port name {route.port_name[:80]!r} is not a DNS label"
    if not 1 <= route.target_port <= 65535:
        return f"target port {route.target_port} is not within 1-65535"
    if route.token_sha256 and not SHA256.fullmatch(route.token_sha256):
        return "token_sha256 is not the 64 hex digits of a SHA-256"
    return (
        address_refusal(route.address, settings)
        or place_refusal(route, settings)
        or hostname_refusal(route, settings)
    )


def address_refusal(address: str, settings: Settings) -> str:
    try:
        target = ipaddress.ip_address(address)
    except ValueError:
        return f"address {address[:80]!r} is not an IP address"
    if target.is_multicast or target.is_unspecified or str(target) != address:
        return f"address {address} is not the plain address of a pod"
    if isinstance(target, ipaddress.IPv6Address) and target.ipv4_mapped is not None:
        return f"address {address} is not the plain address of a pod"
    if (target.is_loopback or target.is_link_local) and not settings.allow_local_targets:
        return f"address {address} is local to a machine; no pod can have it"
    return ""


def place_refusal(route: Route, settings: Settings) -> str:
    if route.protocol == "HTTP":
        if route.listen_port:
            return f"HTTP has no port of its own, but listen port {route.listen_port} is given"
        return ""
    if route.listen_port not in settings.ports:
        return (
            f"listen port {route.listen_port} is outside of the gateway's range "
            f"{settings.ports.first}-{settings.ports.last}"
        )
    return ""


def hostname_refusal(route: Route, settings: Settings) -> str:
    if not route.hostname or not settings.domain:
        return ""
    label, _, rest = route.hostname.partition(".")
    # The label is also the key of a scope: one that is not the seat's own could
    # stand in the way of another seat.
    own = label == route.seat or label.endswith(f"-{route.seat}")
    if rest != settings.domain or not own or not LABEL.fullmatch(label):
        return (
            f"hostname {route.hostname[:80]!r} is not the seat, or a name ending in "
            f"-SEAT, under {settings.domain}"
        )
    return ""
