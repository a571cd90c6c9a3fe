"""The flags of every control-plane program. Pure: a record in, components out."""

from __future__ import annotations

from edgewise.local.component import CONTROL_PLANE, Component, Flags, flags
from edgewise.local.control_plane.identities import (
    CLUSTER_CA,
    ETCD_CA,
    FRONT_PROXY_CA,
    SERVICE_ACCOUNTS,
)
from edgewise.local.layout import ClusterRecord, Home, Ports, certificate, key
from edgewise.local.machines.node_health import node_health

DEFAULT_PORTS = Ports(api=6443, etcd=2379, etcd_peer=2380)
SIMULATED = "edgewise.dev/simulated"
AUTHENTICATION = "authentication.yaml"
_ISSUER = "https://kubernetes.default.svc.cluster.local"


def control_plane(home: Home, record: ClusterRecord) -> list[Component]:
    """What has to run besides the nodes, in the order in which it is started."""
    options = {"etcd": etcd(home, record), "kube-apiserver": api_server(home, record)}
    if record.spec.controllers:
        options["kube-controller-manager"] = controller_manager(home, record)
        options["kube-scheduler"] = scheduler(home, record)
    if record.spec.simulated_nodes:
        options["kwok"] = kwok(home, record)
    inside = CONTROL_PLANE if record.spec.real else ""
    components = [
        Component(name=name, argv=flags(record.programs[name], these), inside=inside)
        for name, these in options.items()
    ]
    if record.spec.real:
        argv = (record.programs["coredns"], "-conf", str(home.config / "Corefile"))
        components.append(Component(name="coredns", argv=argv, inside=inside))
    return components


def etcd(home: Home, record: ClusterRecord) -> Flags:
    ports = record.ports or DEFAULT_PORTS
    client = f"https://127.0.0.1:{ports.etcd}"
    peer = f"https://127.0.0.1:{ports.etcd_peer}"
    options: Flags = {
        "name": "local",
        "data-dir": str(home.etcd),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        # Its own place for health and metrics. Where it shares one with gRPC, that has to
        # go through Go's HTTP server, which takes a third of etcd's time.
        "listen-client-http-urls": "https://127.0.0.1:0",
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"local={peer}",
        # A local cluster may lose its last writes with the machine, not with a process:
        # what etcd wrote is in the page cache, and that outlives a kill.
        "unsafe-no-fsync": True,
        "auto-compaction-retention": "10m",
        "quota-backend-bytes": 4 << 30,
        # As kubeadm sets it: without, watches of kinds that never change get no bookmarks.
        "watch-progress-notify-interval": "5s",
        "log-level": "warn",
    }
    for prefix in ("", "peer-"):
        options |= {
            f"{prefix}trusted-ca-file": str(certificate(home.pki, ETCD_CA)),
            f"{prefix}cert-file": str(certificate(home.pki, "etcd")),
            f"{prefix}key-file": str(key(home.pki, "etcd")),
            f"{prefix}client-cert-auth": True,
        }
    return options


def api_server(home: Home, record: ClusterRecord) -> Flags:
    ports = record.ports or DEFAULT_PORTS
    pki = home.pki
    options: Flags = {
        "secure-port": ports.api,
        "tls-cert-file": str(certificate(pki, "kube-apiserver")),
        "tls-private-key-file": str(key(pki, "kube-apiserver")),
        "client-ca-file": str(certificate(pki, CLUSTER_CA)),
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        # Which set the runtime class of tenants' pods; a beta has to be asked for.
        "feature-gates": "MutatingAdmissionPolicy=true",
        "runtime-config": "admissionregistration.k8s.io/v1beta1=true",
        "anonymous-auth": False,
        "etcd-servers": f"https://127.0.0.1:{ports.etcd}",
        "etcd-cafile": str(certificate(pki, ETCD_CA)),
        "etcd-certfile": str(certificate(pki, "etcd-client")),
        "etcd-keyfile": str(key(pki, "etcd-client")),
        "service-cluster-ip-range": str(record.addresses.services),
        "service-account-issuer": _ISSUER,
        "service-account-key-file": str(pki / f"{SERVICE_ACCOUNTS}.pub"),
        "service-account-signing-key-file": str(key(pki, SERVICE_ACCOUNTS)),
        "kubelet-client-certificate": str(certificate(pki, "kubelet-client")),
        "kubelet-client-key": str(key(pki, "kubelet-client")),
        "kubelet-certificate-authority": str(certificate(pki, CLUSTER_CA)),
        "kubelet-preferred-address-types": "InternalIP",
        "requestheader-client-ca-file": str(certificate(pki, FRONT_PROXY_CA)),
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": str(certificate(pki, "front-proxy")),
        "proxy-client-key-file": str(key(pki, "front-proxy")),
        # Webhooks and aggregated APIs are reached at their pods: there is no kube-proxy here.
        "enable-aggregator-routing": True,
        "allow-privileged": True,
        "profiling": False,
        # Without, it waits for open watches when it is asked to end, for a minute.
        "shutdown-watch-termination-grace-period": "1s",
    }
    if record.spec.authentication:
        options["authentication-config"] = str(home.config / AUTHENTICATION)
    if record.spec.real:
        return options | {
            "bind-address": "0.0.0.0",  # noqa: S104 - all of its own network namespace
            "advertise-address": str(record.addresses.control_plane),
        }
    return options | {
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        # An endpoint may not be a loopback address, so the Service "kubernetes" has none.
        "endpoint-reconciler-type": "none",
        # Simulated nodes are born ready: they need not be marked as not being so at first.
        "disable-admission-plugins": "TaintNodesByCondition",
    }


def controller_manager(home: Home, record: ClusterRecord) -> Flags:
    kubeconfig = str(home.component_kubeconfig("kube-controller-manager"))
    return {
        "kubeconfig": kubeconfig,
        "use-service-account-credentials": True,
        "service-account-private-key-file": str(key(home.pki, SERVICE_ACCOUNTS)),
        "root-ca-file": str(certificate(home.pki, CLUSTER_CA)),
        "cluster-signing-cert-file": str(certificate(home.pki, CLUSTER_CA)),
        "cluster-signing-key-file": str(key(home.pki, CLUSTER_CA)),
        "leader-elect": False,
        "node-monitor-period": "1s",
        "node-monitor-grace-period": f"{node_health(record.spec).grace_seconds}s",
        # With the default of 20 a fresh node keeps its not-ready taint five seconds longer.
        "kube-api-qps": 300,
        "kube-api-burst": 600,
        "profiling": False,
        **_serving(home, record, kubeconfig),
    }


def scheduler(home: Home, record: ClusterRecord) -> Flags:
    kubeconfig = str(home.component_kubeconfig("kube-scheduler"))
    return {
        "kubeconfig": kubeconfig,
        "leader-elect": False,
        "kube-api-qps": 300,
        "kube-api-burst": 600,
        "profiling": False,
        **_serving(home, record, kubeconfig),
    }


def _serving(home: Home, record: ClusterRecord, kubeconfig: str) -> Flags:
    """Metrics on the usual ports where the cluster has a network of its own."""
    if not record.spec.real:
        return {"secure-port": 0}
    return {
        "bind-address": str(record.addresses.control_plane),
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        # Looking up the CA in the API server fails, and ends the program, while that starts.
        "authentication-skip-lookup": True,
        "client-ca-file": str(certificate(home.pki, CLUSTER_CA)),
    }


def kwok(home: Home, record: ClusterRecord) -> Flags:
    return {
        "kubeconfig": str(home.component_kubeconfig("kwok")),
        "config": str(home.config / "kwok.yaml"),
        "manage-nodes-with-label-selector": f"{SIMULATED}=true",
        "cidr": str(record.addresses.simulated_pods),
        "node-ip": record.api_host,
        "node-lease-duration-seconds": node_health(record.spec).simulated_lease_seconds,
    }


KWOK_CONFIG = """\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options: {}
"""


# Where CoreDNS says whether it has read all Services.
DNS_READY_PORT = 8181


def corefile(home: Home) -> str:
    """Only the cluster's own names; everything else does not exist here."""
    return f"""\
.:53 {{
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig "{home.component_kubeconfig("coredns")}"
        pods insecure
        ttl 5
    }}
    prometheus :9153
    ready :{DNS_READY_PORT}
    loadbalance
}}
"""
