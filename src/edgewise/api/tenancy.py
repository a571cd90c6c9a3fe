"""Tenants: organisations that share a cluster without trusting each other.

A Tenant has a core namespace, and a tree of further ones below it. People who own a tenant never
see the Tenant itself: they work in its namespaces, and make further ones by SubNamespaces. What
other domains may know of tenancy is here: the labels of namespaces, and these types.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from edgewise.api.crd import Column, CrdSpec
from edgewise.api.schema import Rule, as_one, as_set, keyed_by, rules
from edgewise.kube.conditions import Condition
from edgewise.kube.objects import Kind, Object, Record

GROUP = "tenancy.edgewise.dev"
VERSION = "v1alpha1"

# Labels of the namespaces of tenants. They are set when a namespace is made, and kept by policy.
KIND_LABEL = f"{GROUP}/kind"  # core or sub
TENANT = f"{GROUP}/tenant"
TENANT_UID = f"{GROUP}/tenant-uid"
CLUSTER_UID = f"{GROUP}/cluster-uid"  # of kube-system: which cluster the namespace is from
PARENT = f"{GROUP}/parent"  # the namespace above
OWNER_UID = f"{GROUP}/owner-uid"  # of the SubNamespace that asked for it
DISABLED = f"{GROUP}/disabled"  # "true": only Kubernetes and the operator write there
NETWORK = f"{GROUP}/network"  # "open": NetworkPolicies there need not stay within the tenant
OPEN = "open"
# Of a namespace, and of a node: the slice that it is in. It is the key of the node's taint, too.
SLICE = f"{GROUP}/slice"
# Of a namespace whose pods get the runtime class of the cluster, where there is one.
RUNTIME_CLASS = f"{GROUP}/runtime-class"
OF_CLUSTER = "cluster"
# What the operator keeps in a tenant's namespace.
MANAGED = f"{GROUP}/managed"
# Annotations.
STATE = f"{GROUP}/state"
INHERIT = f"{GROUP}/inherit"  # "false" on an object: no child gets a copy

CORE = "core"
SUB = "sub"

# Who gets which rights in a namespace: ClusterRoles of the chart.
OWNER_ROLE = "edgewise:tenant-owner"
ADMIN_ROLE = "edgewise:tenant-admin"
COLLABORATOR_ROLE = "edgewise:tenant-collaborator"
VIEWER_ROLE = "edgewise:tenant-viewer"

DEFAULT_MAX_DEPTH = 8
LONGEST_LOCAL_NAME = 52
LONGEST_FEDERATED_NAME = 15

Quantity = int | str
Text = Annotated[str, Meta(max_length=256)]
Label = Annotated[
    str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
# What people write. The format of a time lets in more than can be read, a comma before the fraction
# of a second and an offset of a day among it: nobody could look after what has such a time in it.
Moment = Annotated[
    datetime,
    Meta(
        extra_json_schema={
            "pattern": r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}"
            r"(\.[0-9]{1,6})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
        }
    ),
]
# Whether each is a quantity is checked by policy: what it costs to check an int-or-string cannot
# be bounded in a schema.
Amounts = Annotated[dict[str, Quantity], Meta(max_length=32)]


RESERVED = "names that begin with kube- or edgewise-, and default, are not for tenants"


def reserved(name: str) -> str:
    """In CEL: whether a name is Kubernetes' own, or ours."""
    return (
        f"{name}.startsWith('kube-') || {name}.startsWith('edgewise-') || "
        f"{name} in ['default', 'edgewise']"
    )


class State(StrEnum):
    """How a Tenant or SubNamespace stands. A failure is `Failed/` and its reason."""

    ESTABLISHED = "Established"
    DISABLED = "Disabled"
    FAILED = "Failed"


class Subject(Record):
    """A person, a group of them, or a program's account."""

    RULES: ClassVar = (
        Rule(
            "(self.kind == 'ServiceAccount') == has(self.namespace)",
            "namespace belongs to a ServiceAccount, and to nothing else: owners are of kind User, "
            "Group, or ServiceAccount with a namespace",
        ),
        Rule(
            "!self.name.startsWith('system:')",
            "names that begin with system: are Kubernetes' own",
            field_path=".name",
        ),
    )

    kind: Literal["User", "Group", "ServiceAccount"]
    name: Annotated[str, Meta(min_length=1, max_length=253)]
    namespace: Label | None = None
    """Of a ServiceAccount."""


class Address(Record):
    street: Text = ""
    zip: Text = ""
    city: Text = ""
    region: Text = ""
    country: Text = ""


class Contact(Record):
    first_name: Text = ""
    last_name: Text = ""
    email: Text = ""
    phone: Text = ""


class ParentRef(Record):
    """The SubNamespace that a subtenant was made for."""

    namespace: Label
    name: Label
    uid: Annotated[str, Meta(min_length=1, max_length=64)]


class TenantProfile(Record):
    """What is said of an organisation."""

    full_name: Text = ""
    short_name: Text = ""
    description: Annotated[str, Meta(max_length=1024)] = ""
    url: Annotated[str, Meta(max_length=1024)] = ""
    address: Address | None = None
    contact: Contact | None = None


class TenantSpec(TenantProfile, kw_only=True):
    """An organisation, and who speaks for it."""

    RULES: ClassVar = (
        Rule(
            "has(self.parent) == has(oldSelf.parent) && "
            "(!has(self.parent) || self.parent == oldSelf.parent)",
            "parent is immutable: a tenant stays where it is in the tree",
            field_path=".parent",
        ),
        Rule(
            "!has(oldSelf.parent) || self.owners == oldSelf.owners",
            "the owners of a subtenant are immutable: make a new one",
            field_path=".owners",
        ),
    )

    owners: Annotated[list[Subject], as_one(), Meta(min_length=1, max_length=32)]
    """Who gets the rights of an owner in every namespace of the tenant."""
    cluster_network_policy: bool = True
    """Whether every NetworkPolicy of the tenant must stay within the tenant."""
    enabled: bool = True
    """false: the tenant's people and accounts lose their rights until it is true again; nothing
    is deleted, and pods run on."""
    max_depth: Annotated[int, Meta(ge=0, le=32)] = DEFAULT_MAX_DEPTH
    """How many namespaces may lie below each other under the core namespace."""
    parent: ParentRef | None = None
    """Set by the operator, for subtenants only."""


class TenantStatus(Record):
    observed_generation: int = 0
    state: str = ""
    """Established, Disabled, or Failed/ and a reason."""
    namespace: str = ""
    """The core namespace."""
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class Tenant(Object, kw_only=True):
    """An organisation that uses a part of the cluster."""

    KIND: ClassVar = Kind(GROUP, VERSION, "Tenant", "tenants", namespaced=False)
    CRD: ClassVar = CrdSpec(
        short_names=("tn",),
        columns=(
            Column("Owner", ".spec.owners[0].name"),
            Column("State", ".status.state"),
            Column("Namespace", ".status.namespace"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
    RULES: ClassVar = (
        Rule(
            "!has(self.metadata) || size(self.metadata.name) <= 63 && "
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name becomes the name of a namespace: at most 63 small letters, digits and "
            "dashes",
        ),
        Rule(
            f"!has(self.metadata) || !({reserved('self.metadata.name')})",
            f"metadata.name is reserved: {RESERVED}",
        ),
    )

    spec: TenantSpec
    status: TenantStatus = msgspec.field(default_factory=TenantStatus)


# The tree -------------------------------------------------------------------------------

Inherited = Literal["RBAC", "NetworkPolicy", "LimitRange", "Secret", "ConfigMap", "ServiceAccount"]


class Workspace(Record):
    """A namespace of the same tenant."""

    RULES: ClassVar = (
        Rule(
            "has(self.owner) || (has(self.inherit) && 'RBAC' in self.inherit)",
            "owner is needed where RBAC is not inherited: without, nobody could get in",
            field_path=".owner",
        ),
    )

    inherit: Annotated[list[Inherited], as_set(), Meta(max_length=6)] = []
    """The kinds of objects that are copied from the parent."""
    sync: Literal["Once", "Continuous"] = "Once"
    """Once: copied when the namespace is made. Continuous: kept as in the parent."""
    owner: Subject | None = None
    """Who gets the rights of an owner there, beside those of the tenant."""


class Subtenant(Record):
    """A tenant of its own, below this one: the parent sees nothing inside, and may end it."""

    owner: Subject


class SubNamespaceSpec(Record):
    """A namespace below the one that this object is in."""

    RULES: ClassVar = (
        Rule(
            "has(self.workspace) != has(self.subtenant)",
            "choose either workspace (a namespace of this tenant) or subtenant (a tenant of its "
            "own), not both",
        ),
        Rule(
            "has(self.workspace) == has(oldSelf.workspace)",
            "the mode is immutable: delete this one and make a new one",
            field_path=".workspace",
        ),
        Rule(
            "!has(self.subtenant) || !has(oldSelf.subtenant) || self.subtenant == "
            "oldSelf.subtenant",
            "the owner of a subtenant is immutable: delete this one and make a new one",
            field_path=".subtenant",
        ),
        Rule(
            "self.scope == oldSelf.scope",
            "scope is immutable, because the name of the namespace follows from it: make a new one",
            field_path=".scope",
        ),
        Rule(
            "has(self.sliceClaim) == has(oldSelf.sliceClaim) && (!has(self.sliceClaim) || "
            "self.sliceClaim == oldSelf.sliceClaim)",
            "sliceClaim is immutable: delete this one and make a new one",
            field_path=".sliceClaim",
        ),
    )

    workspace: Workspace | None = None
    subtenant: Subtenant | None = None
    scope: Literal["Local", "Federated"] = "Local"
    """Federated: the name of the namespace is one that no other cluster makes."""
    resources: Amounts = {}
    """What the child gets of the parent's quota; a name that is left out is 0. With sliceClaim,
    and no resources at all, it is what the nodes of the slice have."""
    slice_claim: Label | None = None
    """A SliceClaim in this namespace: the child's pods run on the nodes of its slice alone."""
    expires_at: Moment | None = None
    """When the child is deleted."""
    labels: Annotated[
        dict[str, Annotated[str, Meta(max_length=63)]],
        Meta(max_length=16),
        rules(
            Rule(
                "self.all(name, name.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') "
                "&& self[name].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))",
                "labels have a name without a prefix, and a value, as Kubernetes allows them",
            )
        ),
    ] = {}
    """Labels of the child; each gets the prefix `<name>.tenant.edgewise.dev/`."""
    deletion: Literal["Refuse", "Cascade"] = "Refuse"
    """Whether this object may be deleted while its child has children itself."""


class SubNamespaceStatus(Record):
    observed_generation: int = 0
    state: str = ""
    """Established, Disabled, or Failed/ and a reason."""
    mode: str = ""
    """Workspace or Subtenant."""
    child: str = ""
    """The namespace."""
    children: int | None = None
    """How many namespaces lie directly below the child."""
    granted: dict[str, str] = {}
    """What the child holds of the parent's quota."""
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class SubNamespace(Object, kw_only=True):
    """A namespace below this one: for the same tenant, or for a tenant of its own."""

    KIND: ClassVar = Kind(GROUP, VERSION, "SubNamespace", "subnamespaces")
    CRD: ClassVar = CrdSpec(
        short_names=("subns",),
        columns=(
            Column("Mode", ".status.mode"),
            Column("Child", ".status.child"),
            Column("State", ".status.state"),
            Column("Expires", ".spec.expiresAt", "date"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
    RULES: ClassVar = (
        Rule(
            "!has(self.metadata) || self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name becomes a part of the namespace's name: small letters, digits, dashes",
        ),
        # What was stored before keeps being deletable: deletion does not ask.
        Rule(
            f"!has(self.metadata) || self.spec.scope == 'Federated' || "
            f"size(self.metadata.name) <= {LONGEST_LOCAL_NAME}",
            f"metadata.name has more than {LONGEST_LOCAL_NAME} characters, the longest allowed",
        ),
        Rule(
            f"!has(self.metadata) || self.spec.scope != 'Federated' || "
            f"size(self.metadata.name) <= {LONGEST_FEDERATED_NAME}",
            f"metadata.name has more than {LONGEST_FEDERATED_NAME} characters, the longest "
            "allowed with scope Federated",
        ),
    )

    spec: SubNamespaceSpec
    status: SubNamespaceStatus = msgspec.field(default_factory=SubNamespaceStatus)


# Quota ----------------------------------------------------------------------------------


class Share(Record):
    """Some resources, for ever or until a moment."""

    resources: Amounts
    expires_at: Moment | None = None


Shares = Annotated[dict[str, Share], Meta(max_length=64)]


class TenantResourceQuotaSpec(Record):
    """What a tenant may use, in all namespaces of its tree together: claims less drops."""

    claims: Shares = {}
    """By a name of your choice: what the tenant gets."""
    drops: Shares = {}
    """By a name of your choice: what is taken off again."""


class TenantResourceQuotaStatus(Record):
    observed_generation: int = 0
    total: dict[str, str] = {}
    """Claims less drops that have not expired."""
    granted: dict[str, str] = {}
    """What of it the namespaces below the core one hold."""
    over: list[str] = []
    """Namespaces that use more than they hold now, because the total fell."""
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class TenantResourceQuota(Object, kw_only=True):
    """The quota of the tenant with the same name."""

    KIND: ClassVar = Kind(
        GROUP, VERSION, "TenantResourceQuota", "tenantresourcequotas", namespaced=False
    )
    CRD: ClassVar = CrdSpec(
        short_names=("trq",),
        columns=(
            Column("CPU", ".status.total.cpu"),
            Column("Memory", ".status.total.memory"),
            Column("Granted", ".status.granted"),
            Column("Over", ".status.over"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    spec: TenantResourceQuotaSpec
    status: TenantResourceQuotaStatus = msgspec.field(default_factory=TenantResourceQuotaStatus)
