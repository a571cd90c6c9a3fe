"""Takes an installation out of a cluster, so that nothing is left that waits for an operator.

It needs no operator: every step also works after one that is gone, and can be repeated. The
order matters. A running operator would put back what is taken away, so it stops first. The
webhooks would refuse every write without it, so they go next. Only then are templates let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any, cast

import msgspec

from edgewise.api.tenancy import Tenant
from edgewise.domain import Domain, all_kinds
from edgewise.errors import ReadableError
from edgewise.exposure.seat_key import SEAT_KEY_SECRET
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, ServerError
from edgewise.kube.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod, Secret
from edgewise.kube.objects import Kind, Object
from edgewise.operator import CERTIFICATES_SECRET, DOMAINS, LEASE, WEBHOOKS
from edgewise.placement.reports_secret import NAME as REPORTS_SECRET
from edgewise.runtime.leading.leadership import Timing

OPERATOR = "edgewise-operator"  # the Deployment of the chart
OPERATOR_PODS = "app.kubernetes.io/name=edgewise,app.kubernetes.io/component=operator"
# Where there is a server, it ends the parts of what is deleted in the hub, in all clusters.
SERVER_SECONDS = 20.0
POLL_SECONDS = 0.25
AT_ONCE = 16

Say = Callable[[str], None]


class UninstallError(ReadableError):
    """It could not be taken out, with what to do about it."""


class Uninstaller:
    def __init__(
        self,
        client: Client,
        namespace: str,
        say: Say,
        *,
        timeout: float = 120.0,
        server_seconds: float = SERVER_SECONDS,
        domains: Sequence[Domain] = DOMAINS,
    ) -> None:
        self._domains = domains
        self._kinds = all_kinds(domains)
        self._groups = {kind.KIND.group for kind in self._kinds}
        self._finalizers = {name for each in domains for name in each.finalizers.values()}
        self._client = client
        self._namespace = namespace
        self._say = say
        self._timeout = timeout
        self._server_seconds = server_seconds
        self._until = 0.0
        self._refused: list[tuple[Object, str]] = []
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self, *, delete_sessions: bool) -> None:
        self._until = time.monotonic() + self._timeout
        if delete_sessions:
            await self._no_tenant_at_work()
        await self._stop_operator()
        await self._delete_ours(ValidatingWebhookConfiguration, WEBHOOKS, "")
        await self._delete_ours(MutatingWebhookConfiguration, WEBHOOKS, "")
        if delete_sessions:
            await self._delete_everything()
        else:
            for kind in self._held():
                released = await self._release(kind)
                self._say(
                    f"{released} {kind.KIND.plural} are free to be deleted; "
                    "what was made from them stays"
                )
        await self._delete_ours(Lease, LEASE, self._namespace)
        await self._delete_ours(Secret, CERTIFICATES_SECRET, self._namespace)
        if delete_sessions:
            await self._delete_ours(Secret, SEAT_KEY_SECRET, self._namespace)
            await self._delete_ours(Secret, REPORTS_SECRET, self._namespace)

    async def _no_tenant_at_work(self) -> None:
        """The API server refuses to delete a tenant that is enabled. We say so while everything
        still runs, and the operator can still end the namespaces of tenants."""
        if Tenant not in self._kinds:
            return
        try:
            found = (await self._client.list(Tenant)).items
        except NotFound:
            return
        at_work = [each for each in found if each.spec.enabled and each.spec.parent is None]
        if at_work:
            raise UninstallError(
                f"at work: {listed(at_work)}; nothing was taken away. Say `edgewise tenant "
                "disable` and `edgewise tenant delete` for each, because all they have goes with "
                "them, or keep the CRDs; then try again"
            )

    # The operator -------------------------------------------------------------------

    async def _stop_operator(self) -> None:
        with contextlib.suppress(NotFound):
            none = {"spec": {"replicas": 0}}
            await self._client.patch(
                bare(Deployment.KIND), OPERATOR, self._namespace, body=none, subresource="scale"
            )
        async for _ in self._polls(self._timeout):
            found = (await self._client.list(Pod, self._namespace, labels=OPERATOR_PODS)).items
            if not found:
                break
        else:
            running = [pod.metadata.name for pod in found if not pod.metadata.deleting]
            if running:
                raise UninstallError(
                    f"the operator still runs in {', '.join(running)}: something else starts it; "
                    "stop that, then try again"
                )
            # On a node that does not answer; what it could still write ends with its lease.
        await self._wait_for_leader()
        self._say("no operator runs")

    async def _wait_for_leader(self) -> None:
        """One that runs elsewhere, or was cut off, acts until its lease has run out."""
        seen: tuple[str | None, str | None] | None = None
        since = time.monotonic()
        async for _ in self._polls(self._timeout):
            try:
                spec = (await self._client.get(Lease, LEASE, self._namespace)).spec
            except NotFound:
                return
            if not spec.holder_identity:
                return
            if seen != (spec.holder_identity, spec.renew_time):
                seen, since = (spec.holder_identity, spec.renew_time), time.monotonic()
            # By our own clock: that of the holder may be another.
            if time.monotonic() - since > (spec.lease_duration_seconds or Timing().lease):
                return
        raise UninstallError(
            f"an operator still leads as {seen and seen[0]}, and not from the Deployment "
            f"{self._namespace}/{OPERATOR}: stop it, then try again"
        )

    # Finalizers ---------------------------------------------------------------------

    def _held(self) -> list[type[Object]]:
        """Kinds of a cluster that the operator holds back."""
        return [kind for each in self._domains for kind in each.kinds if kind in each.finalizers]

    def _held_by_server(self) -> list[type[Object]]:
        return [
            kind
            for each in self._domains
            for kind in each.hub_kinds
            if kind in each.finalizers and kind not in each.kinds
        ]

    async def _release(self, kind: type[Object]) -> int:
        """Take our finalizers off all objects of a kind; answers how many had one."""
        held = [
            each
            for each in await self._all(kind.KIND)
            if not self._finalizers.isdisjoint(each.metadata.finalizers)
        ]
        await self._each(held, self._let_go)
        return len(held)

    async def _let_go(self, obj: Object) -> None:
        meta = obj.metadata
        wanted = [name for name in meta.finalizers if name not in self._finalizers]
        body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": wanted}}
        try:
            await self._insist(
                lambda: self._client.patch(type(obj), meta.name, meta.namespace, body=body)
            )
        except NotFound:
            return
        except Conflict:
            with contextlib.suppress(NotFound):
                await self._let_go(await self._client.get(type(obj), meta.name, meta.namespace))

    # Everything ---------------------------------------------------------------------

    async def _delete_everything(self) -> None:
        by_server = self._held_by_server()
        for kind in by_server:
            await self._delete_all(kind)
        async for _ in self._polls(self._server_seconds):
            if not any([await self._all(kind.KIND) for kind in by_server]):
                break
        for kind in self._kinds:
            await self._delete_all(kind)
            await self._release(kind)
        self._stop_if_refused()
        mine = [kind.KIND for kind in self._kinds]
        async for _ in self._polls(self._timeout):
            left = [obj for kind in mine for obj in await self._all(kind)]
            made = await self._made()
            await self._each([obj for obj in made if not obj.metadata.deleting], self._delete)
            self._stop_if_refused()
            if not left and not made:
                self._say("nothing is left of any session")
                return
        staying = [obj for obj in (*left, *made) if not obj.metadata.deleting]
        if left or staying:
            raise UninstallError(
                f"still there after {self._timeout:.0f} s: {listed(left + staying)}; look at their "
                "finalizers, then try again"
            )
        self._say(f"on their way out, but slowly: {listed(made)}")

    async def _made(self) -> list[Object]:
        """What the operator made, as the records of the domains say."""
        found: list[Object] = []
        for made in (each for domain in self._domains for each in domain.made):
            for obj in await self._all(made.kind, labels=made.label):
                owners = obj.metadata.owner_references
                if made.annotation:
                    if made.annotation in obj.metadata.annotations:
                        found.append(obj)
                elif any(each.api_version.partition("/")[0] in self._groups for each in owners):
                    found.append(obj)
        return found

    async def _delete_all(self, kind: type[Object]) -> None:
        found = await self._all(kind.KIND)
        if found:
            self._say(f"deleting {len(found)} {kind.KIND.plural}")
        await self._each([obj for obj in found if not obj.metadata.deleting], self._delete)

    async def _delete(self, obj: Object) -> None:
        meta = obj.metadata
        try:
            await self._client.delete(
                type(obj), meta.name, meta.namespace, uid=meta.uid, propagation="Background"
            )
        except (NotFound, Conflict):
            return
        except (Forbidden, Invalid) as error:
            self._refused.append((obj, str(error)))

    def _stop_if_refused(self) -> None:
        """No time makes the API server change its mind."""
        if self._refused:
            objects = [obj for obj, _ in self._refused]
            raise UninstallError(
                f"the API server refuses to delete {listed(objects)}: {self._refused[0][1]}"
            )

    # Reading and writing ------------------------------------------------------------

    async def _delete_ours(self, kind: type[Object], name: str, namespace: str) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(kind, name, namespace)

    async def _all(self, kind: Kind, *, labels: str = "") -> list[Object]:
        """Empty where the cluster does not know the kind."""
        try:
            return (await self._client.list(bare(kind), labels=labels)).items
        except NotFound:
            return []

    async def _each(
        self, objects: Iterable[Object], do: Callable[[Object], Awaitable[None]]
    ) -> None:
        async def one(obj: Object) -> None:
            async with self._slots:
                await do(obj)

        async with asyncio.TaskGroup() as group:
            for obj in objects:
                group.create_task(one(obj))

    async def _insist(self, write: Callable[[], Awaitable[Any]]) -> None:
        """An API server may ask a webhook for a moment after its configuration is gone."""
        last: ApiError | None = None
        async for _ in self._polls(self._timeout):
            try:
                await write()
            except ServerError as error:
                last = error
            else:
                return
        raise UninstallError(f"the API server does not take a write: {last}")

    async def _polls(self, most: float) -> AsyncIterator[None]:
        """Again and again, for so long, and at least once."""
        until = min(self._until, time.monotonic() + most)
        yield
        while time.monotonic() < until:
            await asyncio.sleep(POLL_SECONDS)
            yield


@cache
def bare(kind: Kind) -> type[Object]:
    """Objects of a kind, as far as their metadata goes: what else somebody wrote into them
    must not keep them from being deleted."""
    made: Any = msgspec.defstruct(
        f"Bare{kind.kind}", [], bases=(Object,), namespace={"KIND": kind}, module=__name__
    )
    return cast("type[Object]", made)


def listed(objects: Iterable[Object], most: int = 5) -> str:
    found = sorted(f"{type(each).KIND.kind} {each.key}" for each in objects)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
