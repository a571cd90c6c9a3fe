"""Where a broker is, as it is written: mqtt://[user[:password]@]host[:port], or mqtts://."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from edgewise.errors import ReadableError

_PORTS = {"mqtt": 1883, "mqtts": 8883}


class BadBrokerUrl(ReadableError):
    """An address that is none, with how to write it."""


class BrokerUrl(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    port: int
    tls: bool = False
    user: str = ""
    password: str = ""

    @classmethod
    def parse(cls, text: str) -> BrokerUrl:
        try:
            parts = urlsplit(text)
            port = parts.port
            (parts.hostname or "").encode("idna")  # as it will be looked up
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/"):
            shown = text.rpartition("@")[2]
            raise BadBrokerUrl(
                f"{shown!r} is not the address of a broker: write mqtt://HOST:PORT or "
                "mqtts://HOST:PORT"
            )
        return cls(
            host=parts.hostname,
            port=port or _PORTS[parts.scheme],
            tls=parts.scheme == "mqtts",
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )

    def __repr__(self) -> str:
        return f"{'mqtts' if self.tls else 'mqtt'}://{self.host}:{self.port}"

    def client_options(self) -> dict[str, Any]:
        """For `aiomqtt.Client`."""
        return {
            "hostname": self.host,
            "port": self.port,
            "username": self.user or None,
            "password": self.password or None,
            "tls_context": ssl.create_default_context() if self.tls else None,
        }
