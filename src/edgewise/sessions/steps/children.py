"""Objects that a session is accompanied by: for its seats, and those bound to it.

Each carries a digest of what it was made from; one whose digest is right is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import urlsplit

import msgspec

from edgewise.api.sessions import Revision
from edgewise.exposure.endpoints import port_in
from edgewise.exposure.seats import seat_id
from edgewise.sessions import names
from edgewise.sessions.bound import bound_manifest
from edgewise.sessions.draft import Draft
from edgewise.sessions.orders import ApplyChild, RemoveChild
from edgewise.sessions.seats.manifests import http_route, listener_set, port_route, seat_service
from edgewise.workloads.children import ChildSeen, Manifest, WantedChild
from edgewise.workloads.names import content_digest

WITH_SERVICE = frozenset(("NodePort", "LoadBalancer", "GatewayAPI"))


def tend_children(draft: Draft) -> None:
    wanted = {(each.kind, each.name): each for each in _all_wanted(draft)}
    seen = draft.seen.children
    draft.apply += missing_children(wanted, seen)
    for key in seen.keys() - wanted.keys():
        draft.remove_children.append(RemoveChild(seen[key]))
        draft.needs_fence = True


def missing_children(
    wanted: Mapping[tuple[str, str], WantedChild], seen: Mapping[tuple[str, str], ChildSeen]
) -> Iterator[ApplyChild]:
    """Those that are not there as they should be."""
    for key, each in wanted.items():
        there = seen.get(key)
        if there is None or there.digest != each.digest:
            new = there is None and each.readable
            yield ApplyChild(each.kind, each.name, each.digest, each.build(), new)


def _all_wanted(draft: Draft) -> Iterator[WantedChild]:
    meta = draft.seen.session.metadata
    for resource in draft.workload.resources:
        if resource.scope == "Session":
            yield bound(bound_manifest(resource, meta.name, meta.namespace))
    if any(wants_service(draft, revision) for revision in draft.revisions.values()):
        for client, record in draft.clients.items():
            for pod_template, pod in record.pods.items():
                revision = draft.revisions.get(draft.revision_of.get(pod, ""))
                if revision is not None:
                    endpoints = draft.tentative.get((client, pod_template))
                    if endpoints is None:
                        endpoints = record.endpoints.get(pod_template, {})
                    yield from seat_objects(draft, client, pod, revision, endpoints)


def bound(manifest: Manifest) -> WantedChild:
    content = msgspec.json.encode(manifest, order="deterministic")
    name = manifest["metadata"]["name"]
    return WantedChild(
        manifest["kind"], name, content_digest(content), lambda: manifest, readable=True
    )


def seat_objects(
    draft: Draft, client: str, pod: str, revision: Revision, endpoints: dict[str, str]
) -> Iterator[WantedChild]:
    """What leads to one seat. GatewayAPI needs to know the endpoints it leads from."""
    if not wants_service(draft, revision):
        return
    meta, site = draft.seen.session.metadata, draft.seen.site
    seat = seat_id(site.seat_key, meta.uid, client, revision.pod_template)
    service = names.seat_service_name(seat)
    yield WantedChild(
        "Service",
        service,
        service_digest(pod, revision),
        lambda: seat_service(service, meta.namespace, pod, revision),
    )
    if revision.exposure != "GatewayAPI":
        return
    for port in revision.ports:
        url = endpoints.get(port.name)
        if url is None:
            continue
        name = f"{service}-{port.name}"
        digest = f"{site.gateway};{url};{port.port}"
        if port.protocol == "HTTP":
            path = urlsplit(url).path.rstrip("/")
            make = partial(http_route, name, meta.namespace, site.gateway, path=path)
            yield WantedChild("HTTPRoute", name, digest, partial(make, service=service, port=port))
            continue
        listen = partial(listener_set, name, meta.namespace, site.gateway, port, port_in(url))
        yield WantedChild("ListenerSet", name, digest, listen)
        lead = partial(port_route, name, meta.namespace, name, service, port)
        yield WantedChild(f"{port.protocol}Route", name, digest, lead)


def seat_service_seen(draft: Draft, client: str, pod: str, revision: Revision) -> ChildSeen | None:
    """The Service of a seat, once it leads to this pod."""
    seat = seat_id(
        draft.seen.site.seat_key,
        draft.seen.session.metadata.uid,
        client,
        revision.pod_template,
    )
    service = draft.seen.children.get(("Service", names.seat_service_name(seat)))
    if service is None or service.digest != service_digest(pod, revision):
        return None
    return service


def service_digest(pod: str, revision: Revision) -> str:
    """Cheap to make for every seat; says when the Service of a seat has to change."""
    ports = ",".join(f"{port.name}:{port.port}:{port.protocol}" for port in revision.ports)
    return f"{pod};{revision.exposure};{ports}"


def wants_service(draft: Draft, revision: Revision) -> bool:
    if not revision.ports:
        return False
    return revision.exposure in WITH_SERVICE or any(
        made.template.service for made in draft.made if made.template.name == revision.pod_template
    )
