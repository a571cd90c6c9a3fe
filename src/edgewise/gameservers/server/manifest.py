"""The pod of a server: what its author wrote, and what Edgewise puts beside it. Pure."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

from edgewise.api.durations import seconds_of
from edgewise.api.games import (
    SIDECAR,
    GamePort,
    PortPolicy,
    PortProtocol,
    Scheduling,
    Server,
)
from edgewise.gameservers import names
from edgewise.gameservers.server.settings import Settings
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import ObjectMeta

TOKEN_PATH = "/var/run/secrets/edgewise"  # noqa: S105 - where the token lies
STATE_PATH = "/var/lib/edgewise"
# Longer than what the longest drain takes: in a namespace that ends nobody renews it.
TOKEN_TIMEOUTS = 5
SHORTEST_TOKEN, LONGEST_TOKEN = 600, 2**32 - 1

LONGEST_PORT = 5  # digits

# A silent node is judged by the operator, not by Kubernetes: the match may go on.
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def pod_of(server: Server, settings: Settings, host_ports: Mapping[str, int]) -> Pod:
    meta, spec = server.metadata, copy.deepcopy(server.spec.pod)
    spec.setdefault("restartPolicy", "Never")
    if "priorityClassName" not in spec and "priority" not in spec:
        spec["priorityClassName"] = names.PRIORITY_CLASS
    _tolerate(spec)
    _schedule(spec, meta.labels.get(names.SCHEDULING, ""))
    numbers = _open_ports(spec, server.spec.ports, host_ports)
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        _add_environment(container, server, numbers)
    if settings.sidecar_image:
        _add_sidecar(spec, server, settings)
    own = server.spec.pod_metadata
    labels = {**own.labels, names.SERVER: meta.name, names.PROTECTED: meta.name}
    for label in (names.FLEET, names.TYPE, names.VERSION):
        if meta.labels.get(label):
            labels[label] = meta.labels[label]
    annotations = dict(own.annotations)
    if host_ports:
        annotations[names.PORTS] = written_ports(host_ports)
    return Pod(
        api_version=Pod.KIND.api_version,
        kind=Pod.KIND.kind,
        metadata=ObjectMeta(
            name=names.pod_of(meta.name),
            namespace=meta.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=[server.owner_reference()],
        ),
        spec=spec,
    )


def malformed(spec: Mapping[str, Any]) -> str:
    """Which field of a PodSpec is no list of objects; the CRD leaves most of it open."""
    for field in ("containers", "initContainers", "volumes", "tolerations"):
        if not _objects(spec.get(field)):
            return f"{field} must be a list of objects"
    for number, toleration in enumerate(spec.get("tolerations") or ()):
        if not isinstance(toleration.get("key"), str | None):
            return f"tolerations[{number}].key must be a text"
    for field in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(field) or ()):
            for inner in ("env", "ports"):
                if not _objects(container.get(inner)):
                    return f"{field}[{number}].{inner} must be a list of objects"
            if not all(isinstance(each.get("name"), str) for each in container.get("env") or ()):
                return f"{field}[{number}].env: a name must be a text"
    return ""


def _objects(value: Any) -> bool:
    listed = isinstance(value, list) and all(isinstance(each, dict) for each in value)
    return value is None or listed


def written_ports(host_ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}={number}" for name, number in sorted(host_ports.items()))


def read_ports(written: str) -> dict[str, int]:
    found = {}
    for part in written.split(","):
        name, _, number = part.partition("=")
        # Whoever may write pods may have written it.
        if name and number.isdecimal() and len(number) <= LONGEST_PORT:
            found[name] = int(number)
    return found


def protocols(port: GamePort) -> tuple[str, ...]:
    return ("TCP", "UDP") if port.protocol is PortProtocol.BOTH else (str(port.protocol),)


def _open_ports(
    spec: dict[str, Any], ports: list[GamePort], host_ports: Mapping[str, int]
) -> dict[str, int]:
    """Puts the ports into the containers that listen there; answers where that is, by name."""
    inside: dict[str, int] = {}
    for port in ports:
        on_node = host_ports.get(port.name)
        number = on_node if port.policy is PortPolicy.PASSTHROUGH else port.container_port
        if number is None:
            continue
        inside[port.name] = number
        container = _listener(spec, number)
        listed = [dict(each) for each in container.get("ports") or ()]
        for protocol in protocols(port):
            entry = next(
                (
                    each
                    for each in listed
                    if each.get("containerPort") == number
                    and each.get("protocol", "TCP") == protocol
                ),
                None,
            )
            if entry is None:
                entry = {"containerPort": number, "protocol": protocol}
                listed.append(entry)
            if on_node is not None:
                entry["hostPort"] = on_node
        container["ports"] = listed
    return inside


def _listener(spec: dict[str, Any], number: int) -> dict[str, Any]:
    """The container that names the port, else the first one."""
    containers: list[dict[str, Any]] = spec["containers"]
    for container in containers:
        if any(each.get("containerPort") == number for each in container.get("ports") or ()):
            return container
    return containers[0]


def _add_environment(container: dict[str, Any], server: Server, numbers: Mapping[str, int]) -> None:
    labels = server.metadata.labels
    plain = {
        "CONTAINER_IMAGE": str(container.get("image", "")),
        "SERVER_NAME": server.metadata.name,
        "FLEET_NAME": labels.get(names.FLEET, ""),
        "GAME_NAME": labels.get(names.TYPE, ""),
        "EDGEWISE_SDK_URL": f"http://127.0.0.1:{server.spec.sidecar.port}",
    } | {f"PORT_{name.upper().replace('-', '_')}": str(port) for name, port in numbers.items()}
    known = {"POD_IP": "status.podIP", "NODE_NAME": "spec.nodeName"}
    given = list(container.get("env") or ())
    taken = {each.get("name") for each in given}
    # First ours: what the author writes may then refer to them as $(SERVER_NAME).
    ours: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in plain.items() if name not in taken
    ]
    ours += [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in known.items()
        if name not in taken
    ]
    container["env"] = [*ours, *given]


def _tolerate(spec: dict[str, Any]) -> None:
    given = list(spec.get("tolerations") or ())
    known = {each.get("key") for each in given}
    given += [
        {"key": key, "operator": "Exists", "effect": "NoExecute"}
        for key in _TOLERATED
        if key not in known
    ]
    spec["tolerations"] = given


def _schedule(spec: dict[str, Any], scheduling: str) -> None:
    """By preference only: a server is better in the wrong place than in none."""
    if not scheduling or "affinity" in spec:
        return
    term = {
        "weight": 100,
        "podAffinityTerm": {
            "labelSelector": {"matchExpressions": [{"key": names.PROTECTED, "operator": "Exists"}]},
            "topologyKey": "kubernetes.io/hostname",
        },
    }
    kind = "podAffinity" if scheduling == Scheduling.PACKED else "podAntiAffinity"
    spec["affinity"] = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def _add_sidecar(spec: dict[str, Any], server: Server, settings: Settings) -> None:
    health = server.spec.health
    timeout = seconds_of(server.spec.timeout)
    lifetime = min(max(SHORTEST_TOKEN, math.ceil(timeout * TOKEN_TIMEOUTS)), LONGEST_TOKEN)
    given = {
        "EDGEWISE_OPERATOR": settings.operator_url,
        "EDGEWISE_PORT": str(server.spec.sidecar.port),
        "EDGEWISE_TOKEN_FILE": f"{TOKEN_PATH}/token",
        "EDGEWISE_STATE_FILE": f"{STATE_PATH}/said.json",
        "SERVER_NAME": server.metadata.name,
    }
    if health is not None:
        given |= {
            "EDGEWISE_HEALTH_PERIOD": str(seconds_of(health.period)),
            "EDGEWISE_HEALTH_FAILURES": str(health.failures),
            "EDGEWISE_HEALTH_DELAY": str(seconds_of(health.initial_delay)),
        }
    sidecar = {
        "name": SIDECAR,
        "image": settings.sidecar_image,
        "command": ["python3", "-m", "edgewise.agents.sidecar"],
        # Words rather than an environment: the API server keeps book of who owns each variable.
        "args": [f"{name}={value}" for name, value in given.items()],
        # Native: it is there before the game, and gone after it.
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "5m", "memory": "24Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": names.SIDECAR_TOKEN, "mountPath": TOKEN_PATH, "readOnly": True},
            {"name": names.SIDECAR_STATE, "mountPath": STATE_PATH},
        ],
    }
    if not spec.get("serviceAccount"):
        spec.setdefault("serviceAccountName", "default")  # whose token it is
    spec["initContainers"] = [sidecar, *(spec.get("initContainers") or ())]
    spec["volumes"] = [
        *(spec.get("volumes") or ()),
        {
            "name": names.SIDECAR_TOKEN,
            "projected": {
                # The sidecar runs as another user than root.
                "defaultMode": 0o444,
                "sources": [
                    {
                        "serviceAccountToken": {
                            "path": "token",
                            "audience": names.AUDIENCE,
                            "expirationSeconds": lifetime,
                        }
                    }
                ],
            },
        },
        {"name": names.SIDECAR_STATE, "emptyDir": {"sizeLimit": "1Mi"}},
    ]
