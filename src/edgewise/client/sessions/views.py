"""What the server answers, as far as the SDK uses it. Unknown fields are ignored."""

from __future__ import annotations

import msgspec


class PingAddress(msgspec.Struct, frozen=True):
    http: str = ""
    udp: str = ""


class Location(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    region: str = ""
    state: str = ""
    reason: str = ""
    ping: PingAddress = PingAddress()
    clients: int = 0
    capacity: int | None = None
    free: int | None = None
    load: float = 0.0


class IceServer(msgspec.Struct, frozen=True):
    """A TURN server with credentials that end: one entry of a browser's `iceServers`."""

    urls: list[str]
    username: str
    credential: str

    def __repr__(self) -> str:  # views end up in logs
        return f"IceServer(urls={self.urls!r}, username={self.username!r}, credential=…)"


class ClientView(msgspec.Struct, frozen=True, rename="camel"):
    """Where a client is."""

    session: str
    client: str
    state: str
    ready: bool = False
    location: str | None = None
    # Pod template to port name to address.
    endpoints: dict[str, dict[str, str]] = {}
    # Pod template to the token that its gateway asks for, if it does.
    tokens: dict[str, str] = {}
    # What WebRTC connects through there, if the location has TURN servers.
    ice_servers: list[IceServer] = []
    position: int | None = None
    until: str | None = None
    why: str = ""
    moves: int = 0
    lease_seconds: int = 0
    message: str = ""


class Token(msgspec.Struct, frozen=True):
    token: str
    expires: float


class Heartbeat(msgspec.Struct, frozen=True):
    client: ClientView
    token: Token | None = None


class Session(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    template: str
    owner: str = ""
    state: str = ""
    clients: int = 0
    ready: int = 0
    suspect: int = 0
    disconnected: int = 0
    queued: int = 0
    created: str | None = None


class SessionPart(msgspec.Struct, frozen=True):
    state: str = ""
    reason: str = ""
    clients: int = 0
    ready: int = 0


class SessionDetails(Session, frozen=True, rename="camel"):
    locations: dict[str, SessionPart] = {}
    clients_by_id: dict[str, ClientView] = {}


class Template(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    pods: list[str] = []
    max_clients: int | None = None
    timeout_seconds: int = 0


class SessionPage(msgspec.Struct, frozen=True):
    items: list[Session]
    next: str | None = None


class Locations(msgspec.Struct, frozen=True):
    items: list[Location]


class Templates(msgspec.Struct, frozen=True):
    items: list[Template]
