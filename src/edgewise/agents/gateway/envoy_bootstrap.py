"""What Envoy is started with: who it is, and where its configuration comes from."""

from __future__ import annotations

import json
import secrets
import socket
from pathlib import Path
from typing import Any

from edgewise.agents.gateway.http_listener import BY_ADS, TYPES
from edgewise.agents.gateway.settings import SettingsError

MOST_CONNECTIONS = 100_000
LONGEST_SOCKET_PATH = 107  # what Linux takes


def xds_socket(run_dir: Path) -> Path:
    return run_dir / "xds.sock"


def admin_socket(run_dir: Path) -> Path:
    return run_dir / "admin.sock"


def write_bootstrap(run_dir: Path, xds: str = "") -> Path:
    """Write the file for an Envoy that runs in `run_dir` and asks `xds` (HOST:PORT, or
    the agent in the same directory). Sockets in a directory keep the inner doors of
    the gateway off the network."""
    if len(str(admin_socket(run_dir))) > LONGEST_SOCKET_PATH:
        raise SettingsError(f"run directory {run_dir} is too long for a socket; choose a shorter")
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = run_dir / "envoy.json"
    path.write_text(json.dumps(bootstrap(run_dir, xds), indent=1))
    return path


def bootstrap(run_dir: Path, xds: str) -> dict[str, Any]:
    return {
        "node": {"id": f"{socket.gethostname()}-{secrets.token_hex(4)}", "cluster": "edgewise"},
        "admin": {"address": {"pipe": {"path": str(admin_socket(run_dir)), "mode": 0o600}}},
        "dynamic_resources": {
            "lds_config": BY_ADS,
            "cds_config": BY_ADS,
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [{"envoy_grpc": patient("xds")}],
            },
        },
        "static_resources": {"clusters": [xds_cluster(run_dir, xds)]},
        "stats_config": {
            # Seats are secrets and there are many of them: no figures by seat.
            "stats_matcher": {
                "exclusion_list": {
                    "patterns": [{"prefix": "cluster.tcp/"}, {"prefix": "cluster.udp/"}]
                }
            }
        },
        "overload_manager": {
            "resource_monitors": [
                {
                    "name": "envoy.resource_monitors.global_downstream_max_connections",
                    "typed_config": {
                        "@type": f"{TYPES}.resource_monitors.downstream_connections.v3"
                        ".DownstreamConnectionsConfig",
                        "max_active_downstream_connections": MOST_CONNECTIONS,
                    },
                }
            ]
        },
    }


def patient(cluster: str) -> dict[str, Any]:
    """An agent that comes back after a restart is found again within a second."""
    backoff = {"base_interval": "0.1s", "max_interval": "1s"}
    return {"cluster_name": cluster, "retry_policy": {"retry_back_off": backoff}}


def xds_cluster(run_dir: Path, xds: str) -> dict[str, Any]:
    address: dict[str, Any] = {"pipe": {"path": str(xds_socket(run_dir))}}
    if xds:
        host, _, port = xds.rpartition(":")
        if not host or not port.isdigit():
            raise SettingsError(f"xds {xds!r} is not HOST:PORT")
        address = {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}
    options = f"{TYPES}.upstreams.http.v3.HttpProtocolOptions"
    alive = {"connection_keepalive": {"interval": "5s", "timeout": "3s"}}
    return {
        "name": "xds",
        "type": "STRICT_DNS" if xds else "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": options,
                "explicit_http_config": {"http2_protocol_options": alive},
            }
        },
        "load_assignment": {
            "cluster_name": "xds",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }
