"""Who may do what: rules, and the roles that hold them."""

from __future__ import annotations

from typing import ClassVar

from edgewise.kube.objects import Kind, Object, Record

RBAC = "rbac.authorization.k8s.io"


class PolicyRule(Record):
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    verbs: list[str] = []


class ClusterRole(Object):
    KIND: ClassVar = Kind(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)

    # The API server says null where there is none.
    rules: list[PolicyRule] | None = []


class RoleRef(Record):
    kind: str
    name: str
    api_group: str = RBAC


class RbacSubject(Record):
    kind: str
    name: str
    namespace: str = ""
    api_group: str = ""


class Role(Object):
    KIND: ClassVar = Kind(RBAC, "v1", "Role", "roles")

    rules: list[PolicyRule] | None = []


class RoleBinding(Object, kw_only=True):
    KIND: ClassVar = Kind(RBAC, "v1", "RoleBinding", "rolebindings")

    role_ref: RoleRef
    # The API server leaves an empty list out.
    subjects: list[RbacSubject] = []


class ClusterRoleBinding(Object, kw_only=True):
    KIND: ClassVar = Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)

    role_ref: RoleRef
    subjects: list[RbacSubject] = []
