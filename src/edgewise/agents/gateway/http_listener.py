"""The HTTP entry points: one listener by path, and one by host name where a domain is set.

They never change while Envoy runs; what changes are the route scopes they look up.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

# Registered by import, so that messages inside `Any` can be written as plain data.
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.http.health_check.v3 import health_check_pb2  # noqa: F401
from envoy.extensions.filters.http.lua.v3 import lua_pb2  # noqa: F401
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401
from envoy.extensions.filters.http.set_filter_state.v3 import (  # noqa: F401
    set_filter_state_pb2,
)
from envoy.extensions.filters.network.http_connection_manager.v3 import (  # noqa: F401
    http_connection_manager_pb2,
)
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import (  # noqa: F401
    header_mutation_pb2,
)
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
from google.protobuf.json_format import ParseDict

from edgewise.agents.gateway.resource import Resource, ResourceType
from edgewise.agents.gateway.seat_scope import DESTINATION_FILTER, PODS_CLUSTER, TOKEN_FILTER
from edgewise.agents.gateway.settings import Settings

TYPES = "type.googleapis.com/envoy.extensions"
# Without an answer Envoy waits: a listener without routes would answer 404 to everybody.
BY_ADS = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
HEALTH_PATH = "/-/healthy"
BUFFER_BYTES = 256 * 1024
UNLIMITED = 1_000_000
NOBODY_HERE = "There is no such endpoint here; ask the session for its current one.\n"
POD_GONE = "The pod behind this endpoint does not answer right now; try again soon.\n"

SEAT_IN_PATH = {"name": ":path", "element_separator": "/", "index": 2}
SEAT_IN_HOST = {"name": ":authority", "element_separator": ".", "index": 0}

# A peer that vanished without a word (a dead node, a phone out of reach) is noticed
# in half a minute, although open streams have no time limit.
KEEPALIVE = {"keepalive_probes": 3, "keepalive_time": 15, "keepalive_interval": 5}


def fixed_resources(settings: Settings) -> list[Resource]:
    """All that is there before the first seat is."""
    found = [pods_cluster(), http_listener("http", settings, settings.http_port, SEAT_IN_PATH)]
    if settings.host_port:
        found.append(http_listener("hosts", settings, settings.host_port, SEAT_IN_HOST))
    return found


def pods_cluster() -> Resource:
    """One cluster for all pods: the route names the address."""
    cluster = {
        "name": PODS_CLUSTER,
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "2s",
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "circuit_breakers": breakers(),
        "upstream_connection_options": {"tcp_keepalive": KEEPALIVE},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{TYPES}.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http_protocol_options": {}},
                # Shorter than the 5 s after which common HTTP servers close an idle
                # connection, so that no request meets one that is being closed.
                "common_http_protocol_options": {"idle_timeout": "4s"},
            }
        },
    }
    return Resource.of(
        ResourceType.CLUSTER, PODS_CLUSTER, ParseDict(cluster, cluster_pb2.Cluster())
    )


def breakers() -> dict[str, Any]:
    """Envoy's default of 1,024 of everything is meant for one service, not for all."""
    kinds = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    return {"thresholds": [dict.fromkeys(kinds, UNLIMITED)]}


def http_listener(name: str, settings: Settings, port: int, seat_in: dict[str, Any]) -> Resource:
    listener = {
        "name": name,
        "address": socket_address(settings.bind, port),
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "socket_options": keepalive_options(),
        "filter_chains": [
            {"filters": [{"name": name, "typed_config": manager(name, settings, seat_in)}]}
        ],
    }
    return Resource.of(ResourceType.LISTENER, name, ParseDict(listener, listener_pb2.Listener()))


def socket_address(address: str, port: int, protocol: str = "TCP") -> dict[str, Any]:
    socket: dict[str, Any] = {"address": address, "port_value": port, "protocol": protocol}
    if address == "::":
        socket["ipv4_compat"] = True
    return {"socket_address": socket}


def keepalive_options() -> list[dict[str, Any]]:
    """`KEEPALIVE`, for accepted connections: Linux's numbers for SOL_SOCKET and IPPROTO_TCP."""
    options = (
        (1, 9, 1),
        (6, 4, KEEPALIVE["keepalive_time"]),
        (6, 5, KEEPALIVE["keepalive_interval"]),
        (6, 6, KEEPALIVE["keepalive_probes"]),
    )
    return [
        {"level": level, "name": name, "int_value": value, "state": "STATE_PREBIND"}
        for level, name, value in options
    ]


def manager(name: str, settings: Settings, seat_in: dict[str, Any]) -> dict[str, Any]:
    return {
        "@type": f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "scoped_routes": {
            "name": "seats",
            "scope_key_builder": {"fragments": [{"header_value_extractor": seat_in}]},
            "scoped_rds": {"scoped_rds_config_source": BY_ADS},
            "rds_config_source": BY_ADS,
        },
        # Dots and escapes are resolved before the seat is looked up, so that what is
        # looked up is what is matched. An escaped slash stays inside its segment.
        "normalize_path": True,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "strip_any_host_port": True,
        # No request is internal, and no header of Envoy's own comes from outside.
        "use_remote_address": True,
        "xff_num_trusted_hops": settings.trusted_hops,
        "internal_address_config": {
            "cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]
        },
        "early_header_mutation_extensions": [without_envoy_headers()],
        "server_header_transformation": "PASS_THROUGH",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "http2_protocol_options": {"allow_connect": True, "max_concurrent_streams": 256},
        # A slow sender of headers is cut off; a stream, once open, may take its time.
        "request_headers_timeout": "15s",
        "stream_idle_timeout": "0s",
        "http_filters": filters(),
        "local_reply_config": {
            "mappers": [
                plain_reply(404, NOBODY_HERE),
                plain_reply(503, POD_GONE),
            ]
        },
    }


def without_envoy_headers() -> dict[str, Any]:
    kind = f"{TYPES}.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    return {
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": {
            "@type": kind,
            "mutations": [{"remove_on_match": {"key_matcher": {"prefix": "x-envoy-"}}}],
        },
    }


def filters() -> list[dict[str, Any]]:
    script = resources.files(__package__).joinpath("token_check.lua").read_text("utf-8")
    return [
        {
            "name": "edgewise.health",
            "typed_config": {
                "@type": f"{TYPES}.filters.http.health_check.v3.HealthCheck",
                "pass_through_mode": False,
                "headers": [{"name": ":path", "string_match": {"exact": HEALTH_PATH}}],
            },
        },
        {
            # Runs only for routes that carry the hash of a token.
            "name": TOKEN_FILTER,
            "disabled": True,
            "typed_config": {
                "@type": f"{TYPES}.filters.http.lua.v3.Lua",
                "default_source_code": {"inline_string": script},
                "clear_route_cache": False,
            },
        },
        {
            "name": DESTINATION_FILTER,
            "typed_config": {"@type": f"{TYPES}.filters.http.set_filter_state.v3.Config"},
        },
        {
            "name": "edgewise.router",
            "typed_config": {
                "@type": f"{TYPES}.filters.http.router.v3.Router",
                "suppress_envoy_headers": True,
            },
        },
    ]


def plain_reply(status: int, sentence: str) -> dict[str, Any]:
    """What a person reads when Envoy itself has to answer."""
    return {
        "filter": {
            "status_code_filter": {
                "comparison": {
                    "op": "EQ",
                    "value": {"default_value": status, "runtime_key": f"edgewise.reply.{status}"},
                }
            }
        },
        "body": {"inline_string": sentence},
    }
