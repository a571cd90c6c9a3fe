"""The network of a cluster as `ip` and `nft` input. Pure: text out.

One segment joins control plane and nodes: a bridge in the control plane's
namespace. The host has a link of its own to the control plane, which forwards
what the host begins, and only that. There is no default route anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address

from edgewise.local.network.addresses import AddressPlan
from edgewise.local.network.connections import Peer

BRIDGE = "br0"
UPLINK = "uplink"
NODE_LINK = "eth0"
PEER_PREFIX = "to-"


def port(number: int) -> str:
    """The bridge port of real node `number`."""
    return f"node{number}"


def place_port(number: int) -> str:
    """The bridge port of place `number`."""
    return f"place{number}"


def relay_links(link: str) -> tuple[str, str]:
    """The two links between which a relay stands, in a cable that takes its time."""
    return f"{link}.a", f"{link}.b"


def cable(link: str, hub: int, far: str, far_pid: int | None, *, slow: bool) -> list[str]:
    """Between `link` in the control plane and `far` elsewhere; without a pid, on the host.

    A slow cable is in two pieces; a relay carries frames from one to the other.
    """
    if not slow:
        return [_piece(far, far_pid, link, hub)]
    one, other = relay_links(link)
    return [_piece(link, hub, one, hub), _piece(far, far_pid, other, hub)]


def _piece(one: str, one_pid: int | None, other: str, other_pid: int) -> str:
    where = f" netns {one_pid}" if one_pid is not None else ""
    return f"link add name {one}{where} type veth peer name {other} netns {other_pid}"


def relay_ends(link: str) -> list[str]:
    """In the control plane: the kernel itself stays silent there, only the relay speaks."""
    return [f"link set {end} arp off up" for end in relay_links(link)]


def bridge() -> list[str]:
    return [f"link add name {BRIDGE} type bridge"]


def control_plane_links(addresses: AddressPlan, *, connected: bool = True) -> list[str]:
    """Addresses of the control plane; may be repeated. A cut cable is a link that is down."""
    return [
        "link set lo up",
        f"address replace {addresses.control_plane}/{addresses.segment.prefixlen} dev {BRIDGE}",
        f"link set {BRIDGE} up",
        f"address replace {addresses.uplink_inside}/{addresses.uplink.prefixlen} dev {UPLINK}",
        f"link set {UPLINK} {'up' if connected else 'down'}",
    ]


def control_plane_routes(addresses: AddressPlan, nodes: int) -> list[str]:
    """The control plane's way to the pods; may be repeated."""
    return [
        *(
            f"route replace {addresses.pods_of(number)} via {addresses.node(number)}"
            for number in range(1, nodes + 1)
        ),
        # Somebody with a kube-proxy has to translate what the host sends to Services.
        f"route replace {addresses.services} via {addresses.node(1)}",
    ]


def plug_in(link: str, *, connected: bool = True) -> list[str]:
    """In the control plane's namespace. A cut cable is a port that is down."""
    state = "up" if connected else "down"
    return [f"link set {link} master {BRIDGE}", f"link set {link} {state}"]


def node(addresses: AddressPlan, number: int, nodes: int) -> list[str]:
    """Addresses and routes of a node; may be repeated."""
    others = [other for other in range(1, nodes + 1) if other != number]
    return _machine(addresses, addresses.node(number), others)


def place(addresses: AddressPlan, number: int, nodes: int) -> list[str]:
    """Addresses and routes of a place, which has no pods of its own; may be repeated."""
    return _machine(addresses, addresses.place(number), range(1, nodes + 1))


def _machine(addresses: AddressPlan, own: IPv4Address, others: Iterable[int]) -> list[str]:
    return [
        "link set lo up",
        f"address replace {own}/{addresses.segment.prefixlen} dev {NODE_LINK}",
        f"link set {NODE_LINK} up",
        f"route replace {addresses.uplink} via {addresses.control_plane}",
        # A program of the node itself has to have a way to Services before kube-proxy leads it
        # elsewhere. This one ends here, so what kube-proxy leaves as it is goes round in no circle.
        f"route replace {addresses.services} dev {NODE_LINK}",
        *(
            f"route replace {addresses.pods_of(other)} via {addresses.node(other)}"
            for other in others
        ),
    ]


# Where operators of the host listen that pods may call.
OPERATOR_PORTS = (17000, 17999)


def host(addresses: AddressPlan, host_link: str) -> list[str]:
    """The host's way into the cluster; may be repeated."""
    return [
        f"address replace {addresses.host}/{addresses.uplink.prefixlen} dev {host_link}",
        f"link set {host_link} up",
        *(
            f"route replace {network} via {addresses.uplink_inside} dev {host_link}"
            for network in (addresses.segment, addresses.pods, addresses.services)
        ),
    ]


def host_filter(table: str, addresses: AddressPlan, host_link: str) -> str:
    """What the host lets in: answers, and the API server on its way to a webhook."""
    inside = ", ".join(
        str(network) for network in (addresses.segment, addresses.pods, addresses.services)
    )
    return f"""\
table inet {table}
delete table inet {table}
table inet {table} {{
    chain input {{
        type filter hook input priority -10; policy accept;
        iifname != "{host_link}" accept
        ct state established,related accept
        ip saddr {addresses.uplink_inside} ip daddr {addresses.host} meta l4proto tcp accept
        ip saddr {addresses.uplink_inside} ip daddr {addresses.host} meta l4proto icmp accept
        drop
    }}
    chain forward {{
        type filter hook forward priority -10; policy accept;
        iifname "{host_link}" drop
        oifname "{host_link}" drop
    }}
    chain output {{
        type filter hook output priority -10; policy accept;
        ip daddr {{ {inside} }} oifname != "{host_link}" drop
    }}
}}
"""


def control_plane_filter(addresses: AddressPlan) -> str:
    """What the control plane forwards: from the host inwards, and between joined clusters.

    Pods reach the operator on the host, and nothing else there, as if it ran here: at the
    address of the control plane, in a range of ports that only operators of the host have.
    """
    first, last = OPERATOR_PORTS
    operator = f"ip daddr {addresses.host} tcp dport {first}-{last}"
    return f"""\
table inet edgewise
delete table inet edgewise
table inet edgewise {{
    chain prerouting {{
        type nat hook prerouting priority dstnat;
        iifname "{BRIDGE}" ip daddr {addresses.control_plane} tcp dport {first}-{last} \
            dnat ip to {addresses.host}
    }}
    chain postrouting {{
        type nat hook postrouting priority srcnat;
        oifname "{UPLINK}" {operator} masquerade
    }}
    chain forward {{
        type filter hook forward priority 0; policy drop;
        iifname "{UPLINK}" oifname "{BRIDGE}" accept
        iifname "{BRIDGE}" oifname "{UPLINK}" ct state established,related accept
        iifname "{BRIDGE}" oifname "{UPLINK}" {operator} accept
        iifname "{BRIDGE}" oifname "{BRIDGE}" accept
        iifname "{BRIDGE}" oifname "{PEER_PREFIX}*" accept
        iifname "{PEER_PREFIX}*" oifname "{BRIDGE}" accept
    }}
}}
"""


def peer_link(other_index: int) -> str:
    """The end of a cable to another cluster, named after that cluster's index."""
    return f"{PEER_PREFIX}{other_index}"


def peer_routes(other: AddressPlan) -> list[str]:
    """In a control plane: the other cluster's nodes and pods are one hop away."""
    link = peer_link(other.index)
    return [
        f"link set {link} up",
        *(
            f"route replace {network} via {other.control_plane} dev {link} onlink"
            for network in (other.segment, other.pods)
        ),
    ]


def routes_to_peers(mine: AddressPlan, others: Iterable[Peer]) -> list[str]:
    """In a node: other clusters are behind the control plane."""
    return [
        f"route replace {network} via {mine.control_plane}"
        for other in others
        for network in (other.addresses.segment, other.addresses.pods)
    ]


def no_routes_to_peer(other: AddressPlan) -> list[str]:
    return [f"route del {network}" for network in (other.segment, other.pods)]
