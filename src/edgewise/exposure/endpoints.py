"""Endpoints as text: how an address is written, and what can be read back from it.

They are the only record of a seat's id and public port in the status, so that a session of
two thousand clients stays small; writing and reading therefore stand side by side.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from edgewise.exposure.site import Site


def seat_url(site: Site, seat: str, port: str) -> str:
    """HTTP through the gateway: by host where there is a wildcard domain, else by path."""
    base = site.public_url.rstrip("/")
    if not site.domain:
        return f"{base}/s/{seat}/{port}/"
    scheme = urlsplit(base).scheme
    at = f":{site.domain_port}" if site.domain_port else ""
    return f"{scheme}://{seat_hostname(seat, port, site.domain)}{at}/"


def seat_hostname(seat: str, port: str, domain: str) -> str:
    return f"{port}-{seat}.{domain}"


def port_url(protocol: str, host: str, port: int) -> str:
    """A place with a port of its own."""
    shown = f"[{host}]" if ":" in host else host
    return f"{protocol.lower()}://{shown}:{port}" + ("/" if protocol == "HTTP" else "")


def leads_by(protocol: str, url: str) -> bool:
    """Whether an address is one of this protocol."""
    scheme = url.partition(":")[0]
    return scheme in ("http", "https") if protocol == "HTTP" else scheme == protocol.lower()


def seat_in(url: str) -> str:
    """The seat that an HTTP endpoint of the gateway leads to; empty if it is none."""
    parts = urlsplit(url)
    steps = parts.path.split("/")
    if len(steps) > 3 and steps[-4] == "s":
        return steps[-3]
    return (parts.hostname or "").partition(".")[0].rpartition("-")[2]


def port_in(url: str) -> int:
    """The public port of a TCP or UDP endpoint; 0 if it has none."""
    try:
        return urlsplit(url).port or 0
    except ValueError:
        return 0
