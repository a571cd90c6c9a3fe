"""The built-in kinds of the core group."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from edgewise.kube.objects import Kind, Object, Record


class ReportedCondition(Record):
    """What a built-in kind reports; unlike in our own kinds, most of it may be missing."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


class NamespaceStatus(Record):
    phase: str = ""
    conditions: list[ReportedCondition] = []


class Namespace(Object):
    KIND: ClassVar = Kind("", "v1", "Namespace", "namespaces", namespaced=False)

    status: NamespaceStatus = msgspec.field(default_factory=NamespaceStatus)


class ConfigMap(Object):
    KIND: ClassVar = Kind("", "v1", "ConfigMap", "configmaps")

    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}
    immutable: bool = False


class Secret(Object):
    """Its values are bytes; on the wire they are base64."""

    KIND: ClassVar = Kind("", "v1", "Secret", "secrets")

    type: str = ""
    data: dict[str, bytes] = {}
    immutable: bool = False

    def __repr__(self) -> str:
        return f"Secret({self.key}, keys={sorted(self.data)})"


class ServiceAccount(Object):
    KIND: ClassVar = Kind("", "v1", "ServiceAccount", "serviceaccounts")


class ContainerStatus(Record):
    name: str
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    container_id: str = msgspec.field(name="containerID", default="")
    state: dict[str, Any] = {}
    last_state: dict[str, Any] = {}


class PodIP(Record):
    ip: str = ""


class PodStatus(Record):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: list[PodIP] = msgspec.field(name="podIPs", default_factory=list)
    host_ip: str = msgspec.field(name="hostIP", default="")
    start_time: str | None = None
    conditions: list[ReportedCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Pod(Object):
    KIND: ClassVar = Kind("", "v1", "Pod", "pods")

    spec: dict[str, Any] = {}
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def node_name(self) -> str:
        return str(self.spec.get("nodeName", ""))

    @property
    def ready(self) -> bool:
        return any(
            condition.type == "Ready" and condition.status == "True"
            for condition in self.status.conditions
        )


class NodeAddress(Record):
    type: str
    address: str


class Taint(Record):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(Record):
    unschedulable: bool = False
    taints: list[Taint] = []
    pod_cidr: str = msgspec.field(name="podCIDR", default="")


class NodeStatus(Record):
    addresses: list[NodeAddress] = []
    conditions: list[ReportedCondition] = []
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    node_info: dict[str, Any] = {}


class Node(Object):
    KIND: ClassVar = Kind("", "v1", "Node", "nodes", namespaced=False)

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class ResourceQuotaSpec(Record):
    hard: dict[str, str] = {}


class ResourceQuotaStatus(Record):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(Object):
    KIND: ClassVar = Kind("", "v1", "ResourceQuota", "resourcequotas")

    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)


class LimitRangeItem(Record):
    type: str
    default: dict[str, str] = {}
    default_request: dict[str, str] = {}


class LimitRangeSpec(Record):
    # The API server writes null where there are none.
    limits: list[LimitRangeItem] | None = []


class LimitRange(Object):
    KIND: ClassVar = Kind("", "v1", "LimitRange", "limitranges")

    spec: LimitRangeSpec = msgspec.field(default_factory=LimitRangeSpec)


class ServicePort(Record):
    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    node_port: int = 0


class ServiceSpec(Record):
    type: str = ""
    selector: dict[str, str] = {}
    ports: list[ServicePort] = []
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    publish_not_ready_addresses: bool = False
    session_affinity: str = ""


class Service(Object):
    KIND: ClassVar = Kind("", "v1", "Service", "services")

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
    status: dict[str, Any] = {}


class PersistentVolumeClaim(Object):
    KIND: ClassVar = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")

    spec: dict[str, Any] = {}
