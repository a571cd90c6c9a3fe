"""Leases of pooled pods: who has a pod, and how it goes to the next."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.sessions import Session
from edgewise.kube.errors import AlreadyExists, Conflict, NotFound
from edgewise.kube.kinds.coordination import Lease, LeaseSpec
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import ObjectMeta, OwnerReference
from edgewise.runtime.api import Api
from edgewise.runtime.conditions import microtimestamp
from edgewise.sessions import names
from edgewise.sessions.indexes.pod_index import CLEANING, RETIRED
from edgewise.sessions.observed import ClaimSeen
from edgewise.workloads.pods_seen import PodSeen


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a pod, and until when."""

    holder: str | None = None
    session: str | None = None
    ordinal: int | None = None
    restarts: int = 0
    since: float | None = None
    seconds: int = 0


def held_by(session: Session, ordinal: int) -> Holding:
    meta = session.metadata
    return Holding(holder=meta.uid, session=meta.name, ordinal=ordinal)


def free(now: float, seconds: int) -> Holding:
    """Nobody's, until somebody takes it or the time is up."""
    return Holding(since=now, seconds=max(1, seconds))


def cleaning(now: float, seconds: int, restarts: int) -> Holding:
    return Holding(holder=CLEANING, restarts=restarts, since=now, seconds=max(1, seconds))


def retired() -> Holding:
    """Out of everybody's reach: only then may the pod be removed."""
    return Holding(holder=RETIRED)


async def hand_over(
    api: Api,
    namespace: str,
    template_uid: str,
    pod: PodSeen,
    lease: ClaimSeen | None,
    *,
    to: Holding,
) -> bool:
    """False if the Lease is not as it was seen: then somebody else decides about the pod."""
    try:
        if lease is None:
            await api.create(new_lease(pod, namespace, template_uid, to))
        else:
            await api.patch(known(lease, namespace), change_patch(lease, to))
    except (AlreadyExists, Conflict, NotFound):
        return False
    return True


def new_lease(pod: PodSeen, namespace: str, template_uid: str, to: Holding) -> Lease:
    """It goes with its pod."""
    labels = {names.TEMPLATE_UID: template_uid, names.SESSION: to.session}
    annotations = {names.POD_UID: pod.uid, **_annotations(to)}
    return Lease(
        api_version=Lease.KIND.api_version,
        kind=Lease.KIND.kind,
        metadata=ObjectMeta(
            name=pod.name,
            namespace=namespace,
            labels={name: value for name, value in labels.items() if value is not None},
            annotations={name: value for name, value in annotations.items() if value is not None},
            owner_references=[
                OwnerReference(
                    api_version=Pod.KIND.api_version, kind=Pod.KIND.kind, name=pod.name, uid=pod.uid
                )
            ],
        ),
        spec=LeaseSpec(
            holder_identity=to.holder,
            renew_time=_since(to),
            lease_duration_seconds=_seconds(to),
        ),
    )


def change_patch(claim: ClaimSeen, to: Holding) -> dict[str, Any]:
    """What does not belong to the new holding is taken away."""
    return {
        "metadata": {
            "resourceVersion": claim.version,
            "labels": {names.SESSION: to.session},
            "annotations": _annotations(to),
        },
        "spec": {
            "holderIdentity": to.holder,
            "renewTime": _since(to),
            "leaseDurationSeconds": _seconds(to),
        },
    }


def known(claim: ClaimSeen, namespace: str) -> Lease:
    """Names the Lease for a write, in the version that was seen."""
    return Lease(
        metadata=ObjectMeta(
            name=claim.pod, namespace=namespace, uid=claim.uid, resource_version=claim.version
        )
    )


def _annotations(to: Holding) -> dict[str, str | None]:
    return {
        names.ORDINAL: str(to.ordinal) if to.ordinal is not None else None,
        names.RESTARTS: str(to.restarts),
    }


def _since(to: Holding) -> str | None:
    return microtimestamp(to.since) if to.since is not None else None


def _seconds(to: Holding) -> int | None:
    return to.seconds if to.since is not None else None
