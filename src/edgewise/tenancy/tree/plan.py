"""The rules of a tree: what each namespace should be, and the next writes towards it.

`plan` is asked again after every round of writes, until it wants none. So it never has to
remember how far it came, and a crash after any write changes nothing: the next one sees what is
there. The order of steps in `_Branch` is the order of writes for one namespace; people come in
when everything else is there. Of a disabled tenant they go before anything else is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from edgewise.api.tenancy import (
    DISABLED,
    STATE,
    State,
    SubNamespaceStatus,
    Tenant,
    TenantResourceQuotaStatus,
    TenantStatus,
)
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.kinds.rbac import RoleBinding
from edgewise.kube.objects import Key
from edgewise.runtime.conditions import Finding
from edgewise.tenancy.names import EARLY, INHERITED, SUSPENDED
from edgewise.tenancy.orders import (
    Correct,
    Create,
    Delete,
    Inherit,
    MoveAmounts,
    Order,
    Say,
    Suspend,
    Sweep,
    Tell,
)
from edgewise.tenancy.quota.gather import tree_quota_of
from edgewise.tenancy.quota.plan import plan_quota
from edgewise.tenancy.quota.quantities import NotAQuantity, texts, total
from edgewise.tenancy.quota.reading import changes_at, ledger_of, overdrawn, total_of
from edgewise.tenancy.quota.tree_quota import QuotaPlan
from edgewise.tenancy.tree.conditions import (
    CONDITIONS,
    ESTABLISHED,
    conditions_of,
    inherited,
    unheeded_status,
)
from edgewise.tenancy.tree.manifests import (
    binding_of,
    labels_of,
    limits_of,
    namespace_of,
    policy_of,
    subjects_of,
    subtenant_of,
    walls,
)
from edgewise.tenancy.tree.seen import Branch, Tree
from edgewise.tenancy.tree.verdicts import Verdict, claim_says, is_alone, sliceless

T = TypeVar("T")

WARN_BEFORE = 86_400.0
# A foreign namespace in the way is not watched: it is looked for again after this time.
LOOK_AGAIN = 15.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    orders: tuple[Order, ...]
    says: tuple[Say, ...]
    tells: tuple[Tell, ...]
    wake_at: float | None
    quota_settled: bool = False  # whatever is used from now on, nothing follows
    rested: frozenset[str] = frozenset()  # branches of which nothing is wanted, nor will be later


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules of quota say about this tree."""

    plan: QuotaPlan
    short: Mapping[str, str]
    names: tuple[str, ...]


def plan(tree: Tree, now: float) -> Plan:
    return _Planner(tree, now).plan()


class _Planner:
    def __init__(self, tree: Tree, now: float) -> None:
        self._tree = tree
        self._now = now
        self._orders: list[Order] = []
        self._says: list[Say] = []
        self._tells: list[Tell] = []
        self._moments: list[float] = []
        self._trouble = ""  # what is wrong with the TenantResourceQuota
        self._money = self._count()
        self._verdicts: dict[str, Verdict] = {}
        self._children: Counter[str] = Counter()

    def plan(self) -> Plan:
        # Amounts move through the whole tree: with quota every branch counts.
        rested = self._tree.rested if self._tree.quota is None else frozenset()
        branches = [each for each in self._tree.branches.values() if each.name not in rested]
        quiet = [each for each in branches if self._is_quiet(each)]
        left: list[Namespace | Tenant] = [*self._tree.orphans, *self._tree.lost_tenants]
        for orphan in left:
            if not orphan.metadata.deleting:
                self._orders.append(Sweep(orphan))
        # How things stand is said when there is nothing left to do.
        found: set[str] = set()
        if not self._orders:
            self._children = Counter(each.parent for each in self._tree.branches.values())
            for branch in branches:
                self._report(branch)
            self._report_quota()
            if self._tree.quota is None and not self._orders:
                changing = {say.about.key for say in self._says if say.about.status != say.status}
                found = {each.name for each in quiet if not _said(each) & changing}
        return Plan(
            orders=tuple(self._orders),
            says=tuple(self._says),
            tells=tuple(self._tells),
            wake_at=min(self._moments, default=None),
            quota_settled=self._money is not None and self._money.plan.settled,
            rested=rested | found,
        )

    def _is_quiet(self, branch: Branch) -> bool:
        """Whether it is as it should be, and no moment will change that."""
        moments = len(self._moments)
        verdict = self._verdicts[branch.name] = self._branch(branch)
        at_rest = branch.enabled and verdict == Verdict() and moments == len(self._moments)
        # Whether its copies are as their originals is found out later.
        return at_rest and not branch.follows

    # Quota --------------------------------------------------------------------------

    def _count(self) -> Money | None:
        quota = self._tree.quota
        if quota is None:
            return None
        if self._tree.refused:
            self._trouble = self._tree.refused
            return None
        try:
            amounts = total_of(quota, self._now)
            self._trouble = overdrawn(quota, self._now)
        except NotAQuantity as error:
            # Nothing moves until it can be read: what was held before is held on.
            self._trouble = str(error)
            return None
        if not amounts:
            # Nothing could ever say that it is enforced.
            self._trouble = "spec.claims: name at least one resource, or delete this quota"
            return None
        self._moments += changes_at(
            (*quota.spec.claims.values(), *quota.spec.drops.values()), self._now
        )
        seen, wrong = tree_quota_of(self._tree, amounts)
        decided = plan_quota(seen)
        for write in decided.writes:
            found = self._tree.branches.get(write.namespace)
            self._orders.append(MoveAmounts(write, found.quota if found else None))
        return Money(plan=decided, short={**decided.short, **wrong}, names=tuple(sorted(amounts)))

    # One namespace ------------------------------------------------------------------

    def _branch(self, branch: Branch) -> Verdict:
        steps = [
            self._ended,
            self._stuck,
            self._set_apart,
            self._allowed,
            self._exists,
            self._walls,
            self._limits,
            self._doors,
        ]
        if branch.mine and not branch.enabled:
            # Whatever else is wrong with it, it is closed.
            steps = [self._closed, self._ended, self._stuck, self._exists, self._walls, self._doors]
        for step in steps:
            verdict = step(branch)
            if verdict is not None:
                return verdict
        return Verdict()

    def _closed(self, branch: Branch) -> Verdict | None:
        """The label first: while it is there nobody makes another binding. A step that is refused
        does not keep the next ones from being taken."""
        if _some(branch.namespace).metadata.deleting:
            return None
        steps: dict[str, Callable[[Branch], Verdict | None]] = {
            Namespace.KIND.kind: self._labels,
            RoleBinding.KIND.kind: self._let_in,
            Suspend.__name__: self._emptied,
        }
        for name, step in steps.items():
            if (branch.name, name) not in self._tree.undone:
                verdict = step(branch)
                if verdict is not None and not verdict.done:
                    return verdict
        return None

    def _emptied(self, branch: Branch) -> Verdict | None:
        meta = _some(branch.namespace).metadata
        mark = meta.annotations.get(SUSPENDED)
        # What was emptied before the label was there is looked at again when it is.
        if mark is not None and (mark != EARLY or DISABLED not in meta.labels):
            return None
        self._orders.append(Suspend(_some(branch.namespace), suspended=True))
        return Verdict("Starting", "its role bindings are being emptied", done=False)

    def _ended(self, branch: Branch) -> Verdict | None:
        source = branch.source
        if source is None or source.spec.expires_at is None:
            return None
        end = source.spec.expires_at.timestamp()
        born = _moment(source.metadata.creation_timestamp)
        if end <= born and not branch.mine:
            now = datetime.fromtimestamp(born, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            return Verdict("Expired", f"expiresAt was in the past when this was made, at {now}")
        if end <= self._now:
            self._orders.append(Delete(source))
            return Verdict("Expired", "expiresAt is over", done=False)
        self._moments.append(end)
        if end - self._now <= WARN_BEFORE:
            about = f"this namespace and all in it is deleted at {source.spec.expires_at}"
            self._tells.append(Tell(source, "ExpiresSoon", about, warning=True))
        else:
            self._moments.append(end - WARN_BEFORE)
        return None

    def _stuck(self, branch: Branch) -> Verdict | None:
        """What the API server refuses holds up this namespace, and no other one."""
        why = self._tree.stuck.get(branch.name)
        return Verdict("Refused", why) if why is not None else None

    def _set_apart(self, branch: Branch) -> Verdict | None:
        """It is not made before its nodes are set apart for it."""
        if branch.sliced and not branch.has_slice and not branch.mine:
            return sliceless(branch)
        return None

    def _allowed(self, branch: Branch) -> Verdict | None:
        if branch.source is None:
            return None
        deepest = self._tree.tenant.spec.max_depth
        if len(branch.path) > deepest:
            path = "/".join((*branch.path, branch.source.metadata.name))
            return Verdict("TooDeep", f"{path} lies {len(branch.path)} deep, and {deepest} is most")
        if self._trouble and self._money is None and not branch.mine:
            return Verdict("QuotaUnreadable", self._trouble)
        if self._money is None:
            return None
        above = self._tree.branches.get(branch.parent)
        named = above is not None and above.quota is not None
        if not named or above is None or branch.name not in ledger_of(_some(above.quota)):
            why = self._money.short.get(branch.name, "")
            return Verdict("QuotaShort", why or "the parent's quota is not counted yet")
        return None

    def _exists(self, branch: Branch) -> Verdict | None:
        if branch.foreign:
            self._moments.append(self._now + LOOK_AGAIN)
            return Verdict(
                "Collision",
                f"a namespace {branch.name} is there already and is not this tenant's",
            )
        above = self._tree.branches.get(branch.parent)
        if branch.source is not None and (above is None or not above.ready):
            return Verdict("ParentNotReady", f"the namespace {branch.parent} is not ready")
        return self._made(branch)

    def _made(self, branch: Branch) -> Verdict | None:
        if branch.tenant is None:
            source = _some(branch.source)
            owner = _some(source.spec.subtenant).owner
            self._orders.append(Create(subtenant_of(branch.name, source, owner)))
            return Verdict("Starting", "the tenant is being made", done=False)
        if branch.namespace is None:
            self._orders.append(Create(namespace_of(branch, branch.tenant, self._tree.around)))
            return Verdict("Starting", "the namespace is being made", done=False)
        if branch.strange:
            self._moments.append(self._now + LOOK_AGAIN)
            return Verdict(
                "Collision",
                f"the namespace {branch.name} belongs to an earlier tenant or subnamespace, "
                "and is being deleted",
            )
        if branch.namespace.metadata.deleting:
            return Verdict("Terminating", f"the namespace {branch.name} is being deleted")
        return self._labels(branch)

    def _labels(self, branch: Branch) -> Verdict | None:
        tenant = _some(branch.tenant)
        meta = _some(branch.namespace).metadata
        wanted: dict[str, str | None] = {**labels_of(branch, tenant, self._tree.around)}
        if SUSPENDED in meta.annotations and DISABLED in meta.labels:
            # It opens when everybody's rights are back.
            wanted[DISABLED] = "true"
        for label in meta.labels:
            if label not in wanted and _ours(label):
                wanted[label] = None
        if all(meta.labels.get(name) == value for name, value in wanted.items()):
            return None
        self._orders.append(Correct(_some(branch.namespace), {"metadata": {"labels": wanted}}))
        return Verdict("Starting", "its labels are being set", done=False)

    def _walls(self, branch: Branch) -> Verdict | None:
        around, tenant = self._tree.around, _some(branch.tenant)
        if branch.policy is None:
            self._orders.append(Create(policy_of(branch, tenant, around)))
        elif branch.policy.spec != (
            wanted := walls(tenant.metadata.uid, around.parameters, around.doors)
        ):
            spec = msgspec.to_builtins(wanted)
            self._orders.append(Correct(branch.policy, {"spec": spec}))
        else:
            return None
        # It needs no order towards the quota, and both come before people do.
        self._limits(branch)
        return Verdict("Starting", "its network policy is being made", done=False)

    def _limits(self, branch: Branch) -> Verdict | None:
        if self._money is None:
            if self._tree.quota is None:
                leftovers = [each for each in (branch.quota, branch.limits) if each is not None]
                self._orders += [Delete(each) for each in leftovers]
            elif branch.quota is None:
                # It is to have a quota, and has none: nobody comes in without.
                return Verdict("QuotaUnreadable", self._trouble)
            return None
        wanted = limits_of(branch, self._money.names)
        if branch.limits is None:
            self._orders.append(Create(wanted))
        elif branch.limits.spec != wanted.spec:
            spec = msgspec.to_builtins(wanted.spec)
            self._orders.append(Correct(branch.limits, {"spec": spec}))
        if branch.name not in self._money.plan.live:
            return Verdict("Starting", "its quota is not enforced yet", done=False)
        return None

    def _doors(self, branch: Branch) -> Verdict | None:
        namespace = _some(branch.namespace)
        suspended = SUSPENDED in namespace.metadata.annotations
        if branch.enabled and suspended:
            self._orders.append(Suspend(namespace, suspended=False))
            return Verdict("Starting", "its role bindings are being restored", done=False)
        return self._let_in(branch) or self._heirlooms(branch)

    def _let_in(self, branch: Branch) -> Verdict | None:
        """The operator and, unless they are disabled, its owners."""
        if branch.binding is None and branch.sliced and not is_alone(branch):
            # Its pods may choose what they run in: nobody else's are beside them.
            return Verdict("SliceNotReady", claim_says(branch) or "its nodes are being emptied")
        if branch.binding is None:
            self._orders.append(Create(binding_of(branch, self._tree.around)))
            return Verdict("Starting", "its owners are being let in", done=False)
        subjects = subjects_of(branch, self._tree.around)
        if branch.binding.subjects != subjects:
            written = msgspec.to_builtins(subjects)
            self._orders.append(Correct(branch.binding, {"subjects": written}))
            return Verdict("Starting", "its owners are being let in", done=False)
        return None

    def _heirlooms(self, branch: Branch) -> Verdict | None:
        space = branch.source.spec.workspace if branch.source is not None else None
        if space is None or not space.inherit or space.sync != "Once" or not branch.enabled:
            return self._nodes(branch)
        mark = ",".join(sorted(space.inherit))
        namespace = _some(branch.namespace)
        if namespace.metadata.annotations.get(INHERITED) == mark:
            return self._nodes(branch)
        self._orders.append(Inherit(namespace, branch.parent, tuple(space.inherit), mark))
        return Verdict("Starting", "objects of the parent are being copied", done=False)

    def _nodes(self, branch: Branch) -> Verdict | None:
        """It is there, whatever became of its slice: its pods wait for nodes then."""
        return sliceless(branch) if branch.sliced and not branch.has_slice else None

    # What people are told -----------------------------------------------------------

    def _report(self, branch: Branch) -> None:
        verdict = self._verdicts[branch.name]
        if not verdict.done:
            return
        state = self._state(branch, verdict)
        if branch.source is not None:
            self._says.append(Say(branch.source, self._subnamespace(branch, state, verdict)))
        if branch.is_core and branch.tenant is not None:
            status = TenantStatus(
                observed_generation=branch.tenant.metadata.generation,
                state=state,
                namespace=branch.name if branch.ready else "",
                conditions=conditions_of(branch.tenant, verdict, state, self._now),
            )
            self._says.append(Say(branch.tenant, status))
        if branch.ready and (branch.name, Namespace.KIND.kind) not in self._tree.undone:
            namespace = _some(branch.namespace)
            if namespace.metadata.annotations.get(STATE) != state:
                patch = {"metadata": {"annotations": {STATE: state}}}
                self._orders.append(Correct(namespace, patch))

    def _state(self, branch: Branch, verdict: Verdict) -> str:
        if verdict.reason:
            return f"{State.FAILED}/{verdict.reason}"
        return State.ESTABLISHED.value if branch.enabled else State.DISABLED.value

    def _subnamespace(self, branch: Branch, state: str, verdict: Verdict) -> SubNamespaceStatus:
        source = _some(branch.source)
        above = self._tree.branches.get(branch.parent)
        entry: dict[str, str] = {}
        if self._money is not None and above is not None and above.quota is not None:
            entry = texts(ledger_of(above.quota).get(branch.name, {}))
            if not verdict.reason and branch.name in self._money.short:
                verdict = Verdict("QuotaShort", self._money.short[branch.name])
                state = f"{State.FAILED}/{verdict.reason}"
        return SubNamespaceStatus(
            observed_generation=source.metadata.generation,
            state=state,
            mode="Subtenant" if source.spec.subtenant is not None else "Workspace",
            child=branch.name if branch.ready else "",
            children=self._children[branch.name],
            granted=entry,
            conditions=conditions_of(
                source, verdict, state, self._now, inherited(branch, self._tree.uncopied)
            ),
        )

    def _report_quota(self) -> None:
        for unheeded in self._tree.unheeded:
            source = _some(self._tree.branches[unheeded.metadata.name].source)
            self._says.append(Say(unheeded, unheeded_status(unheeded, source, self._now)))
        quota = self._tree.quota
        if quota is None:
            return
        finding = Finding(ESTABLISHED, True, "Counted")
        if self._trouble:
            finding = Finding(ESTABLISHED, False, "QuotaUnreadable", self._trouble)
        held: dict[str, str] = {}
        granted: dict[str, str] = {}
        over: tuple[str, ...] = ()
        core = self._tree.branches.get(self._tree.tenant.metadata.name)
        if self._money is not None:
            names = self._money.names
            held = texts(total_of(quota, self._now))
            over = self._money.plan.over
            if core is not None and core.quota is not None:
                granted = texts(total(ledger_of(core.quota).values(), names))
        status = TenantResourceQuotaStatus(
            observed_generation=quota.metadata.generation,
            total=held,
            granted=granted,
            over=list(over),
            conditions=CONDITIONS.report(
                quota.status.conditions,
                [finding],
                generation=quota.metadata.generation,
                now=self._now,
            ),
        )
        self._says.append(Say(quota, status))


def _said(branch: Branch) -> set[Key]:
    """The objects whose statuses tell how a branch stands."""
    return {each.key for each in (branch.source, branch.tenant) if each is not None}


def _ours(label: str) -> bool:
    """Labels that only we set, and take away."""
    prefix = label.partition("/")[0]
    return prefix.endswith(".tenant.edgewise.dev") or label.startswith("tenancy.edgewise.dev/")


def _moment(written: str | None) -> float:
    return datetime.fromisoformat(written).timestamp() if written else 0.0


def _some(found: T | None) -> T:
    if found is None:
        raise ValueError("a step of the plan came before the one that it needs")
    return found
