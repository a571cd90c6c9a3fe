"""The way into the SDK: sessions, locations and joining; servers for matches."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, Self, TypeVar

from edgewise.client.games.match import Match, MatchRequest, allocate, path_of, release
from edgewise.client.games.views import Allocation, AllocationPage
from edgewise.client.placement.keys import ReportKey
from edgewise.client.probe import measure, medians, targets_of
from edgewise.client.sessions.seat import JoinRequest, Seat
from edgewise.client.sessions.views import (
    ClientView,
    Location,
    Locations,
    Session,
    SessionDetails,
    SessionPage,
    Template,
    Templates,
    Token,
)
from edgewise.client.transport import Transport, part

T = TypeVar("T")

PATIENCE_SECONDS = 10.0


class Edgewise:
    """One server, as one caller.

    `join` can be used right away. For everything else, and to share connections between many
    seats, use it inside `async with`.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        tls: ssl.SSLContext | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._url = url
        self._token = token
        self._tls = tls
        self._patience = patience
        self._transport: Transport | None = None

    async def __aenter__(self) -> Self:
        self._transport = await Transport(self._url, self._token, tls=self._tls).__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._transport is not None:
            await self._transport.__aexit__(kind, error, trace)
            self._transport = None

    def join(self, session: str, client: str, **wish: Any) -> Seat:
        """A seat in a session, for `async with`. See `JoinRequest` for what can be wished for."""
        transport = self._transport
        owns = transport is None
        if transport is None:
            transport = Transport(self._url, self._token, tls=self._tls)
        return Seat(transport, session, client, JoinRequest(**wish), owns=owns)

    # Games --------------------------------------------------------------------------

    def match(self, game: str, match: str, **wish: Any) -> Match:
        """A match with a server, for `async with`: heartbeats while it runs, released at its end.

        See `MatchRequest` for what can be wished for.
        """
        transport = self._transport
        owns = transport is None
        if transport is None:
            transport = Transport(self._url, self._token, tls=self._tls)
        return Match(transport, game, match, MatchRequest(**wish), owns=owns)

    async def allocate(self, game: str, match: str, **wish: Any) -> Allocation:
        """Give this match a server. Repeating it with the same match answers the same server."""
        return await allocate(
            self._connected(), game, match, MatchRequest(**wish), patience=self._patience
        )

    async def allocation(self, game: str, match: str) -> Allocation:
        return await self._call("GET", path_of(game, match), Allocation)

    async def allocations(self, game: str) -> list[Allocation]:
        found: list[Allocation] = []
        query: dict[str, Any] = {"limit": 1000}
        while True:
            page = await self._call("GET", path_of(game), AllocationPage, query=query)
            found += page.items
            if page.next is None:
                return found
            query["after"] = page.next

    async def release(self, game: str, match: str, *, uid: str = "") -> None:
        """With the `uid` of the allocation, a late release never ends a later match."""
        await release(self._connected(), game, match, uid)

    # Sessions -----------------------------------------------------------------------

    async def create_session(
        self,
        template: str,
        name: str | None = None,
        *,
        locations: list[str] | None = None,
        regions: list[str] | None = None,
        failover: str | None = None,
        repetition_key: str | None = None,
    ) -> SessionDetails:
        """Make a session, or find the same one that was made before."""
        body: dict[str, Any] = {"template": template}
        for field, value in (
            ("name", name),
            ("locations", locations),
            ("regions", regions),
            ("failover", failover),
        ):
            if value is not None:
                body[field] = value
        headers = {"Idempotency-Key": repetition_key} if repetition_key else None
        return await self._call("POST", "/v1/sessions", SessionDetails, body=body, headers=headers)

    async def sessions(self) -> list[Session]:
        found: list[Session] = []
        query: dict[str, Any] = {"limit": 1000}
        while True:
            page = await self._call("GET", "/v1/sessions", SessionPage, query=query)
            found += page.items
            if page.next is None:
                return found
            query["after"] = page.next

    async def session(self, name: str) -> SessionDetails:
        return await self._call("GET", f"/v1/sessions/{part(name)}", SessionDetails)

    async def delete_session(self, name: str) -> Session:
        return await self._call("DELETE", f"/v1/sessions/{part(name)}", Session)

    # Locations ----------------------------------------------------------------------

    async def locations(self) -> list[Location]:
        return (await self._call("GET", "/v1/locations", Locations)).items

    async def latencies(self) -> dict[str, float]:
        """Milliseconds from here to each location that answers, for `place`."""
        return medians(await measure(targets_of(await self.locations())))

    async def templates(self) -> list[Template]:
        return (await self._call("GET", "/v1/templates", Templates)).items

    # Clients, for applications that look after them ---------------------------------

    async def client(self, session: str, client: str, *, wait: float = 0.0) -> ClientView:
        return await self._call(
            "GET", _of(session, client), ClientView, query={"wait": wait}, seconds=wait + 15
        )

    async def place(
        self, session: str, client: str, *, wait: float = 0.0, **wish: Any
    ) -> ClientView:
        """Join on behalf of a client, without keeping the seat alive.

        Wishes are those of the API: `location`, `move`, `latencies`, `lease_seconds`.
        """
        names = {"lease_seconds": "leaseSeconds"}
        body = {names.get(name, name): value for name, value in wish.items()}
        return await self._call(
            "PUT",
            _of(session, client),
            ClientView,
            body=body,
            query={"wait": wait},
            seconds=wait + 15,
        )

    async def disconnect(self, session: str, client: str) -> ClientView:
        return await self._call("POST", f"{_of(session, client)}/disconnect", ClientView)

    async def leave(self, session: str, client: str) -> None:
        await self._call("DELETE", _of(session, client), type(None))

    async def client_token(self, session: str, client: str) -> Token:
        """A token to hand to the client, with which it can act as itself only."""
        return await self._call("POST", f"{_of(session, client)}/token", Token)

    # Placements ---------------------------------------------------------------------

    async def report_key(
        self, cluster: str, namespace: str, placement: str, client: str, *, group: str = ""
    ) -> ReportKey:
        """A key to hand to a client, with which it reports what it measures."""
        return await self._call(
            "POST",
            f"{_placement(cluster, namespace, placement)}/keys",
            ReportKey,
            body={"client": client, "group": group},
        )

    async def report(
        self, cluster: str, namespace: str, placement: str, reports: list[str]
    ) -> None:
        """Signed reports of clients that do not speak MQTT."""
        await self._call(
            "POST",
            f"{_placement(cluster, namespace, placement)}/reports",
            type(None),
            body={"reports": reports},
        )

    async def _call(self, method: str, path: str, answer: type[T], **options: Any) -> T:
        transport = self._connected()
        return await transport.call(method, path, answer, patience=self._patience, **options)

    def _connected(self) -> Transport:
        if self._transport is None:
            raise RuntimeError("use it inside `async with Edgewise(url, token) as edgewise:`")
        return self._transport


def _placement(cluster: str, namespace: str, name: str) -> str:
    return f"/v1/clusters/{part(cluster)}/placements/{part(namespace)}/{part(name)}"


def _of(session: str, client: str) -> str:
    return f"/v1/sessions/{part(session)}/clients/{part(client)}"
