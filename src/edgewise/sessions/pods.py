"""Pods made from pod templates, and the revision that says from what."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from edgewise.api.exposure import Port
from edgewise.api.sessions import PodTemplate, Revision, Workload
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import ObjectMeta, OwnerReference
from edgewise.sessions import names
from edgewise.sessions.shapes import mapping, mappings

# Of these exposures, the gateway serves each TCP and UDP port of a seat at a port of its own.
WITH_PUBLIC_PORTS = frozenset(("Gateway", "GatewayAPI"))
_WISHES = "preferredDuringSchedulingIgnoredDuringExecution"


class Spot(msgspec.Struct, frozen=True):
    """Where a pod should listen."""

    ports: dict[str, int] = {}
    node: str = ""  # empty: anywhere


ANYWHERE = Spot()


class Made(msgspec.Struct, frozen=True):
    """A pod template as it is now, under the name that its pods carry."""

    name: str
    template: PodTemplate
    revision: Revision


def exposure_of(workload: Workload) -> str:
    return workload.exposure or "Gateway"


def public_ports_of(workload: Workload) -> Counter[str]:
    """How many public ports each client needs, by protocol; HTTP never gets one of its own."""
    if exposure_of(workload) not in WITH_PUBLIC_PORTS:
        return Counter()
    return Counter(
        port.protocol
        for template in workload.pod_templates
        for port in template.ports
        if port.protocol != "HTTP"
    )


def reuse_of(workload: Workload) -> str:
    return workload.reuse or "Session"


def made_from(template: PodTemplate, workload: Workload) -> Made:
    """The revision changes with what a running pod cannot follow: its spec, ports, exposure.

    How many clients it serves, or how many pods are kept warm, holds for running pods too.
    """
    revision = Revision(
        pod_template=template.name, exposure=exposure_of(workload), ports=template.ports
    )
    content = msgspec.json.encode([template.template, revision], order="deterministic")
    return Made(f"{template.name}-{hashlib.sha256(content).hexdigest()[:8]}", template, revision)


def build_pod(
    made: Made,
    name: str,
    namespace: str,
    *,
    owner: OwnerReference,
    labels: Mapping[str, str],
    ordinal: int,
    spot: Spot = ANYWHERE,
) -> Pod:
    """A pod of this revision. What the template's author said stays, ours is added."""
    template = made.template.template
    given = mapping(template.get("metadata"))
    spec = mapping(template.get("spec"))
    if spot.ports:
        spec = _with_host_ports(spec, made.revision.ports, spot.ports)
    if spot.node:
        spec = _preferring(spec, spot.node)
    return Pod(
        api_version=Pod.KIND.api_version,
        kind=Pod.KIND.kind,
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels={
                **mapping(given.get("labels")),
                **labels,
                names.POD_TEMPLATE: made.template.name,
                names.REVISION: made.name,
                names.POD: name,
            },
            annotations={**mapping(given.get("annotations")), names.ORDINAL: str(ordinal)},
            owner_references=[owner],
        ),
        spec=spec,
    )


def _with_host_ports(
    spec: dict[str, Any], ports: list[Port], numbers: Mapping[str, int]
) -> dict[str, Any]:
    spec = copy.deepcopy(spec)
    containers = mappings(spec.get("containers"))
    for port in ports:
        number = numbers.get(port.name)
        if number is None or not containers:
            continue
        protocol = "UDP" if port.protocol == "UDP" else "TCP"
        entry = _declared(containers, port.port, protocol)
        if entry is None:
            entry = {"containerPort": port.port, "protocol": protocol}
            containers[0]["ports"] = [*mappings(containers[0].get("ports")), entry]
        entry["hostPort"] = number
    return spec


def _preferring(spec: dict[str, Any], node: str) -> dict[str, Any]:
    """The same pod spec, with a wish for one node beside what the template's author said."""
    term = {
        "weight": 100,
        "preference": {
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]
        },
    }
    affinity = mapping(spec.get("affinity"))
    by_node = mapping(affinity.get("nodeAffinity"))
    wishes = mappings(by_node.get(_WISHES))
    by_node = {**by_node, _WISHES: [*wishes, term]}
    return {**spec, "affinity": {**affinity, "nodeAffinity": by_node}}


def _declared(
    containers: list[dict[str, Any]], number: int, protocol: str
) -> dict[str, Any] | None:
    for container in containers:
        for entry in mappings(container.get("ports")):
            if entry.get("containerPort") == number and entry.get("protocol", "TCP") == protocol:
                return entry
    return None
