"""Leases of pooled pods: what each kind of write looks like."""

from __future__ import annotations

from typing import Any

from edgewise.api.sessions import Session
from edgewise.kube.coordination import Lease, LeaseSpec
from edgewise.kube.core import Pod
from edgewise.kube.objects import ObjectMeta, OwnerReference
from edgewise.runtime.conditions import microtimestamp
from edgewise.sessions import names
from edgewise.sessions.observed import ClaimSeen, PodSeen


def new_lease(pod: PodSeen, namespace: str, template_uid: str) -> Lease:
    """A Lease that nobody holds. It goes with its pod."""
    return Lease(
        api_version=Lease.KIND.api_version,
        kind=Lease.KIND.kind,
        metadata=ObjectMeta(
            name=pod.name,
            namespace=namespace,
            labels={names.TEMPLATE_UID: template_uid},
            annotations={names.POD_UID: pod.uid},
            owner_references=[
                OwnerReference(
                    api_version=Pod.KIND.api_version, kind=Pod.KIND.kind, name=pod.name, uid=pod.uid
                )
            ],
        ),
    )


def held_by(lease: Lease, session: Session, ordinal: int) -> Lease:
    lease.metadata.labels[names.SESSION] = session.metadata.name
    lease.metadata.annotations[names.ORDINAL] = str(ordinal)
    lease.spec = LeaseSpec(holder_identity=session.metadata.uid)
    return lease


def hold_patch(claim: ClaimSeen, session: Session, ordinal: int) -> dict[str, Any]:
    return {
        "metadata": {
            "resourceVersion": claim.version,
            "labels": {names.SESSION: session.metadata.name},
            "annotations": {names.ORDINAL: str(ordinal)},
        },
        "spec": {
            "holderIdentity": session.metadata.uid,
            "renewTime": None,
            "leaseDurationSeconds": None,
        },
    }


def waiting_spec(now: float, seconds: int) -> LeaseSpec:
    """Free, until somebody takes it or the time is up."""
    return LeaseSpec(renew_time=microtimestamp(now), lease_duration_seconds=max(1, seconds))


def change_patch(
    claim: ClaimSeen,
    *,
    holder: str | None,
    now: float | None = None,
    seconds: int = 0,
    annotations: dict[str, str | None] | None = None,
) -> dict[str, Any]:
    """From whatever it was to another holder or to none, if nobody was faster."""
    return {
        "metadata": {
            "resourceVersion": claim.version,
            "labels": {names.SESSION: None},
            "annotations": {names.ORDINAL: None, **(annotations or {})},
        },
        "spec": {
            "holderIdentity": holder,
            "renewTime": microtimestamp(now) if now is not None else None,
            "leaseDurationSeconds": max(1, seconds) if now is not None else None,
        },
    }


def known(claim: ClaimSeen, namespace: str) -> Lease:
    """Names the Lease for a write, in the version that was seen."""
    return Lease(
        metadata=ObjectMeta(
            name=claim.pod, namespace=namespace, uid=claim.uid, resource_version=claim.version
        )
    )
