"""One piece of Envoy's configuration, as delta xDS carries it."""

from __future__ import annotations

import enum
import hashlib

import msgspec
from google.protobuf.message import Message


class ResourceType(enum.Enum):
    """The kinds of resources we serve; the value is the type URL."""

    CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
    SCOPE = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"


class Resource(msgspec.Struct, frozen=True):
    """A named resource. Its version is a hash of its content, so that a restarted
    agent and a running Envoy agree on what they share without sending it again."""

    type: ResourceType
    name: str
    version: str
    body: bytes

    @classmethod
    def of(cls, type: ResourceType, name: str, message: Message) -> Resource:
        body = message.SerializeToString(deterministic=True)
        return cls(type, name, hashlib.sha256(body).hexdigest()[:16], body)
