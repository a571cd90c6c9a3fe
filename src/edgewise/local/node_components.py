"""The programs of a real node. Pure: a record in, components out."""

from __future__ import annotations

from edgewise.local.bootstrap import node_labels
from edgewise.local.component import CONTAINERD_SOCKET, CONTROL_PLANE, Component, flags
from edgewise.local.layout import ClusterRecord, Home


def holders(record: ClusterRecord) -> list[Component]:
    """The first process of the control plane and of each node."""
    init = (record.programs["init"],)
    return [
        Component(name=CONTROL_PLANE, argv=init),
        *(Component(name=name, argv=init) for name in record.spec.node_names),
    ]


def node_components(home: Home, record: ClusterRecord, number: int) -> list[Component]:
    name = record.spec.node_names[number - 1]
    folder = home.nodes / name
    labels = ",".join(f"{k}={v}" for k, v in node_labels(record.spec, number).items())
    commands = {
        "containerd": (record.programs["containerd"], "--config", str(folder / "containerd.toml")),
        "kubelet": flags(
            record.programs["kubelet"],
            {
                "config": str(folder / "kubelet.yaml"),
                "kubeconfig": str(home.component_kubeconfig(name)),
                "hostname-override": name,
                "node-ip": str(record.addresses.node(number)),
                "node-labels": labels,
                "root-dir": "/var/lib/kubelet",
            },
        ),
        "kube-proxy": flags(
            record.programs["kube-proxy"], {"config": str(folder / "kube-proxy.yaml")}
        ),
    }
    return [
        Component(
            name=f"{name}/{program}",
            argv=argv,
            inside=name,
            after=CONTAINERD_SOCKET if program == "kubelet" else "",
        )
        for program, argv in commands.items()
    ]
