"""The TCP or UDP side of one seat: a listener of its own, and where it leads.

Three resources, so that each can change alone. The listener and the cluster never
change while the port is held: a new pod is a new endpoint, and the flows of the port
move to it. (A listener that is edited in place would give every UDP flow a new source
port towards the pod.)
"""

from __future__ import annotations

import functools
from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2  # noqa: F401
from envoy.extensions.filters.udp.udp_proxy.v3 import route_pb2, udp_proxy_pb2  # noqa: F401
from google.protobuf.json_format import ParseDict

from edgewise.agents.gateway.http_listener import (
    BUFFER_BYTES,
    BY_ADS,
    KEEPALIVE,
    TYPES,
    breakers,
    keepalive_options,
    socket_address,
)
from edgewise.agents.gateway.resource import Resource, ResourceType
from edgewise.agents.gateway.settings import Settings
from edgewise.exposure.route import Route

DATAGRAM_BYTES = 9000
UDP_IDLE = "300s"


def port_name(route: Route) -> str:
    """The name that listener, cluster and endpoints share. It changes with the port
    number, so that a seat that moves to another port gets a new listener."""
    return f"{route.protocol.lower()}/{route.listen_port}/{route.id}"


def port_resources(route: Route, settings: Settings) -> list[Resource]:
    name = port_name(route)
    return [cluster_of(name), endpoints_of(name, route), listener_of(name, route, settings)]


@functools.cache
def cluster_template() -> cluster_pb2.Cluster:
    return ParseDict(
        {
            "type": "EDS",
            "eds_cluster_config": {"eds_config": BY_ADS},
            "connect_timeout": "2s",
            "per_connection_buffer_limit_bytes": BUFFER_BYTES,
            "circuit_breakers": breakers(),
            "upstream_connection_options": {"tcp_keepalive": KEEPALIVE},
        },
        cluster_pb2.Cluster(),
    )


def cluster_of(name: str) -> Resource:
    cluster = cluster_pb2.Cluster(name=name)
    cluster.MergeFrom(cluster_template())
    return Resource.of(ResourceType.CLUSTER, name, cluster)


def endpoints_of(name: str, route: Route) -> Resource:
    found = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
    socket = found.endpoints.add().lb_endpoints.add().endpoint.address.socket_address
    socket.address = route.address
    socket.port_value = route.target_port
    if route.protocol == "UDP":
        socket.protocol = socket.UDP
    return Resource.of(ResourceType.ENDPOINTS, name, found)


def listener_of(name: str, route: Route, settings: Settings) -> Resource:
    shape = udp_shape if route.protocol == "UDP" else tcp_shape
    listener = {
        "name": name,
        "address": socket_address(settings.bind, route.listen_port, route.protocol),
        # All ports share one set of figures: a set per listener costs memory and
        # would put seats, which are secrets, into metrics.
        "stat_prefix": f"seat_{route.protocol.lower()}",
        **shape(name),
    }
    return Resource.of(ResourceType.LISTENER, name, ParseDict(listener, listener_pb2.Listener()))


def tcp_shape(name: str) -> dict[str, Any]:
    return {
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "socket_options": keepalive_options(),
        # One socket for all workers: a port that is taken is then always noticed, and
        # a thousand ports need a thousand descriptors, not one more per worker.
        "enable_reuse_port": False,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "tcp",
                        "typed_config": {
                            "@type": f"{TYPES}.filters.network.tcp_proxy.v3.TcpProxy",
                            "stat_prefix": "seat_tcp",
                            "cluster": name,
                            "idle_timeout": "0s",
                        },
                    }
                ]
            }
        ],
    }


def udp_shape(name: str) -> dict[str, Any]:
    route = {"@type": f"{TYPES}.filters.udp.udp_proxy.v3.Route", "cluster": name}
    return {
        "udp_listener_config": {
            "downstream_socket_config": {"max_rx_datagram_size": DATAGRAM_BYTES}
        },
        "listener_filters": [
            {
                "name": "udp",
                "typed_config": {
                    "@type": f"{TYPES}.filters.udp.udp_proxy.v3.UdpProxyConfig",
                    "stat_prefix": "seat_udp",
                    "idle_timeout": UDP_IDLE,
                    "upstream_socket_config": {"max_rx_datagram_size": DATAGRAM_BYTES},
                    "matcher": {
                        "on_no_match": {"action": {"name": "route", "typed_config": route}}
                    },
                },
            }
        ],
    }
