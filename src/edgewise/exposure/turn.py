"""Time-limited TURN credentials: what coturn's `use-auth-secret` and STUNner's `ephemeral` check.

The TURN server and whoever hands out credentials share one secret. A credential names its
own end, so nothing has to be stored, and there is nobody to ask while a client connects.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence

import msgspec

from edgewise.api.exposure import TURN_SECRET_KEY, Turn
from edgewise.api.secrets import SECRET_LABEL
from edgewise.kube.kinds.core import Secret
from edgewise.runtime.errors import ServiceError

# Shorter than this, a secret can be guessed from one intercepted user name and reply.
SHORTEST_SECRET = 16
LONGEST_LIFETIME = 24 * 3600
LONGEST_CLIENT = 256

_URL = re.compile(
    r"turns?:(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?:\?transport=(?:udp|tcp))?"
)
# No colon, which separates the parts of the user name, and nothing invisible.
_CLIENT = re.compile(rf"[A-Za-z0-9._/@+=-]{{1,{LONGEST_CLIENT}}}")


TURN_LABEL = "turn"  # the label's value: keys that are for something else sign no credentials


class TurnError(ServiceError):
    """A TURN setting or client that no credential can be made for."""


class IceServer(msgspec.Struct, frozen=True):
    """One entry of `iceServers`, as browsers and other WebRTC libraries take it."""

    urls: tuple[str, ...]
    username: str
    credential: str

    @property
    def expires_at(self) -> int:
        """Epoch seconds. A connection made before then lives on with coturn; STUNner ends it
        when the client next renews its relay, so there a lifetime covers the whole session."""
        return int(self.username.split(":", 1)[0])

    def __repr__(self) -> str:  # credentials end up in logs through a repr
        return f"IceServer(urls={self.urls!r}, username={self.username!r}, credential=…)"


class TurnRealm(msgspec.Struct, frozen=True):
    """The TURN servers that share a secret, and how long what they accept shall last."""

    urls: tuple[str, ...]
    secret: str
    lifetime: int = 3600

    def __post_init__(self) -> None:
        check_urls(self.urls)
        if len(self.secret) < SHORTEST_SECRET:
            raise TurnError(
                f"the TURN secret is shorter than {SHORTEST_SECRET} characters; "
                "make one with `openssl rand -hex 32`"
            )
        if not 1 <= self.lifetime <= LONGEST_LIFETIME:
            raise TurnError(
                f"TURN credentials must last between 1 and {LONGEST_LIFETIME} seconds, "
                f"not {self.lifetime}"
            )

    def __repr__(self) -> str:
        return f"TurnRealm(urls={self.urls!r}, secret=…, lifetime={self.lifetime})"

    def credentials(self, client: str, *, now: float) -> IceServer:
        """What `client` may connect with from `now` (epoch seconds) on."""
        if not _CLIENT.fullmatch(client):
            raise TurnError(
                f"{client[:LONGEST_CLIENT]!r} cannot be in a TURN user name; "
                "use letters, digits and . _ - / @ + ="
            )
        username = f"{int(now) + self.lifetime}:{client}"
        return IceServer(self.urls, username, password(self.secret, username))


def realm_of(settings: Turn, secret: Secret | None) -> TurnRealm:
    """The TURN servers of a location as its object and its Secret describe them. The server and
    the command that adds a location check them alike."""
    if secret is None or secret.metadata.labels.get(SECRET_LABEL) != TURN_LABEL:
        raise TurnError(
            f"there is no Secret {settings.secret!r} with the label {SECRET_LABEL}={TURN_LABEL}"
        )
    content = secret.data.get(TURN_SECRET_KEY, b"")
    try:
        text = content.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise TurnError(f"the TURN secret in {secret.key} is not text") from None
    return TurnRealm(tuple(settings.urls), text, settings.lifetime_seconds)


def password(secret: str, username: str) -> str:
    """The password that a TURN server with `secret` expects from `username`."""
    # SHA-1 is what the servers compute; as the hash inside an HMAC it is not known to be weak.
    digest = hmac.new(secret.encode(), username.encode(), hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def check_urls(urls: Sequence[str]) -> None:
    """Refuse what a WebRTC library would reject later, on the user's side."""
    if not urls:
        raise TurnError("no TURN URL is given; name at least one, such as turn:203.0.113.5:3478")
    for url in urls:
        match = _URL.fullmatch(url)
        if match is None:
            raise TurnError(
                f"{url!r} is not a TURN URL; "
                "write turn:HOST:PORT, with ?transport=tcp or turns: where needed"
            )
        if match["port"] and not 1 <= int(match["port"]) <= 65535:
            raise TurnError(f"{url!r} names port {match['port']}; ports go from 1 to 65535")
