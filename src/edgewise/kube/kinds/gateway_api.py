"""The Gateway API: routes that hang on a Gateway, and listeners for them."""

from __future__ import annotations

from typing import ClassVar

from edgewise.kube.objects import Kind, OpenObject

GATEWAY_API = "gateway.networking.k8s.io"


class HTTPRoute(OpenObject):
    KIND: ClassVar = Kind(GATEWAY_API, "v1", "HTTPRoute", "httproutes")


class TCPRoute(OpenObject):
    KIND: ClassVar = Kind(GATEWAY_API, "v1", "TCPRoute", "tcproutes")


class UDPRoute(OpenObject):
    KIND: ClassVar = Kind(GATEWAY_API, "v1", "UDPRoute", "udproutes")


class ListenerSet(OpenObject):
    KIND: ClassVar = Kind(GATEWAY_API, "v1", "ListenerSet", "listenersets")


GATEWAY_KINDS: tuple[type[OpenObject], ...] = (HTTPRoute, TCPRoute, UDPRoute, ListenerSet)
