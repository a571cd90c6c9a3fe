"""The configuration files of a real node's programs. Pure: text by file name out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from edgewise.local.component import CONTAINERD_SOCKET
from edgewise.local.control_plane.identities import CLUSTER_CA
from edgewise.local.images.building import PAUSE_IMAGE
from edgewise.local.layout import ClusterRecord, Home, certificate, key
from edgewise.local.machines.node_health import node_health


def node_files(home: Home, record: ClusterRecord, number: int) -> dict[str, str]:
    """Every file of node `number`, by its path within the node's folder."""
    name = record.spec.node_names[number - 1]
    folder = home.nodes / name
    cni = record.programs["cni-plugins"]
    return {
        "containerd.toml": containerd(folder, cni),
        "cni/10-edgewise.conflist": _json(cni_network(record, number)),
        "kubelet.yaml": yaml.safe_dump(kubelet(home, record, name), sort_keys=False),
        "kube-proxy.yaml": yaml.safe_dump(kube_proxy(home, record, name), sort_keys=False),
        "machine-id": hashlib.md5(str(folder).encode(), usedforsecurity=False).hexdigest() + "\n",
        # Pods that ask for the node's own DNS get none: there is no way out.
        "resolv.conf": "search .\n",
    }


def place_files(home: Home, record: ClusterRecord, place: str) -> dict[str, str]:
    """Every file of a place that is the same for its whole life, by its path in its folder."""
    number = list(record.spec.places).index(place) + 1
    # With a name that is no Node's, kube-proxy waits for half a minute before it begins.
    proxy = kube_proxy(home, record, record.spec.node_names[0])
    # The node of that name has its own ports: what is sent to it goes there.
    proxy["nodePortAddresses"] = [f"{record.addresses.place(number)}/32"]
    return {
        "kube-proxy.yaml": yaml.safe_dump(proxy, sort_keys=False),
        "resolv.conf": f"nameserver {record.addresses.dns_service}\n"
        "search default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def containerd(folder: Path, cni_plugins: str) -> str:
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Lowering one's own OOM score needs a capability that containers often lack.
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  max_concurrent_downloads = 4

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_plugins}"
    conf_dir = "{folder}/cni"
    max_conf_num = 1
"""


def cni_network(record: ClusterRecord, number: int) -> dict[str, Any]:
    """Each pod has a cable to its node; its default route ends there."""
    return {
        "cniVersion": "0.4.0",
        "name": "edgewise",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(record.addresses.pods_of(number))}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    # In memory, so that a node that starts anew has all its addresses back.
                    "dataDir": "/run/cni/addresses",
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet(home: Home, record: ClusterRecord, name: str) -> dict[str, Any]:
    ca = str(certificate(home.pki, CLUSTER_CA))
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": ca},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate(home.pki, name)),
        "tlsPrivateKeyFile": str(key(home.pki, name)),
        "clusterDNS": [str(record.addresses.dns_service)],
        "clusterDomain": "cluster.local",
        "resolvConf": str(home.nodes / name / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",
        "failSwapOn": False,
        "failCgroupV1": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "nodeLeaseDurationSeconds": node_health(record.spec).lease_seconds,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "eventRecordQPS": 50,
        "serializeImagePulls": False,
        # The disk is the whole machine's: how full it is says nothing about this node.
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        # An image that is removed here cannot be fetched again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def kube_proxy(home: Home, record: ClusterRecord, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(home.component_kubeconfig("kube-proxy"))},
        "hostnameOverride": name,
        "clusterCIDR": str(record.addresses.pods),
        "detectLocalMode": "ClusterCIDR",
        "oomScoreAdj": 0,
        # Limits of connection tracking belong to the machine, not to a node of it.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        # The default waits a second before it writes the first rules.
        "nftables": {"minSyncPeriod": "100ms", "syncPeriod": "30s"},
    }
