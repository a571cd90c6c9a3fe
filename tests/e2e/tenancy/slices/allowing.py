"""What the operator and the pods of this cluster may do beside the chart's defaults."""

from __future__ import annotations

from edgewise.kube.kinds.rbac import ClusterRole, PolicyRule
from edgewise.local.clusters import LocalCluster
from edgewise.tenancy import parameters
from tests.e2e.tenancy.scene import OPERATOR_USER, bind

# What Kubernetes itself adds to every pod of a DaemonSet.
OF_DAEMONS = (
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
)


async def allow(cluster: LocalCluster) -> None:
    rules = [
        PolicyRule(
            api_groups=["admissionregistration.k8s.io", "apiextensions.k8s.io"],
            resources=["*"],
            verbs=["*"],
        )
    ]
    tolerated = ",".join((parameters.DEFAULTS["tolerations"], *OF_DAEMONS))
    async with cluster.client() as client:
        await client.apply(ClusterRole.named("slices-webhooks", rules=rules))
        await bind(client, "slices-webhooks", OPERATOR_USER)
        told = parameters.annotations_of({"tolerations": tolerated})
        body = {"metadata": {"annotations": told}}
        await client.patch(ClusterRole, parameters.NAME, body=body)
