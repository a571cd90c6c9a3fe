"""The TURN servers of a location as its object and its Secret describe them.

Without the rest of the server, because whoever adds a location checks them the same way.
"""

from __future__ import annotations

from edgewise.api.fleet import SECRET_LABEL, TURN_SECRET_KEY, Turn
from edgewise.kube.core import Secret
from edgewise.server.errors import FleetError
from edgewise.sessions.turn import TurnError, TurnRealm

LABEL_VALUE = "turn"


class UnusableTurn(FleetError):
    """TURN settings of a location that no credential can be made from."""


def realm_of(settings: Turn, secret: Secret | None) -> TurnRealm:
    """Raises UnusableTurn with what to do about it."""
    if secret is None or secret.metadata.labels.get(SECRET_LABEL) != LABEL_VALUE:
        # The label keeps signatures from being made with keys that are for something else.
        raise UnusableTurn(
            f"there is no Secret {settings.secret!r} with the label {SECRET_LABEL}={LABEL_VALUE}"
        )
    content = secret.data.get(TURN_SECRET_KEY, b"")
    try:
        text = content.decode("utf-8").rstrip("\r\n")
        return TurnRealm(tuple(settings.urls), text, settings.lifetime_seconds)
    except UnicodeDecodeError:
        raise UnusableTurn(f"the TURN secret in {secret.key} is not text") from None
    except TurnError as error:
        raise UnusableTurn(str(error)) from None
