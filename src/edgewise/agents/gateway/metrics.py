"""What a person on call wants to know of a gateway."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class GatewayMetrics:
    """One set per agent, in the registry it is given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.envoys = Gauge(
            "edgewise_gateway_envoys", "Envoys that are connected.", registry=registry
        )
        self.routes = Gauge(
            "edgewise_gateway_routes", "Routes that are served.", ["protocol"], registry=registry
        )
        self.ahead = Gauge(
            "edgewise_gateway_routes_ahead",
            "Routes that the operator pushed and the watch has not shown yet.",
            registry=registry,
        )
        self.refused = Gauge(
            "edgewise_gateway_routes_refused",
            "Routes that are not served, because they are wrong or in conflict.",
            registry=registry,
        )
        self.lag = Histogram(
            "edgewise_gateway_route_lag_seconds",
            "From learning of a change until every Envoy has acknowledged it.",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
            registry=registry,
        )
        self.oldest = Gauge(
            "edgewise_gateway_route_lag_oldest_seconds",
            "Age of the oldest change that an Envoy has not acknowledged.",
            registry=registry,
        )
        self.acks = Counter(
            "edgewise_gateway_acks", "Responses that Envoy took.", ["type"], registry=registry
        )
        self.nacks = Counter(
            "edgewise_gateway_nacks", "Responses that Envoy refused.", ["type"], registry=registry
        )
        self.pushes = Counter(
            "edgewise_gateway_pushes",
            "Routes pushed by the operator.",
            ["outcome"],
            registry=registry,
        )
        self.envoy_starts = Counter(
            "edgewise_gateway_envoy_starts", "Starts of our own Envoy.", registry=registry
        )
