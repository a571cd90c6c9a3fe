"""Of several processes one acts: leader election by a Lease.

Never two at once. The leader counts its time from the moment *before* it sent its last
successful renewal, and stops acting `stop_after` seconds later unless it renewed again. The
others count theirs from the moment *after* they first saw that renewal, and wait longer than
that. Both measure with a clock that no operator or NTP can step, and that goes on while the
machine sleeps; nobody compares wall clocks.

How long a holder goes on acting is written on the Lease as an annotation, so that a
successor need not wait for the whole lease duration after a crash. Holders and candidates
that know nothing of it (client-go) are still safe: they wait for the lease duration, and so
does a candidate here when the annotation is missing.

Another annotation marks the holder's process. A candidate on the same machine that finds it
dead need not wait for it to stop: it only gives its last requests the time to end.

What nobody should do is delete the Lease while somebody holds it: a candidate that has never
seen it takes it for a first start, and acts until the old holder's next renewal fails.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from edgewise.kube.kinds.coordination import Lease, LeaseSpec
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.conditions import microtimestamp
from edgewise.runtime.leading.process_mark import is_dead, own_mark
from edgewise.runtime.retry import ReconcileError

# "<holder> <seconds>": the promise of one holder says nothing about the next one.
STOPS_ANNOTATION = "edgewise.dev/holder-stops-after-seconds"
# "<holder> <mark>", in the same way.
PROCESS_ANNOTATION = "edgewise.dev/holder-process"

_log = logging.getLogger(__name__)


def boot_time() -> float:
    """Seconds that pass also while the machine sleeps, where the system can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def unique_identity() -> str:
    """Never the same twice: a process that was restarted is somebody else."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class NotLeading(ReconcileError):
    """This process may not act, because another one may."""

    def __init__(self) -> None:
        super().__init__("this process does not lead (any more), so it must not write")


class Timing(msgspec.Struct, frozen=True):
    """How long everything takes, in seconds."""

    lease: int = 15  # others may take over when they saw no renewal for so long
    stop_after: float = 10.0  # the leader stops acting so long after its last renewal
    renew_every: float = 2.0
    poll_every: float = 1.0  # how often the others look

    def __post_init__(self) -> None:
        if not 0 < self.poll_every <= self.renew_every < self.stop_after < self.lease:
            raise ValueError(
                "leader election needs poll_every ≤ renew_every < stop_after < lease, but got "
                f"{self.poll_every}, {self.renew_every}, {self.stop_after} and {self.lease} s"
            )

    @property
    def request_timeout(self) -> float:
        """A renewal that takes longer is given up, while there is time for another try."""
        return max(0.5, (self.stop_after - self.renew_every) / 2)

    @property
    def last_requests(self) -> float:
        """How long requests of a holder that has stopped acting may still be carried out."""
        return (self.lease - self.stop_after) / 2


class _Sighting(msgspec.Struct, frozen=True):
    """A Lease as it was first seen, and when that was."""

    resource_version: str
    at: float


class Leadership:
    """One candidate for one Lease."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        *,
        identity: str = "",
        timing: Timing | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = boot_time,
        chance: Callable[[], float] = random.random,
        mark: str | None = None,
        dead: Callable[[str], bool] = is_dead,
    ) -> None:
        self.identity = identity or unique_identity()
        self.timing = timing or Timing()
        self._client = client
        self._name = name
        self._namespace = namespace
        self._clock = clock
        self._monotonic = monotonic
        self._chance = chance
        self._mark = own_mark() if mark is None else mark
        self._dead = dead
        self._may_act_until = float("-inf")
        self._lease: Lease | None = None
        self._sighting: _Sighting | None = None
        self._seen_dead: _Sighting | None = None
        self._seen_held = float("-inf")  # when we last saw somebody else hold it

    @property
    def leading(self) -> bool:
        """Whether this process may act at this moment."""
        return self._monotonic() < self._may_act_until

    def permit(self) -> None:
        """Raise NotLeading unless this process may act at this moment."""
        if not self.leading:
            raise NotLeading

    @property
    def remaining(self) -> float:
        """For how many seconds this process may act without another renewal."""
        return max(0.0, self._may_act_until - self._monotonic())

    async def acquire(self) -> None:
        """Return when this process leads."""
        while True:
            try:
                async with asyncio.timeout(self.timing.request_timeout):
                    if await self._try_to_lead():
                        _log.info("%s leads %s/%s now", self.identity, self._namespace, self._name)
                        return
            except (KubeError, TimeoutError) as error:
                _log.warning("cannot ask for %s/%s: %r", self._namespace, self._name, error)
            await asyncio.sleep(self.timing.poll_every * (0.9 + 0.1 * self._chance()))

    async def hold(self) -> None:
        """Renew; return when it was lost, or could not be renewed in time."""
        while True:
            await asyncio.sleep(min(self.timing.renew_every, self.remaining))
            while not await self._renew_once():
                if not self.leading:
                    _log.error("%s lost %s/%s", self.identity, self._namespace, self._name)
                    return
                await asyncio.sleep(min(self.timing.poll_every, self.remaining))

    async def release(self) -> None:
        """Hand over at once. Call it only when nothing acts any more."""
        was_leading, lease = self.leading, self._lease
        self._may_act_until = float("-inf")
        if not was_leading or lease is None:
            return
        try:
            async with asyncio.timeout(self.timing.request_timeout):
                await self._write_last(lease, "", 1)
            _log.info("%s released %s/%s", self.identity, self._namespace, self._name)
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot release %s/%s: %r", self._namespace, self._name, error)

    async def _write_last(self, lease: Lease, holder: str, duration: int) -> None:
        """Without the mark of this process, of which nobody should conclude anything now."""
        try:
            await self._write(lease, holder=holder, duration=duration, mark="")
        except Conflict:
            # A renewal that was on its way when we were asked to stop has been carried out.
            lease = await self._client.get(Lease, self._name, self._namespace)
            if lease.spec.holder_identity != self.identity:
                return
            await self._write(lease, holder=holder, duration=duration, mark="")

    async def abandon(self) -> None:
        """Do not act any more, and let the Lease expire: also for a candidate that will find
        this process dead."""
        was_leading, lease = self.leading, self._lease
        self._may_act_until = float("-inf")
        if not was_leading or lease is None:
            return
        try:
            async with asyncio.timeout(self.timing.request_timeout):
                await self._write_last(lease, self.identity, self.timing.lease)
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot leave %s/%s behind: %r", self._namespace, self._name, error)

    # Inside -------------------------------------------------------------------------

    async def _try_to_lead(self) -> bool:
        try:
            lease = await self._client.get(Lease, self._name, self._namespace)
        except NotFound:
            # Whoever held it when it was deleted acts until it notices.
            unnoticed = self._monotonic() - self._seen_held < self.timing.lease
            return not unnoticed and await self._create()
        holder = lease.spec.holder_identity
        if holder and holder != self.identity and not self._expired(lease):
            return False
        try:
            await self._take(lease)
        except (Conflict, NotFound):
            return False  # somebody else was faster
        return True

    def _expired(self, lease: Lease) -> bool:
        """Whether we have watched this very renewal grow too old."""
        now = self._seen_held = self._monotonic()
        version = lease.metadata.resource_version
        if self._sighting is None or self._sighting.resource_version != version:
            self._sighting = _Sighting(version, now)
        waited = now - self._sighting.at
        return waited >= patience(lease, self.timing.lease) or self._long_dead(lease, now)

    def _long_dead(self, lease: Lease, now: float) -> bool:
        """Whether the holder has been dead for longer than its last requests may take."""
        mark = _of_holder(lease, PROCESS_ANNOTATION)
        if not mark or not self._dead(mark):
            self._seen_dead = None
            return False
        version = lease.metadata.resource_version
        if self._seen_dead is None or self._seen_dead.resource_version != version:
            self._seen_dead = _Sighting(version, now)
        return now - self._seen_dead.at >= self.timing.last_requests

    async def _renew_once(self) -> bool:
        lease = self._lease
        timeout = min(self.timing.request_timeout, self.remaining)
        if lease is None or timeout <= 0:
            return False
        try:
            async with asyncio.timeout(timeout):
                await self._take(lease)
        except (Conflict, NotFound):
            return await self._look_again(timeout)
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot renew %s/%s: %r", self._namespace, self._name, error)
            return False
        return True

    async def _look_again(self, timeout: float) -> bool:
        """The Lease changed under us: by an answer that we never got, or by somebody else."""
        try:
            async with asyncio.timeout(timeout):
                lease = await self._client.get(Lease, self._name, self._namespace)
                if lease.spec.holder_identity == self.identity:
                    await self._take(lease)
                    return True
        except (KubeError, TimeoutError) as error:
            if isinstance(error, NotFound):
                self._may_act_until = float("-inf")
            return False
        self._may_act_until = float("-inf")
        return False

    async def _create(self) -> bool:
        sent = self._monotonic()
        now = microtimestamp(self._clock())
        lease = Lease(
            api_version=Lease.KIND.api_version,
            kind=Lease.KIND.kind,
            metadata=ObjectMeta(
                name=self._name,
                namespace=self._namespace,
                annotations=self._promise(self._mark),
            ),
            spec=LeaseSpec(
                holder_identity=self.identity,
                lease_duration_seconds=self.timing.lease,
                acquire_time=now,
                renew_time=now,
                lease_transitions=0,
            ),
        )
        try:
            self._lease = await self._client.create(lease)
        except AlreadyExists:
            return False
        self._may_act_until = sent + self.timing.stop_after
        return True

    def _promise(self, mark: str) -> dict[str, str]:
        return {
            STOPS_ANNOTATION: f"{self.identity} {self.timing.stop_after}",
            PROCESS_ANNOTATION: f"{self.identity} {mark}" if mark else "",
        }

    async def _take(self, lease: Lease) -> None:
        """Write ourselves into the Lease, if it is still as we know it."""
        sent = self._monotonic()
        self._lease = await self._write(
            lease, holder=self.identity, duration=self.timing.lease, mark=self._mark
        )
        self._may_act_until = sent + self.timing.stop_after

    async def _write(self, lease: Lease, *, holder: str, duration: int, mark: str) -> Lease:
        now = microtimestamp(self._clock())
        spec: dict[str, Any] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "renewTime": now,
        }
        if holder and holder != lease.spec.holder_identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (lease.spec.lease_transitions or 0) + 1
        return await self._client.patch(
            Lease,
            self._name,
            self._namespace,
            body={
                "metadata": {
                    "resourceVersion": lease.metadata.resource_version,
                    "annotations": self._promise(mark),
                },
                "spec": spec,
            },
        )


def patience(lease: Lease, default: float) -> float:
    """How long a renewal must be old before the Lease may be taken from its holder."""
    duration = float(lease.spec.lease_duration_seconds or default)
    try:
        stops = float(_of_holder(lease, STOPS_ANNOTATION))
    except ValueError:
        return duration
    if not 0 < stops < duration:
        return duration
    # Half-way between the two: time for the holder's last requests to end.
    return (stops + duration) / 2


def _of_holder(lease: Lease, annotation: str) -> str:
    """What the one who holds it now has noted there; empty if that is from another one."""
    holder, _, said = lease.metadata.annotations.get(annotation, "").rpartition(" ")
    return said if holder == lease.spec.holder_identity else ""
