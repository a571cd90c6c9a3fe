"""A client's seat in a session, kept for as long as the block runs.

`async with edgewise.join("room-1", client="alice") as seat:` measures the locations, joins
in the best one, waits until the seat works, sends heartbeats, follows the client when it is
moved, comes back when it was taken for gone, and leaves at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Any, Self

import msgspec

from edgewise.client.errors import ApiError, Busy, EdgewiseError, NotFound, NotReady, Unreachable
from edgewise.client.probe import Measurement, measure, medians, targets_of
from edgewise.client.sessions.views import ClientView, Heartbeat, IceServer, Locations
from edgewise.client.transport import ANSWER_SECONDS, UNREADABLE_JSON, Transport, part

LEASE_SECONDS = 30
# One call may wait this long at the server; then it is asked again.
WAIT_STEP_SECONDS = 20.0
LEAVE_SECONDS = 10.0
# A location that does not get the pods ready keeps a client for the template's readySeconds, 60 if
# it says nothing; whoever waits for longer than that is served by the next one.
READY_SECONDS = 180.0

_log = logging.getLogger(__name__)
_views = msgspec.json.Decoder(ClientView | None)


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How somebody wants to be seated."""

    location: str | None = None  # this one and no other
    move: bool = False  # give up a seat elsewhere for it
    measure: bool = True  # measure the distances before asking
    lease_seconds: int = LEASE_SECONDS
    ready_within: float = READY_SECONDS
    leave: bool = True  # at the end; else the lease ends by itself


class Seat:
    """Use it inside `async with`. What it shows changes when the client is moved."""

    def __init__(
        self, transport: Transport, session: str, client: str, wish: JoinRequest, *, owns: bool
    ) -> None:
        self._transport = transport
        self._owns = owns
        self._wish = wish
        self._path = f"/v1/sessions/{part(session)}/clients/{part(client)}"
        self._view = ClientView(session=session, client=client, state="joining")
        self._changed = asyncio.Condition()
        self._version = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = contextlib.AsyncExitStack()
        # Whoever was refused has nothing to give up, least of all a seat it has elsewhere.
        self._may_sit = False
        self._trouble: EdgewiseError | None = None
        self.measurements: dict[str, Measurement] = {}

    # What one has -------------------------------------------------------------------

    @property
    def session(self) -> str:
        return self._view.session

    @property
    def client(self) -> str:
        return self._view.client

    @property
    def location(self) -> str | None:
        return self._view.location

    @property
    def state(self) -> str:
        return self._view.state

    @property
    def ready(self) -> bool:
        return self._view.ready

    @property
    def endpoints(self) -> dict[str, dict[str, str]]:
        """Pod template to port name to address."""
        return self._view.endpoints

    @property
    def tokens(self) -> dict[str, str]:
        """Pod template to the token to show at its gateway, where the template wants that."""
        return self._view.tokens

    @property
    def ice_servers(self) -> list[IceServer]:
        """What an `RTCPeerConnection` connects through; empty where there is no TURN server.

        Heartbeats renew them, so take them when you connect and not when you join.
        """
        return self._view.ice_servers

    @property
    def why(self) -> str:
        """Why it is this location."""
        return self._view.why

    @property
    def trouble(self) -> EdgewiseError | None:
        """Why the last heartbeat did not get through; None if it did.

        With `NotAllowed` it will not get better: the token was revoked or has expired.
        """
        return self._trouble

    @property
    def view(self) -> ClientView:
        """All that the server says of the client."""
        return self._view

    def endpoint(self, port: str | None = None, pod: str | None = None) -> str:
        """An address; without names, the only one there is."""
        found = [
            address
            for pod_name, ports in self.endpoints.items()
            for port_name, address in ports.items()
            if pod in (None, pod_name) and port in (None, port_name)
        ]
        if len(found) != 1:
            raise EdgewiseError(
                f"{len(found)} endpoints fit port {port!r} of pod {pod!r}: there are "
                f"{ {name: sorted(ports) for name, ports in self.endpoints.items()} }"
            )
        return found[0]

    async def changes(self) -> AsyncIterator[ClientView]:
        """The view now, and again whenever it, or `trouble`, has changed."""
        seen = -1
        while True:
            async with self._changed:
                while self._version == seen:
                    await self._changed.wait()
                seen, view = self._version, self._view
            yield view

    async def until_ready(self, within: float = 60.0) -> None:
        """Wait until the seat works, for instance after a move."""
        try:
            async with asyncio.timeout(within), self._changed:
                await self._changed.wait_for(lambda: self._view.ready)
        except TimeoutError:
            raise NotReady(self._why_not(within)) from None

    # From joining to leaving --------------------------------------------------------

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            if self._owns:
                await stack.enter_async_context(self._transport)
            stack.push_async_callback(self._end)
            await self._join(self._wish.ready_within)
            self._tasks = [
                asyncio.create_task(self._beat(), name=f"heartbeats of {self.client}"),
                asyncio.create_task(self._follow(), name=f"events of {self.client}"),
            ]
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if not (self._wish.leave and self._may_sit):
            return
        try:
            await self._transport.call("DELETE", self._path, type(None), patience=LEAVE_SECONDS)
        except EdgewiseError as trouble:
            # The lease ends by itself; whoever leaves must not be stopped by this.
            _log.warning("%s could not leave %s: %s", self.client, self.session, trouble)

    async def _join(self, within: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        body: dict[str, Any] = {"leaseSeconds": self._wish.lease_seconds}
        if self._wish.location is not None:
            body |= {"location": self._wish.location, "move": self._wish.move}
        elif self._wish.measure:
            body["latencies"] = await self._latencies()
        method = "PUT"
        while True:
            left = deadline - loop.time()
            if left <= 0:
                raise NotReady(self._why_not(within))
            wait = min(left, WAIT_STEP_SECONDS)
            try:
                view = await self._transport.call(
                    method,
                    self._path,
                    ClientView,
                    body=body if method == "PUT" else None,
                    query={"wait": f"{wait:.2f}"},
                    seconds=wait + ANSWER_SECONDS,
                    patience=left,
                )
            except Unreachable:
                self._may_sit = True  # nobody knows
                raise
            self._may_sit = True
            await self._show(view)
            if view.ready:
                return
            # Seated or queued: from now on it is only waited for, with signs of life.
            await self._transport.call("POST", f"{self._path}/heartbeat", Heartbeat, patience=left)
            method = "GET"

    async def _latencies(self) -> dict[str, float]:
        found = await self._transport.call("GET", "/v1/locations", Locations, patience=5.0)
        self.measurements = await measure(targets_of(found.items))
        return medians(self.measurements)

    def _why_not(self, within: float) -> str:
        view = self._view
        if view.state == "queued":
            text = f"all places are full, and {view.client} is number {view.position} in the queue"
        else:
            text = view.message or f"its seat in {view.location} does not work yet"
        return f"{view.client} is not ready after {within:.0f} s: {text}"

    # While it lasts -----------------------------------------------------------------

    async def _beat(self) -> None:
        every = max(1.0, self._wish.lease_seconds / 3) if self._wish.lease_seconds else 60.0
        while True:
            await asyncio.sleep(every)
            try:
                answer = await self._transport.call(
                    "POST", f"{self._path}/heartbeat", Heartbeat, patience=every
                )
            except NotFound:
                await self._tell(await self._come_back())
            except (ApiError, Unreachable) as error:
                await self._tell(error)
            else:
                if answer.token is not None:
                    self._transport.token = answer.token.token
                await self._tell(None)
                await self._show(answer.client)

    async def _come_back(self) -> EdgewiseError | None:
        """The seat was given up in the meantime, after a long silence: take a new one."""
        _log.warning("%s has lost its seat in %s, and joins again", self.client, self.session)
        try:
            await self._join(self._wish.ready_within)
        except EdgewiseError as error:
            return error
        return None

    async def _follow(self) -> None:
        last_id, pause = "", 0.2
        while True:
            try:
                events: AsyncGenerator[tuple[str, bytes, str], None]
                async with contextlib.aclosing(
                    self._transport.events(f"{self._path}/events", last_id)
                ) as events:
                    async for name, data, id in events:
                        pause = 0.2
                        if name in ("client", "snapshot") and (view := _views.decode(data)):
                            await self._show(view)
                        last_id = id or last_id
            except Busy as error:
                pause = error.retry_after or pause
            except (EdgewiseError, *UNREADABLE_JSON) as error:
                _log.debug("the events of %s were cut: %s", self.client, error)
            await asyncio.sleep(pause)
            pause = min(5.0, pause * 2)

    async def _tell(self, trouble: EdgewiseError | None) -> None:
        """Once, not with every heartbeat, while it stays the same."""
        before, self._trouble = self._trouble, trouble
        if (type(before), str(before)) == (type(trouble), str(trouble)):
            return
        if trouble is not None:
            _log.warning("%s is not heard in %s: %s", self.client, self.session, trouble)
        elif before is not None:
            _log.info("%s is heard in %s again", self.client, self.session)
        async with self._changed:
            self._version += 1
            self._changed.notify_all()

    async def _show(self, view: ClientView) -> None:
        if view == self._view:
            return
        if self._view.location not in (None, view.location):
            _log.info("%s was moved to %s: %s", self.client, view.location, view.why)
        async with self._changed:
            self._view = view
            self._version += 1
            self._changed.notify_all()
