"""The HTTP side of one seat: a route scope that Envoy finds by one hash lookup.

A scope carries its routes inline and each route carries the pod's address, so a
join, a move or a leave is one small resource, whatever else is being served.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from envoy.config.route.v3 import route_components_pb2, scoped_route_pb2
from envoy.extensions.filters.http.lua.v3 import lua_pb2
from envoy.extensions.filters.http.set_filter_state.v3 import set_filter_state_pb2

from edgewise.agents.gateway.resource import Resource, ResourceType
from edgewise.exposure.route import Route

PREFIX = "/s"
PODS_CLUSTER = "pods"
DESTINATION_FILTER = "edgewise.destination"
TOKEN_FILTER = "edgewise.token"  # noqa: S105 - the name of a filter
# Where Envoy's original-destination cluster looks for the address first. Unlike a
# header, nothing that a client sends can set it.
DESTINATION_KEY = "envoy.network.transport_socket.original_dst_address"
OVERWRITE = "OVERWRITE_IF_EXISTS_OR_ADD"


def scope_of(label: str, by_path: Iterable[Route], by_host: Iterable[Route]) -> Resource:
    """The scope with key `label`, in which some routes are reached by path and some
    by host name. Callers pass routes in a fixed order, which makes versions stable."""
    scope = scoped_route_pb2.ScopedRouteConfiguration(name=label)
    scope.key.fragments.add(string_key=label)
    config = scope.route_configuration
    config.name = label
    for route in by_host:
        host = config.virtual_hosts.add(name=route.hostname, domains=[route.hostname])
        entry = host.routes.add()
        entry.match.prefix = "/"
        lead(entry, route)
    everywhere = config.virtual_hosts.add(name="paths", domains=["*"])
    for route in by_path:
        prefix = f"{PREFIX}/{route.seat}/{route.port_name}"
        entry = everywhere.routes.add()
        entry.match.path_separated_prefix = prefix
        entry.route.regex_rewrite.pattern.regex = f"^{prefix}/?"
        entry.route.regex_rewrite.substitution = "/"
        # An application behind a prefix needs to know it to write links to itself.
        header = entry.request_headers_to_add.add(append_action=OVERWRITE)
        header.header.key = "x-forwarded-prefix"
        header.header.value = prefix
        lead(entry, route)
    return Resource.of(ResourceType.SCOPE, label, scope)


def lead(entry: route_components_pb2.Route, route: Route) -> None:
    """Make `entry` lead to the pod, without limits of time: streams may last."""
    entry.route.cluster = PODS_CLUSTER
    entry.route.timeout.SetInParent()
    # Sent again only if the pod cannot have seen the request.
    entry.route.retry_policy.retry_on = "connect-failure,reset-before-request"
    entry.route.retry_policy.num_retries.value = 1
    destination = set_filter_state_pb2.Config()
    value = destination.on_request_headers.add(object_key=DESTINATION_KEY)
    value.format_string.text_format_source.inline_string = socket_name(route)
    entry.typed_per_filter_config[DESTINATION_FILTER].Pack(destination, deterministic=True)
    if route.token_sha256:
        check = lua_pb2.LuaPerRoute()
        check.filter_context["token_sha256"] = route.token_sha256
        entry.typed_per_filter_config[TOKEN_FILTER].Pack(check, deterministic=True)


def socket_name(route: Route) -> str:
    v6 = ipaddress.ip_address(route.address).version == 6
    host = f"[{route.address}]" if v6 else route.address
    return f"{host}:{route.target_port}"
