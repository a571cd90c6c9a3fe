"""Clients that their application took out: the tokens that they had before hold no more.

Client tokens are checked without asking anybody, so none of them can be taken back. What is
kept instead, until those tokens have run out, is when the application took a client out. It is
kept on the session, so every replica is shown it, and it goes with the session. A token says
which removal was the last when it was issued: it is refused if there is a later one. No two
clocks are compared for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256

from edgewise.api.global_sessions import GlobalSession
from edgewise.api.sessions import GROUP
from edgewise.kube.errors import Conflict, KubeError, NotFound
from edgewise.runtime.errors import NotThere
from edgewise.sessions.hub.errors import HubUnreachable
from edgewise.sessions.hub.records import Hub

# On sessions whose clients were given tokens. In others nothing has to be remembered.
TOKENS_ANNOTATION = f"{GROUP}/client-tokens"
REMOVED_PREFIX = f"removed.{GROUP}/"
# Of one session, in 15 minutes; what is too much for one object is forgotten, oldest first.
MOST_REMEMBERED = 1000
# Longer than any token lasts, also one from a replica whose clock is a little ahead.
MARGIN_SECONDS = 60

Changes = dict[str, str | None]


def last_removal(session: GlobalSession, client: str) -> int:
    """When its application last took the client out, in milliseconds; 0 if it is long ago."""
    return _number(session.metadata.annotations.get(_annotation(client), ""))


def plan_removal(session: GlobalSession, client: str, now: float, token_seconds: int) -> Changes:
    """What to write on a session to remember that a client is taken out now. Pure."""
    moment = max(int(now * 1000), last_removal(session, client) + 1)
    known = {
        name: _number(value)
        for name, value in session.metadata.annotations.items()
        if name.startswith(REMOVED_PREFIX) and name != _annotation(client)
    }
    newest = sorted(known, key=lambda name: -known[name])[: MOST_REMEMBERED - 1]
    remembered = (token_seconds + MARGIN_SECONDS) * 1000
    kept = {name for name in newest if known[name] > moment - remembered}
    changes: Changes = dict.fromkeys(known.keys() - kept)
    return {**changes, _annotation(client): str(moment)}


class Removals:
    """`token_seconds` is how long a client's token lasts."""

    def __init__(
        self, hub: Hub, *, token_seconds: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._hub = hub
        self._token_seconds = token_seconds
        self._clock = clock

    async def read(self, session: GlobalSession) -> GlobalSession:
        """With what other replicas have written on it until now."""
        if not self._hub.link.ready:
            raise HubUnreachable
        meta = session.metadata
        try:
            found = await self._hub.client.get(GlobalSession, meta.name, meta.namespace)
        except NotFound:
            found = None
        except KubeError as error:
            raise HubUnreachable from error
        if found is None or found.metadata.uid != meta.uid:
            raise NotThere(f"there is no session {meta.name!r}")
        return found

    async def expect_tokens(self, session: GlobalSession) -> GlobalSession:
        """Said before a token is handed out; it is written once for each session."""
        if not self._hub.link.ready and TOKENS_ANNOTATION in session.metadata.annotations:
            return session
        session = await self.read(session)
        if TOKENS_ANNOTATION not in session.metadata.annotations:
            await self._write(session, {TOKENS_ANNOTATION: "true"})
        return session

    async def remember(self, session: GlobalSession, client: str) -> None:
        """Said before the client is taken out, so that it cannot slip in again in between."""
        session = await self.read(session)
        if TOKENS_ANNOTATION in session.metadata.annotations:
            await self._write(
                session, plan_removal(session, client, self._clock(), self._token_seconds)
            )

    async def _write(self, session: GlobalSession, changes: Changes) -> None:
        meta = session.metadata
        body = {"metadata": {"uid": meta.uid, "annotations": changes}}
        try:
            await self._hub.client.patch(GlobalSession, meta.name, meta.namespace, body=body)
        except (Conflict, NotFound):
            return  # the session is gone, and all of its tokens with it
        except KubeError as error:
            raise HubUnreachable from error


def _annotation(client: str) -> str:
    """A client's id may hold what the name of an annotation must not."""
    return f"{REMOVED_PREFIX}{sha256(client.encode()).hexdigest()[:32]}"


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
