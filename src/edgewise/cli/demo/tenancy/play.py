"""The acts, in order. Each shows one promise, and what does not hold ends the demo."""

import asyncio
import time

from edgewise.api.tenancy import (
    COLLABORATOR_ROLE,
    SLICE,
    Share,
    State,
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
from edgewise.api.tenancy_requests import (
    RequestedRole,
    RequestState,
    RoleRequest,
    RoleRequestSpec,
)
from edgewise.api.tenancy_slices import (
    ClaimRef,
    NodeTerm,
    Slice,
    SliceClaim,
    SliceClaimSpec,
    SliceSpec,
    SliceState,
)
from edgewise.cli.demo.play import DemoError
from edgewise.cli.demo.stage import Stage
from edgewise.cli.demo.tenancy.people import People, allowed, established, refused, until
from edgewise.cli.tenant.doctor.packets import arrives, probe, ready
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import ConfigMap, Node, Pod, ResourceQuota
from edgewise.kube.objects import ObjectMeta
from edgewise.local.images.building import PYTHON_IMAGE
from edgewise.tenancy.names import KEPT, child_name
from edgewise.tenancy.quota.quantities import parse
from edgewise.tenancy.requests.names import new_name

ACTS = 7
VENDOR, OTHER = "acme", "zoo"
TEAM, SHOP = child_name(VENDOR, "team"), child_name(VENDOR, "shop")
ALONE = child_name(OTHER, "alone")
SLICE_NAME = f"for-{OTHER}"
GRACE_SECONDS = 1
PODS = 12
# Rules reach the nodes a moment after the pods.
RULES_SECONDS = 15.0


def _user(name: str) -> Subject:
    return Subject(kind="User", name=name)


class Play:
    def __init__(self, stage: Stage, admin: Client, people: People) -> None:
        self._stage = stage
        self._admin = admin
        self._people = people
        self._pods: dict[str, Pod] = {}

    async def run(self) -> None:
        await self.tenants()
        await self.packets()
        await self.quota()
        await self.slice()
        await self.request()
        await self.disabled()

    # Acts -----------------------------------------------------------------------------

    async def tenants(self) -> None:
        self._stage.act("Two tenants; one of them is a vendor, with a team and a customer below")
        began = time.monotonic()
        claim = {"contract": Share(resources={"pods": PODS})}
        await self._admin.create(
            TenantResourceQuota.named(VENDOR, spec=TenantResourceQuotaSpec(claims=claim))
        )
        for name, owner in ((VENDOR, "alice"), (OTHER, "zoe")):
            await self._admin.create(Tenant.named(name, spec=TenantSpec(owners=[_user(owner)])))
        for name in (VENDOR, OTHER):
            await established(self._admin, Tenant, name)
        self._stage.say(f"{VENDOR} and {OTHER} work after {time.monotonic() - began:.1f} s")
        alice = await self._people.who("alice")
        for name, spec in (
            (
                "team",
                SubNamespaceSpec(workspace=Workspace(inherit=["RBAC"]), resources={"pods": 4}),
            ),
            (
                "shop",
                SubNamespaceSpec(subtenant=Subtenant(owner=_user("sam")), resources={"pods": 3}),
            ),
        ):
            await alice.create(SubNamespace.named(name, VENDOR, spec=spec))
        for name in ("team", "shop"):
            await established(alice, SubNamespace, name, VENDOR)
        await refused(lambda: alice.list(Pod, SHOP), "that alice sees into her customer's tenant")
        self._stage.say("alice made both herself; into shop, her customer's, she does not see")

    async def packets(self) -> None:
        self._stage.act("Packets: inside of a tenant they arrive, between tenants they do not")
        wanted = (
            ("core", VENDOR, "alice"),
            ("team", TEAM, "alice"),
            ("shop", SHOP, "sam"),
            ("zoo", OTHER, "zoe"),
        )
        for name, namespace, owner in wanted:
            made, client = probe(name, namespace, PYTHON_IMAGE), await self._people.who(owner)
            await allowed(lambda c=client, p=made: c.create(p), f"a pod in {namespace}")  # type: ignore[misc]
            self._pods[name] = made
        found = await asyncio.gather(
            *(ready(self._admin, each, 60) for each in self._pods.values())
        )
        self._pods = dict(zip(self._pods, found, strict=True))
        await self._cross("core", "team", wanted=["TCP", "UDP"])
        self._stage.say("core → team, two namespaces of one tenant: TCP and UDP arrive")
        for sender, to in (("zoo", "core"), ("core", "zoo"), ("core", "shop"), ("shop", "core")):
            await self._cross(sender, to, wanted=[])
        self._stage.say("core ↔ zoo, core ↔ shop: nothing arrives; a customer is a stranger, too")

    async def _cross(self, sender: str, to: str, *, wanted: list[str]) -> None:
        until = time.monotonic() + RULES_SECONDS
        while True:
            found = await arrives(self._admin, self._pods[sender], self._pods[to])
            if found == wanted:
                return
            if time.monotonic() > until:
                raise DemoError(f"from {sender} to {to} arrives {found}, and not {wanted}")
            await asyncio.sleep(0.1)

    async def quota(self) -> None:
        self._stage.act(f"Quota: {PODS} pods are shared out, overdrawn, and taken back")
        alice = await self._people.who("alice")
        shares = [await self._hard(each) for each in (VENDOR, TEAM, SHOP)]
        if sum(shares) != PODS:
            raise DemoError(f"{shares} pods are shared out, and they are not {PODS}")
        self._stage.say("{} for the vendor, {} for its team, {} for its customer".format(*shares))
        sam = await self._people.who("sam")

        async def another() -> None:
            await sam.create(
                Pod(
                    metadata=ObjectMeta(name=f"more-{time.monotonic_ns()}", namespace=SHOP),
                    spec=probe("more", SHOP, PYTHON_IMAGE).spec,
                )
            )

        said = await refused(another, "more pods than the customer has")
        if "exceeded quota" not in said:
            raise DemoError(f"the customer's pods are refused for another reason: {said}")
        self._stage.say(f"the customer's pod number {shares[2] + 1} is refused: exceeded quota")
        much = SubNamespaceSpec(workspace=Workspace(inherit=["RBAC"]), resources={"pods": 6})
        await alice.create(SubNamespace.named("lab", VENDOR, spec=much))
        short = await until(
            alice,
            SubNamespace,
            "lab",
            VENDOR,
            lambda found: found.status.state == f"{State.FAILED.value}/QuotaShort",
            "that 6 pods are too many for a lab",
        )
        self._stage.say(f"6 for a lab are too many: {short.status.conditions[0].message}")
        await alice.patch(SubNamespace, "team", VENDOR, body={"spec": {"resources": {"pods": 2}}})
        await established(alice, SubNamespace, "lab", VENDOR)
        now = [await self._hard(each) for each in (VENDOR, TEAM, SHOP, child_name(VENDOR, "lab"))]
        if sum(now) != PODS:
            raise DemoError(f"{now} pods are shared out, and they are not {PODS}")
        self._stage.say(
            "alice takes 2 back from her team, and the lab is there: {}+{}+{}+{}".format(*now)
        )

    async def _hard(self, namespace: str) -> int:
        found = await self._admin.get(ResourceQuota, KEPT, namespace)
        return parse(found.status.hard["pods"]) // 10**9

    async def slice(self) -> None:
        self._stage.act(f"A slice: {OTHER} gets a node for itself, and gives it back")
        zoe = await self._people.who("zoe")
        # Where the vendor has a pod, which has to leave.
        node = self._pods["team"].node_name
        claim = SliceClaimSpec(mode="Manual", node_count=1)
        await zoe.create(SliceClaim.named("own", OTHER, spec=claim))
        there = NodeTerm(match_labels={"kubernetes.io/hostname": node})
        await self._admin.create(
            Slice.named(
                SLICE_NAME,
                spec=SliceSpec(
                    selector=[there],
                    node_count=1,
                    claim_ref=ClaimRef(namespace=OTHER, name="own"),
                    grace_seconds=GRACE_SECONDS,
                ),
            )
        )
        began = time.monotonic()
        spec = SubNamespaceSpec(workspace=Workspace(inherit=["RBAC"]), slice_claim="own")
        await zoe.create(SubNamespace.named("alone", OTHER, spec=spec))
        await established(zoe, SubNamespace, "alone", OTHER)
        await until(
            self._admin,
            Slice,
            SLICE_NAME,
            "",
            lambda found: found.status.state == SliceState.PROVISIONED.value,
            "that the slice has its node for itself",
        )
        await self._nobody_else(node)
        took = time.monotonic() - began
        self._stage.say(f"{node} is empty of others after {took:.1f} s")
        mine = probe("mine", ALONE, PYTHON_IMAGE)
        await allowed(lambda: zoe.create(mine), "a pod in the slice")
        runs = await ready(self._admin, mine, 60)
        if runs.node_name != node:
            raise DemoError(f"a pod of the slice runs on {runs.node_name}, and not on {node}")
        self._stage.say(f"a pod of {OTHER} runs there, and nobody else's does")
        await zoe.delete(SubNamespace, "alone", OTHER)
        await zoe.delete(SliceClaim, "own", OTHER)
        await self._admin.delete(Slice, SLICE_NAME)
        began = time.monotonic()
        await until(
            self._admin,
            Node,
            node,
            "",
            lambda found: SLICE not in found.metadata.labels,
            f"that {node} is for everybody again",
        )
        self._stage.say(f"it is everybody's again {time.monotonic() - began:.1f} s after the end")

    async def _nobody_else(self, node: str) -> None:
        """A pod that the scheduler was about to put there goes a moment later."""
        deadline = time.monotonic() + RULES_SECONDS
        while True:
            strangers = [
                f"{each.metadata.namespace}/{each.metadata.name}"
                for namespace in (VENDOR, TEAM, SHOP)
                for each in (await self._admin.list(Pod, namespace)).items
                if each.node_name == node
            ]
            if not strangers:
                return
            if time.monotonic() > deadline:
                raise DemoError(f"{node} is a slice, and others are on it: {', '.join(strangers)}")
            await asyncio.sleep(0.1)

    async def request(self) -> None:
        self._stage.act("A request: dan asks for a role, and alice, who has it, approves")
        dan, alice = await self._people.who("dan"), await self._people.who("alice")
        await refused(lambda: dan.list(Pod, VENDOR), "that dan sees pods without a role")
        role = RequestedRole(kind="ClusterRole", name=COLLABORATOR_ROLE)
        name = new_name()
        await dan.create(RoleRequest.named(name, VENDOR, spec=RoleRequestSpec(role_ref=role)))
        await refused(
            lambda: dan.patch(
                RoleRequest, name, VENDOR, body={"spec": {"decision": {"approved": True}}}
            ),
            "that dan approves himself",
        )
        self._stage.say("dan himself may not")
        body = {"spec": {"decision": {"approved": True, "reason": "welcome"}}}
        await alice.patch(RoleRequest, name, VENDOR, body=body)
        await until(
            self._admin,
            RoleRequest,
            name,
            VENDOR,
            lambda found: found.status.state == RequestState.GRANTED.value,
            "that the request is granted",
        )
        await allowed(lambda: dan.list(Pod, VENDOR), "dan, who was approved,")
        self._stage.say("alice approves; dan sees the pods of acme now, and of nobody else")
        await refused(lambda: dan.list(Pod, OTHER), "that dan sees another tenant's pods")

    async def disabled(self) -> None:
        self._stage.act(f"{VENDOR} is disabled, and comes back")
        alice, sam = await self._people.who("alice"), await self._people.who("sam")
        before = await self._running()
        await self._admin.patch(Tenant, VENDOR, body={"spec": {"enabled": False}})
        for who, namespace in ((alice, VENDOR), (sam, SHOP)):
            note = ConfigMap.named(f"note-{time.monotonic_ns()}", namespace)
            await refused(
                lambda c=who, n=note: c.create(n),  # type: ignore[misc]
                f"a write in {namespace}, which is disabled,",
            )
            await refused(lambda c=who, n=namespace: c.list(Pod, n), f"a look into {namespace}")  # type: ignore[misc]
        if not before or before - await self._running():
            raise DemoError("pods ended because their tenant was disabled")
        self._stage.say("nobody of acme gets in, nor its customer; their pods run on")
        await self._admin.patch(Tenant, VENDOR, body={"spec": {"enabled": True}})
        await established(self._admin, Tenant, VENDOR)
        await allowed(lambda: alice.list(Pod, VENDOR), "alice, whose tenant is enabled again,")
        await allowed(lambda: sam.list(Pod, SHOP), "sam, whose tenant is enabled again,")
        dan = await self._people.who("dan")
        await allowed(lambda: dan.list(Pod, VENDOR), "dan, whose role is from before,")
        self._stage.say("enabled again: alice, sam and dan have the rights that they had")

    async def _running(self) -> set[str]:
        return {
            each.metadata.uid
            for namespace in (VENDOR, TEAM, SHOP)
            for each in (await self._admin.list(Pod, namespace)).items
            if each.ready
        }
