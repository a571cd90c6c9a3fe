"""Carries the plan of a server out. Each write may be the last: the next plan finds the rest."""

from __future__ import annotations

import asyncio

import msgspec

from edgewise.api.games import Allocation, AllocationSpec, Server, ServerStatus
from edgewise.gameservers import names
from edgewise.gameservers.protection import budget
from edgewise.gameservers.server.failed_starts import FailedStarts
from edgewise.gameservers.server.manifest import malformed, pod_of
from edgewise.gameservers.server.plan import CONDITIONS, POD_READY, ServerPlan
from edgewise.gameservers.server.ports import GamePortIndex
from edgewise.gameservers.server.settings import Settings
from edgewise.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from edgewise.kube.kinds.core import Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.kube.objects import Key
from edgewise.runtime.api import Api
from edgewise.runtime.caching.cache import Cache
from edgewise.runtime.conditions import Finding
from edgewise.runtime.merge_patch import difference
from edgewise.runtime.retry import TryAgainAfter, TryAgainNow
from edgewise.workloads.wording import shorten, without_name

REFUSED_SECONDS = 10.0


class TakenMeanwhile(TryAgainNow):
    """Somebody allocated a server that seemed to be idle."""


class ServerWriter:
    """Does for one server what its plan says."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        ports: GamePortIndex,
        budgets: Cache[PodDisruptionBudget],
        ensure: Budgets,
        *,
        logs: FailedStarts | None = None,
        now: float,
    ) -> None:
        self._api = api
        self._settings = settings
        self._ports = ports
        self._budgets = budgets
        self._ensure = ensure
        self._logs = logs
        self._now = now

    async def carry_out(
        self, server: Server, pod: Pod | None, allocation: Allocation | None, plan: ServerPlan
    ) -> None:
        if plan.add_finalizer:
            server = await self._api.add_finalizer(server, names.SERVER_FINALIZER)
        if plan.budget:
            await self._ensure.ensure(self._api, self._budgets, server.metadata.namespace)
        # Before the word that it failed: its fleet would remove the pod, and its log with it.
        if plan.keep_log and pod is not None and self._logs is not None:
            await self._logs.keep(self._api, server, pod, self._now)
        if plan.release and allocation is not None:
            await self._api.delete(allocation)
        if plan.retire:
            await self._retire(server)
        if plan.confirm_idle:
            await self._confirm_idle(server)
        # First the word, then the deed: a server that is not ready is not given to anybody.
        if plan.status is not None:
            await self._write(server, plan.status)
        if plan.delete_pod and pod is not None:
            await self._api.delete(pod)
        if plan.create_pod:
            await self._create_pod(server)
        if plan.remove_finalizer:
            await self._api.remove_finalizer(server, names.SERVER_FINALIZER)

    async def _retire(self, server: Server) -> None:
        try:
            await self._api.create(retired(server))
        except AlreadyExists as error:
            raise TakenMeanwhile(f"{server.key} was allocated meanwhile") from error

    async def _confirm_idle(self, server: Server) -> None:
        """Where nothing can be created, what is there is looked at instead."""
        try:
            found = await self._api.get(Allocation, server.metadata.name, server.metadata.namespace)
        except NotFound:
            return
        if not found.spec.retired and found.spec.server_uid == server.metadata.uid:
            raise TakenMeanwhile(f"{server.key} is allocated")

    async def _write(self, server: Server, status: ServerStatus) -> None:
        """Only what the plan changed: what the game says is written by others, meanwhile."""
        patch = difference(msgspec.to_builtins(server.status), msgspec.to_builtins(status))
        if patch:
            await self._api.patch(server, {"status": patch}, subresource="status")

    async def _create_pod(self, server: Server) -> None:
        namespace = server.metadata.namespace
        await self._ensure.ensure(self._api, self._budgets, namespace)
        key = Key(namespace, names.pod_of(server.metadata.name))
        if problem := malformed(server.spec.pod):
            await self._wait(server, "PodRefused", f"spec.pod.{problem}")
        failures = server.status.failures.count if server.status.failures else 0
        chosen = self._ports.choose(key, server.spec.ports, failures)
        try:
            await self._api.create(pod_of(server, self._settings, chosen))
        except AlreadyExists:
            found = await self._api.get(Pod, key.name, namespace)
            self._ports.give_back(key)
            if found.metadata.labels.get(names.PROTECTED) != server.metadata.name:
                words = f"there is another pod {key.name}, which no Server made: delete it"
                await self._wait(server, "NameTaken", words)
        except (Forbidden, Invalid) as error:
            self._ports.give_back(key)
            await self._wait(server, "PodRefused", shorten(without_name(str(error), key.name)))
        except ApiError:
            self._ports.give_back(key)
            raise

    async def _wait(self, server: Server, reason: str, words: str) -> None:
        finding = Finding(POD_READY, False, reason, words)
        conditions = CONDITIONS.report(
            server.status.conditions,
            [finding],
            generation=server.metadata.generation,
            now=self._now,
        )
        state = server.status.state or "Pending"
        status = msgspec.structs.replace(server.status, state=state, conditions=conditions)
        await self._write(server, status)
        raise TryAgainAfter(f"{server.key}: {words}", REFUSED_SECONDS)


def retired(server: Server) -> Allocation:
    """That the operator has taken a server, to remove it."""
    made = Allocation.named(
        server.metadata.name,
        server.metadata.namespace,
        spec=AllocationSpec(
            server_uid=server.metadata.uid,
            retired=True,
            game=server.metadata.labels.get(names.TYPE, ""),
            fleet=server.metadata.labels.get(names.FLEET, ""),
        ),
    )
    return made


class Budgets:
    """The budget of each namespace, made before its first pod: an eviction must find it."""

    def __init__(self) -> None:
        self._making: dict[str, asyncio.Lock] = {}

    async def ensure(self, api: Api, known: Cache[PodDisruptionBudget], namespace: str) -> None:
        key = Key(namespace, names.BUDGET)
        if known.get(key) is not None:
            return
        # One for all that wait: many servers begin at once.
        try:
            async with self._making.setdefault(namespace, asyncio.Lock()):
                if known.get(key) is None:
                    try:
                        await api.create(budget(namespace))
                    except AlreadyExists:
                        await api.get(PodDisruptionBudget, names.BUDGET, namespace)
        finally:
            # Also if it was refused: a namespace that ends is not remembered.
            self._making.pop(namespace, None)
