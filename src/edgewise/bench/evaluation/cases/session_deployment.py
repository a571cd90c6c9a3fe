"""Case 2: a Deployment for each session, one replica more for each join, a Service for each pod.

A Deployment cannot be told which pod is idle, so nothing is scaled down before the session ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from edgewise.bench.evaluation.cases.case import Case, Stage
from edgewise.bench.evaluation.cases.retrying import REFUSED_SECONDS, insist, pauses
from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.kube.errors import AlreadyExists, KubeError, NotFound
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Pod, Service, ServicePort, ServiceSpec
from edgewise.kube.objects import OwnerReference
from edgewise.runtime.awaiting import Waiting

SESSION = "session"
POD = "pod"

_log = logging.getLogger(__name__)


class SessionDeploymentCase(Case):
    """Its small controller gives each pod a label of its own, and a Service that selects it."""

    def __init__(self, stage: Stage, pods: Waiting[Pod], services: Waiting[Service]) -> None:
        self._stage = stage
        self._pods = pods
        self._services = services
        self._replicas: dict[str, int] = {}
        self._scaling: dict[str, asyncio.Lock] = {}
        self._working: set[asyncio.Task[None]] = set()
        # Of each session: set, and replaced, when there is another pod to try.
        self._news: dict[str, asyncio.Event] = {}
        pods.cache.subscribe(self._pod_changed)
        services.cache.subscribe(self._service_changed)

    async def create_session(self, session: str) -> None:
        labels = {SESSION: session}
        template = {"metadata": {"labels": labels}, "spec": self._stage.workload.pod_spec()}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        with contextlib.suppress(AlreadyExists):
            await self._stage.client.create(Deployment.named(session, NAMESPACE, spec=spec))
        self._replicas[session] = 0
        self._scaling[session] = asyncio.Lock()

    async def delete_session(self, session: str) -> None:
        self._replicas.pop(session, None)
        self._scaling.pop(session, None)
        self._news.pop(session, None)
        with contextlib.suppress(NotFound):
            await self._stage.client.delete(
                Deployment, session, NAMESPACE, propagation="Background"
            )

    async def join(self, session: str, client: str) -> None:
        """One writer, so no two joins overwrite each other's number."""
        async with self._scaling[session]:
            wanted = self._replicas[session] + 1
            await self._stage.client.patch(
                Deployment,
                session,
                NAMESPACE,
                body={"spec": {"replicas": wanted}},
                subresource="scale",
            )
            self._replicas[session] = wanted  # asked twice, it is still one more

    async def urls(self, session: str, client: str) -> AsyncIterator[str]:
        """The pods of the session in turn, the newest first: it is the likeliest to be free.

        When another pod is ready, the next round begins at once.
        """
        node = self._stage.addresses[0]
        async for _ in pauses(
            REFUSED_SECONDS, self._stage.within, sooner=lambda: self._news_of(session)
        ):
            ports = {
                each.spec.selector.get(POD, ""): each.spec.ports[0].node_port
                for each in self._services.cache
                if each.spec.selector.get(SESSION) == session
            }
            ready = [
                pod
                for pod in self._pods.cache
                if pod.metadata.labels.get(SESSION) == session
                and pod.ready
                and pod.metadata.deletion_timestamp is None
                and pod.metadata.name in ports
            ]
            ready.sort(key=lambda pod: str(pod.metadata.creation_timestamp), reverse=True)
            for pod in ready:
                yield f"http://{node}:{ports[pod.metadata.name]}/"

    def _service_changed(self, old: Service | None, new: Service | None, _bulk: bool) -> None:
        if old is None and new is not None:
            self._tell(new.spec.selector.get(SESSION, ""))

    def _news_of(self, session: str) -> asyncio.Event:
        return self._news.setdefault(session, asyncio.Event())

    def _tell(self, session: str) -> None:
        if (news := self._news.pop(session, None)) is not None:
            news.set()

    def _pod_changed(self, old: Pod | None, new: Pod | None, _bulk: bool) -> None:
        if new is not None and new.ready and not (old is not None and old.ready):
            self._tell(new.metadata.labels.get(SESSION, ""))
        if new is None or SESSION not in new.metadata.labels or POD in new.metadata.labels:
            return
        if not new.status.pod_ip or new.metadata.deletion_timestamp is not None:
            return
        if old is not None and old.status.pod_ip:
            return  # begun already
        task = asyncio.ensure_future(self._expose(new))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _expose(self, pod: Pod) -> None:
        name, session = pod.metadata.name, pod.metadata.labels[SESSION]
        selector = {SESSION: session, POD: name}
        service = Service.named(
            name,
            NAMESPACE,
            spec=ServiceSpec(
                type="NodePort",
                selector=selector,
                ports=[
                    ServicePort(
                        port=self._stage.workload.port, target_port=self._stage.workload.port
                    )
                ],
            ),
        )
        # It goes with its pod.
        service.metadata.owner_references = [
            OwnerReference(api_version="v1", kind="Pod", name=name, uid=pod.metadata.uid)
        ]

        async def expose() -> None:
            with contextlib.suppress(AlreadyExists):
                await self._stage.client.create(service)
            await self._stage.client.patch(
                Pod, name, NAMESPACE, body={"metadata": {"labels": {POD: name}}}
            )

        try:
            await insist(expose)
        except NotFound:
            return  # it was deleted meanwhile
        except KubeError as error:
            _log.warning("pod %s has no Service: %s", name, error)
