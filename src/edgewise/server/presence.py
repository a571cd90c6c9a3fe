"""When each client was last heard from, by whichever replica."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

from edgewise.api.fleet import BindingState, ClientBinding
from edgewise.kube.core import ConfigMap
from edgewise.kube.errors import AlreadyExists, KubeError, NotFound
from edgewise.kube.objects import ObjectMeta
from edgewise.server.heartbeat_book import mark, read_book, write_book
from edgewise.server.hub import HEARTBEATS_LABEL, Hub

FLUSH_SECONDS = 3.0
# A reader that missed two books still finds everybody in the third one.
WINDOW_SECONDS = 3 * FLUSH_SECONDS
# A process that stood still for longer than this heard nobody meanwhile.
LISTEN_SECONDS = 1.0
STALL_SECONDS = 1.0
BOOK = "heard"
# Books of replicas that ended without cleaning up.
FORGET_BOOK_SECONDS = 3600.0

_log = logging.getLogger(__name__)


class Presence:
    """Times are of the monotonic clock of this process: wall clocks are never compared."""

    def __init__(
        self,
        hub: Hub,
        *,
        replica: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub = hub
        self._name = f"edgewise-heartbeats-{replica or secrets.token_hex(4)}"
        self._monotonic = monotonic
        self._here: dict[bytes, float] = {}  # heard by this replica
        self._anywhere: dict[bytes, float] = {}
        # Who is anybody: books also hold those who have left meanwhile.
        self._known: set[bytes] = set()
        self._seated_since: dict[str, float] = {}
        self._books_changed: dict[str, float] = {}
        # Nobody is blamed for silence while nobody could be heard.
        self._deaf_until = monotonic()
        self._listened: float | None = None
        self._unwritten = False
        self._exists = False
        hub.heartbeats.subscribe(self._book_changed)
        hub.bindings.subscribe(self._binding_changed)
        hub.mirror.on_health(self._health_changed)

    def beat(self, binding: str) -> None:
        """A client was heard here."""
        who = mark(binding)
        self._here[who] = self._anywhere[who] = self._monotonic()
        self._unwritten = True

    def silent_for(self, binding: str) -> float:
        """Seconds since the client was heard by anybody, or could have been."""
        self._notice_stall()
        last = max(
            self._anywhere.get(mark(binding), 0.0),
            self._seated_since.get(binding, 0.0),
            self._deaf_until,
        )
        return self._monotonic() - last

    async def run(self) -> None:
        """Tell the other replicas; take the book back at the end."""
        listening = asyncio.create_task(self._listen(), name="presence: listening")
        try:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                await self.flush()
        finally:
            listening.cancel()
            if self._exists:
                await self._withdraw()

    async def flush(self) -> None:
        if not self._unwritten:
            return
        now = self._monotonic()
        content = write_book(self._here, now, WINDOW_SECONDS)
        self._unwritten = False  # whoever is heard from now on is not in this book
        try:
            await self._write(content)
        except KubeError as error:
            self._unwritten = True
            _log.warning("cannot tell the other replicas who was heard: %s", error)
            return
        self._here = {who: when for who, when in self._here.items() if now - when <= WINDOW_SECONDS}

    async def sweep(self) -> None:
        """Remove the books of replicas that are long gone."""
        now = self._monotonic()
        for book in self._hub.heartbeats:
            changed = self._books_changed.get(book.metadata.name, now)
            if now - changed > FORGET_BOOK_SECONDS:
                await self._hub.client.delete(ConfigMap, book.metadata.name, self._hub.namespace)

    async def _listen(self) -> None:
        """Notice when this process stood still: what was said meanwhile is not read yet."""
        while True:
            self._notice_stall()
            self._listened = self._monotonic()
            await asyncio.sleep(LISTEN_SECONDS)

    def _notice_stall(self) -> None:
        now = self._monotonic()
        if self._listened is not None and now - self._listened > LISTEN_SECONDS + STALL_SECONDS:
            self._deaf_until = now

    async def _write(self, content: bytes) -> None:
        if self._exists:
            try:
                await self._change_book(content)
            except NotFound:
                self._exists = False
        if not self._exists:
            try:
                await self._create_book(content)
            except AlreadyExists:
                # An earlier attempt was carried out, and only its answer got lost.
                await self._change_book(content)
            self._exists = True

    async def _create_book(self, content: bytes) -> None:
        book = ConfigMap.named(
            self._name, self._hub.namespace, binary_data={BOOK: content}, data=_edition()
        )
        book.metadata = ObjectMeta(
            name=self._name, namespace=self._hub.namespace, labels={HEARTBEATS_LABEL: "true"}
        )
        await self._hub.client.create(book)

    async def _change_book(self, content: bytes) -> None:
        body = {"binaryData": {BOOK: content}, "data": _edition()}
        await self._hub.client.patch(ConfigMap, self._name, self._hub.namespace, body=body)

    async def _withdraw(self) -> None:
        try:
            async with asyncio.timeout(2):
                await self._hub.client.delete(ConfigMap, self._name, self._hub.namespace)
        except (KubeError, TimeoutError) as error:
            _log.debug("the book of heartbeats stays behind: %s", error)

    def _book_changed(self, _: ConfigMap | None, new: ConfigMap | None, bulk: bool) -> None:
        now = self._monotonic()
        if new is None:
            return
        self._books_changed[new.metadata.name] = now
        if bulk:
            return  # it may be of any age; the moment of the list is the grace for all
        for who, age in read_book(new.binary_data.get(BOOK, b"")):
            heard = now - age
            if who in self._known and heard > self._anywhere.get(who, 0.0):
                self._anywhere[who] = heard

    def _binding_changed(
        self, old: ClientBinding | None, new: ClientBinding | None, _: bool
    ) -> None:
        if new is None:
            if old is not None:
                who = mark(old.metadata.name)
                self._known.discard(who)
                self._anywhere.pop(who, None)
                self._seated_since.pop(old.metadata.name, None)
            return
        self._known.add(mark(new.metadata.name))
        if new.spec.state is BindingState.SEATED and (
            old is None or old.spec.state is not BindingState.SEATED
        ):
            self._seated_since[new.metadata.name] = self._monotonic()

    def _health_changed(self) -> None:
        # While the hub was away no book came through.
        self._deaf_until = self._monotonic()


def _edition() -> dict[str, str]:
    """Makes each book another one: the hub tells nobody of a write that changes nothing, and
    one client who is heard regularly would be in the same book every time."""
    return {"edition": secrets.token_hex(4)}
