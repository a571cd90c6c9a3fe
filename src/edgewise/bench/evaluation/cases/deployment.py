"""Case 1: one Deployment at the peak of the trace, one Service; clients try until a pod is free."""

from __future__ import annotations

from collections.abc import AsyncIterator

from edgewise.bench.evaluation.cases.case import Case, Stage
from edgewise.bench.evaluation.cases.retrying import REFUSED_SECONDS, pauses
from edgewise.bench.evaluation.trace import Trace
from edgewise.bench.evaluation.workloads.workload import NAMESPACE
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.core import Service, ServicePort, ServiceSpec
from edgewise.kube.objects import Key
from edgewise.runtime.awaiting import Waiting

NAME = "servers"
LABELS = {"app": NAME}


class DeploymentCase(Case):
    def __init__(self, stage: Stage, deployments: Waiting[Deployment]) -> None:
        self._stage = stage
        self._deployments = deployments
        self._port = 0

    async def prepare(self, trace: Trace) -> None:
        template = {"metadata": {"labels": LABELS}, "spec": self._stage.workload.pod_spec()}
        spec = {"replicas": trace.peak, "selector": {"matchLabels": LABELS}, "template": template}
        await self._stage.client.create(Deployment.named(NAME, NAMESPACE, spec=spec))
        service = ServiceSpec(
            type="NodePort",
            selector=LABELS,
            ports=[
                ServicePort(port=self._stage.workload.port, target_port=self._stage.workload.port)
            ],
        )
        made = await self._stage.client.create(Service.named(NAME, NAMESPACE, spec=service))
        self._port = made.spec.ports[0].node_port
        await self._deployments.until(
            Key(NAMESPACE, NAME),
            lambda seen: seen is not None and seen.status.ready_replicas >= trace.peak,
            f"{trace.peak} pods ready",
            max(self._stage.within, 5.0 * trace.peak),
        )

    async def urls(self, session: str, client: str) -> AsyncIterator[str]:
        """Always the Service: each connection leads to a pod that kube-proxy picks."""
        nodes = self._stage.addresses
        async for number in pauses(REFUSED_SECONDS, self._stage.within):
            yield f"http://{nodes[number % len(nodes)]}:{self._port}/"
