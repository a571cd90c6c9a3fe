"""Which HTTP proxy, if any, stands between this machine and a server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from edgewise.kube.errors import ConfigError


def choose_proxy(server: str, configured: str, environment: Mapping[str, str]) -> str | None:
    """The kubeconfig's proxy-url wins; else HTTPS_PROXY / HTTP_PROXY unless NO_PROXY covers it."""
    if configured:
        return _usable(configured, "proxy-url in the kubeconfig")
    target = urlsplit(server)
    name = "HTTPS_PROXY" if target.scheme == "https" else "HTTP_PROXY"
    found = environment.get(name) or environment.get(name.lower())
    exceptions = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if not found or _excepted(target.hostname or "", target.port, exceptions):
        return None
    return _usable(found if "://" in found else f"http://{found}", f"${name}")


def _usable(proxy: str, where: str) -> str:
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        # It may hold a password, which does not belong into a message.
        shown = parts._replace(netloc=parts.hostname or "").geturl()
    except ValueError:
        usable, shown = False, "address"
    if not usable:
        raise ConfigError(
            f"the proxy {shown} ({where}) cannot be used: name an http:// or https:// proxy"
        )
    return proxy


def _excepted(host: str, port: int | None, exceptions: str) -> bool:
    """NO_PROXY as Go programs read it: names, domain suffixes, addresses and CIDRs."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for exception in filter(None, (part.strip().lower() for part in exceptions.split(","))):
        if exception == "*" or _matches(exception, host.lower(), port, address):
            return True
    return False


def _matches(
    exception: str,
    host: str,
    port: int | None,
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None,
) -> bool:
    if address is not None:
        try:
            return address in ipaddress.ip_network(exception, strict=False)
        except ValueError:
            return exception == f"{host}:{port}"
    name, _, wanted_port = exception.partition(":")
    if wanted_port and wanted_port != str(port):
        return False
    suffix = name.removeprefix("*")
    return host == suffix.removeprefix(".") or host.endswith(f".{suffix.removeprefix('.')}")
