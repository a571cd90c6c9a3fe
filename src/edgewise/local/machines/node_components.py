"""The programs of real nodes and of places. Pure: a record in, components out."""

from __future__ import annotations

from edgewise.local.component import (
    CONTAINERD_SOCKET,
    CONTROL_PLANE,
    Component,
    flags,
    place_machine,
)
from edgewise.local.control_plane.bootstrap import node_labels
from edgewise.local.layout import ClusterRecord, Home


def holders(record: ClusterRecord) -> list[Component]:
    """The first process of the control plane, of each node and of each place."""
    init = (record.programs["init"],)
    return [
        Component(name=CONTROL_PLANE, argv=init),
        *(Component(name=name, argv=init) for name in record.spec.node_names),
        *(Component(name=place_machine(place), argv=init) for place in record.spec.places),
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


def place_components(home: Home, record: ClusterRecord, place: str) -> list[Component]:
    """Only what leads to Services: a place is where clients are, and runs no pods."""
    config = str(home.place(place) / "kube-proxy.yaml")
    machine = place_machine(place)
    return [
        Component(
            name=f"{machine}/kube-proxy",
            argv=flags(record.programs["kube-proxy"], {"config": config}),
            inside=machine,
        )
    ]
