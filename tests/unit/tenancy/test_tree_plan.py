"""The rules of a tree, as a table of sentences: what is there, and what the plan wants next."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from edgewise.api.tenancy import (
    DISABLED,
    OWNER_UID,
    PARENT,
    STATE,
    TENANT_UID,
    Share,
    Subject,
    SubNamespace,
    SubNamespaceSpec,
    Subtenant,
    Tenant,
    TenantResourceQuota,
    TenantResourceQuotaSpec,
    TenantSpec,
    Workspace,
)
from edgewise.kube.kinds.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from edgewise.kube.kinds.rbac import RbacSubject
from edgewise.kube.objects import ObjectMeta
from edgewise.tenancy.names import LEDGER, SUSPENDED
from edgewise.tenancy.orders import Correct, Create, Delete, MoveAmounts, Suspend, Sweep
from edgewise.tenancy.quota.quantities import NANO
from edgewise.tenancy.quota.tree_quota import SetHard
from edgewise.tenancy.surroundings import Surroundings
from edgewise.tenancy.tree.manifests import binding_of, limits_of, namespace_of, policy_of
from edgewise.tenancy.tree.plan import Plan, plan
from edgewise.tenancy.tree.seen import Branch, Tree

NOW = 1_800_000_000.0
BORN = "2026-01-01T00:00:00Z"
AROUND = Surroundings(cluster_uid="cluster", operator=RbacSubject(kind="User", name="operator"))
ALICE = Subject(kind="User", name="alice")
change = msgspec.structs.replace


def tenant(name: str = "acme", **spec: Any) -> Tenant:
    made = Tenant.named(name, spec=TenantSpec(owners=[ALICE], **spec))
    made.metadata.uid, made.metadata.creation_timestamp = f"uid-{name}", BORN
    return made


def source(name: str = "team", namespace: str = "acme", **spec: Any) -> SubNamespace:
    if "subtenant" not in spec:
        spec.setdefault("workspace", Workspace(inherit=["RBAC"]))
    made = SubNamespace.named(name, namespace, spec=SubNamespaceSpec(**spec))
    made.metadata.uid, made.metadata.creation_timestamp = f"uid-{name}", BORN
    return made


def core(of: Tenant | None = None, **fields: Any) -> Branch:
    found = of or tenant()
    return Branch(name=found.metadata.name, path=(), tenant=found, people=(ALICE,), **fields)


def child(of: SubNamespace | None = None, name: str = "team-x", **fields: Any) -> Branch:
    fields.setdefault("tenant", tenant())
    return Branch(name=name, path=("acme",), source=of or source(), people=(ALICE,), **fields)


def made(branch: Branch, *parts: str) -> Branch:
    """With what the operator makes, as far as it is named."""
    if branch.tenant is None:
        return branch
    found = {
        "namespace": lambda: namespace_of(branch, branch.tenant, AROUND),
        "policy": lambda: policy_of(branch, branch.tenant, AROUND),
        "binding": lambda: binding_of(branch, AROUND),
        "limits": lambda: limits_of(branch, ["pods"]),
    }
    return change(branch, **{part: found[part]() for part in parts})


def whole(branch: Branch) -> Branch:
    return made(branch, "namespace", "policy", "binding")


def tree(*branches: Branch, **fields: Any) -> Tree:
    root = branches[0].tenant
    assert root is not None
    return Tree(
        tenant=root, branches={each.name: each for each in branches}, around=AROUND, **fields
    )


def wants(found: Plan) -> list[str]:
    """The orders in words."""

    def word(order: Any) -> str:
        match order:
            case Create(made=each):
                return f"create {each.KIND.kind} {each.key}"
            case Correct(found=each) | Delete(found=each) | Sweep(found=each):
                return f"{type(order).__name__.lower()} {each.KIND.kind} {each.key}"
            case MoveAmounts(write=write):
                return f"{type(write).__name__} {write.namespace}"
            case Suspend(namespace=each, suspended=so):
                return f"{'empty' if so else 'fill'} bindings of {each.key}"
        return type(order).__name__

    return sorted(word(order) for order in found.orders)


def states(found: Plan) -> dict[str, str]:
    return {
        str(say.about.key): say.status.state for say in found.says if hasattr(say.status, "state")
    }


def quota(namespace: str, ledger: str = "{}", hard: str = "5", used: str = "0") -> ResourceQuota:
    return ResourceQuota(
        metadata=ObjectMeta(name="tenancy", namespace=namespace, annotations={LEDGER: ledger}),
        spec=ResourceQuotaSpec(hard={"pods": hard}),
        status=ResourceQuotaStatus(hard={"pods": hard}, used={"pods": used}),
    )


TOTAL = TenantResourceQuota.named(
    "acme", spec=TenantResourceQuotaSpec(claims={"all": Share(resources={"pods": 5})})
)
NOTHING = TenantResourceQuota.named("acme", spec=TenantResourceQuotaSpec())
DISABLED_TENANT = tenant(enabled=False)
OFF = core(DISABLED_TENANT, enabled=False)
SUB = source("shop", subtenant=Subtenant(owner=ALICE))
OTHER = change(
    namespace_of(child(), tenant(), AROUND),
    metadata=ObjectMeta(
        name="old", labels={TENANT_UID: "uid-acme", PARENT: "acme", OWNER_UID: "gone"}
    ),
)
# As far as it may come without its quota, and its state is written on it.
UNREADABLE = made(core(), "namespace", "policy")
assert UNREADABLE.namespace is not None
UNREADABLE.namespace.metadata.annotations[STATE] = "Failed/QuotaUnreadable"
CLOSED = whole(OFF)
assert CLOSED.namespace is not None
CLOSED.namespace.metadata.annotations |= {SUSPENDED: "true", STATE: "Disabled"}
TOO_DEEP = change(whole(child()), enabled=False, barred=True)
assert TOO_DEEP.namespace is not None
TOO_DEEP.namespace.metadata.annotations[STATE] = "Failed/TooDeep"
LEDGER_OF_TEAM = '{"team-x":{"pods":"2"}}'

STEPS = {
    "a new tenant gets its namespace first": (tree(core()), ["create Namespace acme"]),
    "then its walls": (
        tree(made(core(), "namespace")),
        ["create NetworkPolicy acme/tenancy"],
    ),
    "its owners come in last": (
        tree(made(core(), "namespace", "policy")),
        ["create RoleBinding acme/tenancy"],
    ),
    "a tenant that is as it should be wants nothing": (tree(whole(core())), []),
    "a foreign namespace is left alone": (tree(core(foreign=True)), []),
    "a child waits for its parent": (tree(core(foreign=True), child()), []),
    "a child gets a namespace when its parent has one": (
        tree(whole(core()), child()),
        ["create Namespace team-x"],
    ),
    "a subtenant is a Tenant first": (
        tree(whole(core()), child(SUB, "shop-x", tenant=None)),
        ["create Tenant shop-x"],
    ),
    "a namespace that nothing asks for is swept": (
        tree(whole(core()), orphans=(OTHER,)),
        ["sweep Namespace old"],
    ),
    "a child too deep is not made": (tree(whole(core(tenant(max_depth=0))), child()), []),
    "a disabled tenant is closed by a label before anything else": (
        tree(change(whole(core()), tenant=DISABLED_TENANT, enabled=False)),
        ["correct Namespace acme"],
    ),
    "a child that has become too deep is closed with its tenant": (
        tree(
            change(CLOSED, tenant=tenant(max_depth=0, enabled=False)),
            TOO_DEEP,
        ),
        ["correct Namespace team-x"],
    ),
    "a tenant whose quota cannot be read is emptied all the same": (
        tree(whole(OFF), quota=TOTAL, refused="no such resource"),
        ["empty bindings of acme"],
    ),
    "then its bindings are emptied": (tree(whole(OFF)), ["empty bindings of acme"]),
    "with quota the namespace comes before the account": (
        tree(core(), quota=TOTAL),
        ["create Namespace acme"],
    ),
    "walls, limits and account come together": (
        tree(made(core(), "namespace"), quota=TOTAL),
        ["NewAccount acme", "create LimitRange acme/tenancy", "create NetworkPolicy acme/tenancy"],
    ),
    "nobody comes in before the quota is enforced": (
        tree(made(core(), "namespace", "policy", "limits"), quota=TOTAL),
        ["NewAccount acme"],
    ),
    "a child is named by the ledger before it exists": (
        tree(
            change(whole(made(core(), "limits")), quota=quota("acme")),
            child(source(resources={"pods": 2})),
            quota=TOTAL,
        ),
        ["SetHard acme"],
    ),
    "a child that the ledger names gets its namespace": (
        tree(
            change(whole(made(core(), "limits")), quota=quota("acme", LEDGER_OF_TEAM, "3")),
            child(source(resources={"pods": 2})),
            quota=TOTAL,
        ),
        ["create Namespace team-x"],
    ),
    "without a TenantResourceQuota the accounts go": (
        tree(change(whole(core()), quota=quota("acme"))),
        ["delete ResourceQuota acme/tenancy"],
    ),
}


@pytest.mark.parametrize("sentence", STEPS)
def test_the_next_writes(sentence: str) -> None:
    seen, wanted = STEPS[sentence]
    assert wants(plan(seen, NOW)) == wanted


def test_half_a_pod_for_one_child_holds_up_no_other() -> None:
    """The API server takes no such quota, of the child nor of the parent: neither is written."""
    parent = change(whole(made(core(), "limits")), quota=quota("acme"))
    half = child(source("half", resources={"pods": "500m"}), "half-x")
    good = child(source("good", resources={"pods": 2}), "good-x")
    (move,) = [
        each
        for each in plan(tree(parent, half, good, quota=TOTAL), NOW).orders
        if isinstance(each, MoveAmounts)
    ]
    assert isinstance(move.write, SetHard)
    assert all(amount % NANO == 0 for amount in move.write.hard.values())
    assert move.write.hard["pods"] == 3 * NANO


STATES = {
    "a tenant that is there is established": (tree(whole(core())), {"acme": "Established"}),
    "a foreign namespace is a collision": (tree(core(foreign=True)), {"acme": "Failed/Collision"}),
    "more than is free is short": (
        tree(
            change(whole(made(core(), "limits")), quota=quota("acme", used="4")),
            child(source(resources={"pods": 2})),
            quota=TOTAL,
        ),
        {"acme": "Established", "acme/team": "Failed/QuotaShort"},
    ),
    "what the parent has no quota of is short": (
        tree(
            change(whole(made(core(), "limits")), quota=quota("acme")),
            child(source(resources={"cpu": 1})),
            quota=TOTAL,
        ),
        {"acme": "Established", "acme/team": "Failed/QuotaShort"},
    ),
    "what is no quantity is never granted": (
        tree(
            change(whole(made(core(), "limits")), quota=quota("acme")),
            child(source(resources={"pods": "many"})),
            quota=TOTAL,
        ),
        {"acme": "Established", "acme/team": "Failed/QuotaShort"},
    ),
    "half a pod is never granted": (
        tree(
            change(whole(made(core(), "limits")), quota=quota("acme")),
            child(source(resources={"pods": "500m"})),
            quota=TOTAL,
        ),
        {"acme": "Established", "acme/team": "Failed/QuotaShort"},
    ),
    "nobody comes in without a quota that the API server does not take": (
        tree(UNREADABLE, quota=TOTAL, refused="no such resource"),
        {"acme": "Failed/QuotaUnreadable"},
    ),
    "a quota that names nothing is said to, and nobody comes in without another": (
        tree(UNREADABLE, quota=NOTHING),
        {"acme": "Failed/QuotaUnreadable"},
    ),
    "what was held before a quota that cannot be read is held on": (
        tree(change(whole(core()), quota=quota("acme")), quota=TOTAL, refused="no such resource"),
        {"acme": "Established"},
    ),
    "too deep": (
        tree(whole(core(tenant(max_depth=0))), child(barred=True)),
        {"acme": "Established", "acme/team": "Failed/TooDeep"},
    ),
}


@pytest.mark.parametrize("sentence", STATES)
def test_how_things_stand(sentence: str) -> None:
    seen, wanted = STATES[sentence]
    found = plan(seen, NOW)
    assert not found.orders
    assert states(found) == wanted


def test_a_disabled_tenant_opens_only_when_all_its_bindings_are_filled() -> None:
    closed = whole(OFF)
    assert closed.namespace is not None
    closed.namespace.metadata.annotations[SUSPENDED] = "true"
    opened = change(closed, tenant=tenant(), enabled=True)
    found = plan(tree(opened), NOW)
    assert wants(found) == ["fill bindings of acme"]
    assert opened.namespace is not None
    assert opened.namespace.metadata.labels[DISABLED] == "true"


def test_an_expired_subnamespace_is_deleted_and_one_that_expires_wakes_its_tree() -> None:
    def until(seconds: float) -> Plan:
        end = datetime.datetime.fromtimestamp(NOW + seconds, datetime.UTC)
        return plan(tree(whole(core()), whole(child(source(expires_at=end)))), NOW)

    before_it_was_made = datetime.datetime.fromisoformat(BORN).timestamp() - 1
    assert wants(until(before_it_was_made - NOW)) == ["delete SubNamespace acme/team"]
    assert wants(until(-1)) == ["delete SubNamespace acme/team"]
    assert until(100).wake_at == NOW + 100
    assert [tell.reason for tell in until(100).tells] == ["ExpiresSoon"]
    assert until(200_000).wake_at == NOW + 200_000 - 86_400


def test_a_quota_of_a_subtenant_says_that_nothing_follows_from_it() -> None:
    unheeded = TenantResourceQuota.named("shop-x", spec=TOTAL.spec)
    shop = tenant("shop-x")
    found = plan(
        tree(whole(core()), whole(child(SUB, "shop-x", tenant=shop)), unheeded=(unheeded,)), NOW
    )
    said = {say.about.metadata.name: say.status.conditions for say in found.says}["shop-x"]
    assert {each.status for each in said} == {"False"}
    assert "a subtenant's quota is its parent's grant" in said[0].message
    assert "SubNamespace acme/shop" in said[0].message


def test_expiries_of_claims_wake_the_tree() -> None:
    end = datetime.datetime.fromtimestamp(NOW + 50, datetime.UTC)
    claims = {"a": Share(resources={"pods": 5}), "b": Share(resources={"pods": 1}, expires_at=end)}
    spec = TenantResourceQuotaSpec(claims=claims)
    found = plan(tree(core(), quota=TenantResourceQuota.named("acme", spec=spec)), NOW)
    assert found.wake_at == NOW + 50


def test_a_pod_of_another_tenant_that_is_labelled_like_the_gateway_is_none() -> None:
    spec = policy_of(core(), tenant(), AROUND).spec
    chosen = [peer for rule in spec.ingress for peer in rule.peers if peer.pod_selector is not None]
    assert [peer.namespace_selector.match_labels for peer in chosen if peer.namespace_selector] == [
        {"kubernetes.io/metadata.name": AROUND.parameters.gateway_namespace}
    ]
    assert len(chosen) == 1
