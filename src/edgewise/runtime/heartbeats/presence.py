"""When each of many holders was last heard from, by whichever replica of a server.

A holder is whoever keeps something by its heartbeats: a client its seat, a caller its game server.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

from edgewise.kube.errors import AlreadyExists, KubeError, NotFound
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.connected_cluster import ConnectedCluster
from edgewise.runtime.heartbeats.encoding import mark, read_heartbeats, write_heartbeats

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
    """Times are of the monotonic clock of this process: wall clocks are never compared.

    `books` is the cache of what all replicas wrote: ConfigMaps with `label`.
    """

    def __init__(
        self,
        link: ConnectedCluster,
        namespace: str,
        books: Cache[ConfigMap],
        *,
        label: str,
        prefix: str = "edgewise-heartbeats",
        replica: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = link.client
        self._namespace = namespace
        self._books = books
        self._label = label
        self._name = f"{prefix}-{replica or secrets.token_hex(4)}"
        self._monotonic = monotonic
        self._here: dict[bytes, float] = {}  # heard by this replica
        self._anywhere: dict[bytes, float] = {}
        # Who is anybody: books also hold those who have left meanwhile.
        self._known: set[bytes] = set()
        self._held_since: dict[str, float] = {}
        self._books_changed: dict[str, float] = {}
        # Nobody is blamed for silence while nobody could be heard.
        self._deaf_until = monotonic()
        self._listened: float | None = None
        self._unwritten = False
        self._exists = False
        books.subscribe(self._book_changed)
        link.on_health(self._health_changed)

    def know(self, holder: str) -> None:
        """There is such a holder."""
        self._known.add(mark(holder))

    def begin(self, holder: str) -> None:
        """It holds something from now on: silence is counted from here."""
        self._held_since[holder] = self._monotonic()

    def forget(self, holder: str) -> None:
        """There is no such holder any more."""
        who = mark(holder)
        self._known.discard(who)
        self._anywhere.pop(who, None)
        self._held_since.pop(holder, None)

    def beat(self, holder: str) -> None:
        """A holder was heard here."""
        who = mark(holder)
        self._here[who] = self._anywhere[who] = self._monotonic()
        self._unwritten = True

    def silent_for(self, holder: str) -> float:
        """Seconds since the holder was heard by any replica, or could have been."""
        self._notice_stall()
        last = max(
            self._anywhere.get(mark(holder), 0.0),
            self._held_since.get(holder, 0.0),
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
        content = write_heartbeats(self._here, now, WINDOW_SECONDS)
        self._unwritten = False  # whoever is heard from now on is not in this book
        try:
            await self._write(content)
        except KubeError as error:
            self._unwritten = True
            _log.warning("cannot tell the other replicas who was heard: %s", error)
            return
        for who in [who for who, when in self._here.items() if now - when > WINDOW_SECONDS]:
            del self._here[who]
            if who not in self._known:  # it left in the moment in which it was heard
                self._anywhere.pop(who, None)

    async def sweep(self) -> None:
        """Remove the books of replicas that are long gone."""
        now = self._monotonic()
        for book in self._books:
            changed = self._books_changed.get(book.metadata.name, now)
            if now - changed > FORGET_BOOK_SECONDS:
                await self._client.delete(ConfigMap, book.metadata.name, self._namespace)

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
            self._name, self._namespace, binary_data={BOOK: content}, data=_edition()
        )
        book.metadata = ObjectMeta(
            name=self._name, namespace=self._namespace, labels={self._label: "true"}
        )
        await self._client.create(book)

    async def _change_book(self, content: bytes) -> None:
        body = {"binaryData": {BOOK: content}, "data": _edition()}
        await self._client.patch(ConfigMap, self._name, self._namespace, body=body)

    async def _withdraw(self) -> None:
        try:
            async with asyncio.timeout(2):
                await self._client.delete(ConfigMap, self._name, self._namespace)
        except (KubeError, TimeoutError) as error:
            _log.debug("the book of heartbeats stays behind: %s", error)

    def _book_changed(self, old: ConfigMap | None, new: ConfigMap | None, bulk: bool) -> None:
        now = self._monotonic()
        if new is None:
            if old is not None:
                self._books_changed.pop(old.metadata.name, None)
            return
        self._books_changed[new.metadata.name] = now
        if bulk:
            return  # it may be of any age; the moment of the list is the grace for all
        for who, age in read_heartbeats(new.binary_data.get(BOOK, b"")):
            heard = now - age
            if who in self._known and heard > self._anywhere.get(who, 0.0):
                self._anywhere[who] = heard

    def _health_changed(self) -> None:
        # While the hub was away no book came through.
        self._deaf_until = self._monotonic()


def _edition() -> dict[str, str]:
    """Makes each book another one: the hub tells nobody of a write that changes nothing, and
    one client who is heard regularly would be in the same book every time."""
    return {"edition": secrets.token_hex(4)}
