"""What must hold of the sessions of a namespace, whatever happened to them.

Every connected client is seated exactly once; no pod, Lease or port is left over; no deadline is
missed. It looks at what the API server has, and knows nothing of how an operator works.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session, SessionStatus, SessionTemplate, Workload
from edgewise.kube.client import Client
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Object
from edgewise.sessions import names
from edgewise.sessions.pods import made_from
from edgewise.sessions.route_source import routes_of
from edgewise.workloads.deadlines import moment

T = TypeVar("T", bound=Object)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """All that there is in a namespace, and the ports that its sessions claim."""

    namespace: str
    sessions: Sequence[Session]
    templates: Sequence[SessionTemplate]
    pods: Sequence[Pod]
    leases: Sequence[Lease]
    claims: Sequence[PortClaim]


async def look(client: Client, namespace: str) -> Seen:
    return Seen(
        namespace=namespace,
        sessions=(await client.list(Session, namespace)).items,
        templates=(await client.list(SessionTemplate, namespace)).items,
        pods=(await client.list(Pod, namespace)).items,
        leases=(await client.list(Lease, namespace)).items,
        claims=(await client.list(PortClaim)).items,
    )


def violations(seen: Seen, now: float, *, settled: bool = True) -> list[str]:
    """A sentence for each. `settled`: also what takes an operator a little time."""
    found = list(_shared_pods(seen.sessions))
    for session in seen.sessions:
        found += _seats(session, seen)
        if settled:
            found += _clients(session, seen)
            found += _deadlines(session.status, now)
    found += _ports(seen, settled=settled)
    if settled:
        found += _leftovers(seen)
    return found


def _shared_pods(sessions: Sequence[Session]) -> Iterator[str]:
    holders = Counter(
        pod for each in sessions for members in each.status.pods.values() for pod in members
    )
    if shared := [pod for pod, count in holders.items() if count > 1]:
        yield f"pods of two sessions: {shared}"


def _seats(session: Session, seen: Seen) -> Iterator[str]:
    """Each in a pod that is recorded, and no more than fit in."""
    status = session.status
    recorded = {pod: revision for revision, members in status.pods.items() for pod in members}
    load = Counter(pod for each in status.clients.values() for pod in each.pods.values())
    if unknown := load.keys() - recorded.keys():
        yield f"seats in pods that are not recorded: {unknown}"
    workload = _workload(session, seen)
    if workload is None:
        return
    limits = {each.name: each.max_clients for each in workload.pod_templates}
    for pod, count in load.items():
        if pod in unknown:
            continue
        most = limits.get(status.revisions[recorded[pod]].pod_template, 0)
        if most and count > most:
            yield f"{pod} has {count} clients, and may have {most}"


def _clients(session: Session, seen: Seen) -> Iterator[str]:
    """Who is connected has a ready pod of each template; who left is forgotten."""
    workload = _workload(session, seen)
    if workload is None:
        return
    wanted = {each.name for each in workload.pod_templates}
    pods = {pod.metadata.name: pod for pod in seen.pods}
    status, name = session.status, session.metadata.name
    for client, entry in session.spec.clients.items():
        record = status.clients.get(client)
        if record is None:
            yield f"{client} of {name} was overlooked"
            continue
        if not entry["connected"] or record.phase == "Refused":
            continue
        if not record.pods.keys() >= wanted:
            yield f"{client} of {name} lacks a seat: {record}"
        elif not record.ready:
            yield f"{client} of {name} is not ready: {record}"
        for pod in record.pods.values():
            has = pods.get(pod)
            if has is None or not has.ready or has.metadata.deleting:
                yield f"{client} of {name} sits in {pod}, which is not ready"
    if gone := status.clients.keys() - session.spec.clients.keys():
        yield f"still in {name}: {gone}"


def _deadlines(status: SessionStatus, now: float) -> Iterator[str]:
    for client, record in status.clients.items():
        due = moment(record.until)
        if due is not None and due <= now:
            yield f"a deadline was missed: {client} {record}"
    for pod, idle in status.idle.items():
        due = moment(idle.until)
        if due is not None and due <= now:
            yield f"a deadline was missed: {pod} {idle}"


def _workload(session: Session, seen: Seen) -> Workload | None:
    """What its pods are made from; nothing while its template is not there."""
    ref = session.spec.template_ref
    if ref is None:
        return session.spec
    found = [each for each in seen.templates if each.metadata.name == ref.name]
    return found[0].spec if found else None


def _ports(seen: Seen, *, settled: bool) -> Iterator[str]:
    used: dict[tuple[str, int], str] = {}
    for session in seen.sessions:
        for route in routes_of(session):
            if route.listen_port:
                place = (route.protocol, route.listen_port)
                if place in used:
                    yield f"two seats at {place}"
                used[place] = route.id
    claims = {
        each.metadata.name
        for each in seen.claims
        if each.spec.domain == names.DOMAIN and each.spec.owner.startswith(f"{seen.namespace}/")
    }
    wanted = {f"{protocol.lower()}-{port}" for protocol, port in used}
    if unclaimed := wanted - claims:
        yield f"ports in use that nobody claims: {unclaimed}"
    if settled and (left := claims - wanted - _held_ports(seen.sessions)):
        yield f"ports left over: {left}"


def _held_ports(sessions: Sequence[Session]) -> set[str]:
    """Of clients that recover: no route leads there now, but the port stays theirs."""
    return {
        f"{url[:3]}-{url.rpartition(':')[2]}"
        for session in sessions
        for record in session.status.clients.values()
        for endpoints in record.endpoints.values()
        for url in endpoints.values()
        if url.startswith(("udp:", "tcp:"))
    }


def _leftovers(seen: Seen) -> Iterator[str]:
    pods = _by_name(seen.pods)
    leases = _by_name(seen.leases)
    recorded = {
        pod for each in seen.sessions for members in each.status.pods.values() for pod in members
    }
    free = _free_pods(pods, leases)
    if lost := pods.keys() - recorded - free:
        yield f"pods left over: {lost}"
    if stale := leases.keys() - pods.keys():
        yield f"leases left over: {stale}"
    if missing := recorded - pods.keys():
        yield f"recorded, but not there: {missing}"
    for template in seen.templates:
        if not template.metadata.deleting:
            yield from _warm_pods(template, pods, free - leases.keys())


def _by_name(objects: Sequence[T]) -> dict[str, T]:
    return {each.metadata.name: each for each in objects}


def _free_pods(pods: Mapping[str, Pod], leases: Mapping[str, Lease]) -> set[str]:
    """Of a template, and of no session: warm ones, and those that wait for another client."""
    return {
        name
        for name, pod in pods.items()
        if names.TEMPLATE_UID in pod.metadata.labels
        and (
            (name in leases and not leases[name].spec.holder_identity)
            or (name not in leases and names.SESSION not in pod.metadata.labels)
        )
    }


def _warm_pods(
    template: SessionTemplate, pods: Mapping[str, Pod], unused: set[str]
) -> Iterator[str]:
    for part in template.spec.pod_templates:
        revision = made_from(part, template.spec).name
        warm = [
            name
            for name in unused
            if pods[name].metadata.labels[names.REVISION] == revision
            and pods[name].metadata.labels[names.TEMPLATE_UID] == template.metadata.uid
        ]
        if len(warm) != part.warm_pods:
            yield f"{part.name}: {len(warm)} warm pods"
