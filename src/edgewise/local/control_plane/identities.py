"""Who is who in a cluster: the certificate of every component and of its administrator."""

from __future__ import annotations

import msgspec

from edgewise.local.layout import ClusterRecord
from edgewise.local.network.policies.names import ENFORCER

CLUSTER_CA = "ca"
ETCD_CA = "etcd-ca"
FRONT_PROXY_CA = "front-proxy-ca"
AUTHORITIES = (CLUSTER_CA, ETCD_CA, FRONT_PROXY_CA)
SERVICE_ACCOUNTS = "service-accounts"

ADMIN = "admin"
# Edgewise's own programs: an administrator is not let through where only these are.
OPERATOR = "operator"
SERVER = "server"
# Components that talk to the API server, and the user that RBAC sees.
USERS = {
    ADMIN: "edgewise-admin",
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
    "kwok": "edgewise:kwok",
    "coredns": "edgewise:coredns",
    "kube-proxy": "system:kube-proxy",
    ENFORCER: f"edgewise:{ENFORCER}",
    OPERATOR: "edgewise:operator",
    SERVER: "edgewise:server",
}
_MASTERS = "system:masters"
_ALL_RIGHTS = (ADMIN, OPERATOR, SERVER)


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate to be made: who it is for, and where it is good."""

    file: str
    authority: str
    common_name: str
    organization: str = ""
    server: bool = False
    client: bool = True
    names: tuple[str, ...] = ()


def leaves(record: ClusterRecord) -> list[Leaf]:
    """Every certificate of the cluster besides the authorities'."""
    addresses = record.addresses
    made = [
        Leaf(
            file="kube-apiserver",
            authority=CLUSTER_CA,
            common_name="kube-apiserver",
            server=True,
            client=False,
            names=(
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
                "localhost",
                "127.0.0.1",
                str(addresses.api_service),
                str(addresses.control_plane),
                str(addresses.uplink_inside),
            ),
        ),
        Leaf(
            file="kubelet-client",
            authority=CLUSTER_CA,
            common_name="kube-apiserver-kubelet-client",
            organization=_MASTERS,
        ),
        Leaf(file="front-proxy", authority=FRONT_PROXY_CA, common_name="front-proxy-client"),
        Leaf(
            file="etcd",
            authority=ETCD_CA,
            common_name="etcd",
            server=True,
            names=("localhost", "127.0.0.1"),
        ),
        Leaf(file="etcd-client", authority=ETCD_CA, common_name="kube-apiserver"),
    ]
    made += [
        Leaf(
            file=component,
            authority=CLUSTER_CA,
            common_name=user,
            organization=_MASTERS if component in _ALL_RIGHTS else "",
        )
        for component, user in USERS.items()
    ]
    for number, node in enumerate(record.spec.node_names, start=1):
        made.append(
            Leaf(
                file=node,
                authority=CLUSTER_CA,
                common_name=f"system:node:{node}",
                organization="system:nodes",
                server=True,
                names=(node, str(addresses.node(number))),
            )
        )
    return made
