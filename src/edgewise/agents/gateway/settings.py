"""What an operator of the gateway may choose, checked before anything starts."""

from __future__ import annotations

import ipaddress
import re

import msgspec

from edgewise.errors import ReadableError

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
DOMAIN = re.compile(r"(?=.{1,190}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


class SettingsError(ReadableError):
    """A setting that cannot work; the text says which and what to do."""


class Ports(msgspec.Struct, frozen=True):
    """The TCP and UDP ports that seats may have, both ends included."""

    first: int
    last: int

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and self.first <= port <= self.last

    @classmethod
    def parse(cls, text: str) -> Ports:
        """Read `20000-32767`."""
        match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
        if match is None:
            raise SettingsError(f"ports {text!r} is not a range; write it like 20000-32767")
        ports = cls(int(match[1]), int(match[2]))
        if not 1 <= ports.first <= ports.last <= 65535:
            raise SettingsError(f"ports {text!r} must rise and stay within 1-65535")
        return ports


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that shapes the resources that Envoy is given."""

    bind: str = "0.0.0.0"  # noqa: S104 - the public entry point faces everybody
    http_port: int = 8080
    domain: str = ""  # seats are also served as NAME-SEAT.domain, on host_port
    host_port: int = 0
    ports: Ports = Ports(20000, 32767)
    trusted_hops: int = 0  # proxies in front of us whose X-Forwarded-For is believed
    # Pods never live on the loopback or link-local addresses, where Envoy's own
    # neighbours and cloud metadata services do; only tests need them.
    allow_local_targets: bool = False

    def __post_init__(self) -> None:
        try:
            ipaddress.ip_address(self.bind)
        except ValueError:
            raise SettingsError(f"bind {self.bind!r} is not an IP address") from None
        if not 1 <= self.http_port <= 65535:
            raise SettingsError(f"http port {self.http_port} is not within 1-65535")
        if bool(self.domain) != bool(self.host_port):
            raise SettingsError("a wildcard domain and its port belong together: set both or none")
        if self.domain and not DOMAIN.fullmatch(self.domain):
            raise SettingsError(f"domain {self.domain!r} is not a lower-case DNS name")
        if self.host_port == self.http_port:
            raise SettingsError("the wildcard domain needs a port of its own; choose another one")
        if not 0 <= self.host_port <= 65535:
            raise SettingsError(f"host port {self.host_port} is not within 1-65535")
        if not 0 <= self.trusted_hops <= 10:
            raise SettingsError("trusted hops must be within 0-10")
        for port in (self.http_port, self.host_port):
            if port in self.ports:
                raise SettingsError(
                    f"port {port} lies in the range for seats, "
                    f"{self.ports.first}-{self.ports.last}; choose another one"
                )
