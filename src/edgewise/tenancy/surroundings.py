"""What the rules have to know of the cluster that a tree is in."""

from __future__ import annotations

import msgspec

from edgewise.kube.kinds.rbac import RBAC, RbacSubject
from edgewise.tenancy.parameters import Parameters

_ACCOUNT = "system:serviceaccount:"


class Door(msgspec.Struct, frozen=True):
    """An address inside the cluster that every tenant may reach, such as its DNS."""

    address: str
    port: int
    protocol: str = "TCP"


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    cluster_uid: str
    operator: RbacSubject
    parameters: Parameters = Parameters()
    doors: tuple[Door, ...] = ()


def subject_of(username: str) -> RbacSubject:
    """A user as RBAC names it."""
    if username.startswith(_ACCOUNT):
        namespace, _, name = username.removeprefix(_ACCOUNT).partition(":")
        return RbacSubject(kind="ServiceAccount", name=name, namespace=namespace)
    return RbacSubject(kind="User", name=username, api_group=RBAC)
