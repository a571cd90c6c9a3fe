"""Requests against a real API server: policies, webhooks and the operator together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from edgewise.api.tenancy import ADMIN_ROLE, OWNER_ROLE, VIEWER_ROLE, Tenant, TenantResourceQuota
from edgewise.api.tenancy_requests import (
    APPROVER_ROLE,
    ClusterRoleRequest,
    RoleRequest,
    TenantRequest,
)
from edgewise.domain import all_kinds, install_domains
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import ApiError, NotFound
from edgewise.kube.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from edgewise.kube.kinds.core import ConfigMap, Namespace
from edgewise.kube.kinds.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding
from edgewise.operator import WEBHOOKS, Options, run_operator
from edgewise.runtime.manager import Listen
from edgewise.runtime.webhooks.serving import Target
from edgewise.tenancy.domain import TENANCY
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port
from tests.integration.conftest import ApiServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

COLLABORATOR = {"kind": "ClusterRole", "name": "edgewise:tenant-collaborator"}

OPERATOR = "system:serviceaccount:edgewise-system:edgewise-operator"
_EVERYTHING = {"verbs": ["*"], "resources": ["*"]}
# What the operator needs to run at all, whatever its domains.
RUNS: list[dict[str, Any]] = [
    {**_EVERYTHING, "apiGroups": [group]}
    for group in (
        "coordination.k8s.io",
        "events.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
    )
] + [{"verbs": ["*"], "resources": ["secrets", "events"], "apiGroups": [""]}]


def random_name() -> str:
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(26))


class Town:
    """A tenant that olga owns, people who have nothing yet, and an operator."""

    def __init__(self, server: ApiServer, admin: Client, stack: contextlib.AsyncExitStack) -> None:
        self.server, self.admin, self._stack = server, admin, stack
        self.namespace = f"acme-{secrets.token_hex(3)}"
        self._people: dict[str, Client] = {}

    async def person(self, name: str) -> Client:
        if name not in self._people:
            access = load_access(self.server.kubeconfig)
            acting = msgspec.structs.replace(access, impersonation=(("Impersonate-User", name),))
            self._people[name] = await self._stack.enter_async_context(Client(acting))
        return self._people[name]

    async def ask(self, who: str, kind: Any = RoleRequest, **spec: Any) -> Any:
        namespace = self.namespace if kind is RoleRequest else ""
        told = spec or {"roleRef": COLLABORATOR}
        metadata = {"name": random_name(), "namespace": namespace}
        made = msgspec.convert({"metadata": metadata, "spec": told}, kind)
        return await (await self.person(who)).create(made)

    async def decide(self, who: str, request: Any, *, approved: bool = True, **more: Any) -> Any:
        body = {"spec": {"decision": {"approved": approved, **more}}}
        return await (await self.person(who)).patch(
            type(request), request.metadata.name, request.metadata.namespace, body=body
        )

    async def until(self, request: Any, state: str) -> Any:
        async def there() -> None:
            found = await self.admin.get(
                type(request), request.metadata.name, request.metadata.namespace
            )
            assert found.status.state == state, found.status

        await eventually(there, within=20)
        return await self.admin.get(
            type(request), request.metadata.name, request.metadata.namespace
        )

    async def operator(self) -> Client:
        """With the rights that the chart gives it for this domain, and those of its own running."""
        mine = [
            rule
            for rights in TENANCY.rights
            if rights.program == "operator"
            for rule in rights.cluster
        ]
        await self.role("test-operator", OPERATOR, *msgspec.to_builtins(mine), *RUNS)
        return await self.person(OPERATOR)

    async def role(self, name: str, who: str, *rules: dict[str, Any]) -> None:
        """A ClusterRole for one person, everywhere."""
        await self.admin.apply(
            ClusterRole.named(name, rules=msgspec.convert([*rules], list[PolicyRule]))
        )
        await self.admin.apply(
            msgspec.convert(
                {
                    "metadata": {"name": name},
                    "roleRef": {"kind": "ClusterRole", "name": name},
                    "subjects": [
                        {"kind": "User", "name": who, "apiGroup": "rbac.authorization.k8s.io"}
                    ],
                },
                ClusterRoleBinding,
            )
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(api_server: ApiServer) -> AsyncIterator[Town]:
    async with contextlib.AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Client(load_access(api_server.kubeconfig)))
        await install_domains(admin, [TENANCY], all_kinds([TENANCY]))
        made = Town(api_server, admin, stack)
        await admin.create(Namespace.named(f"op-{made.namespace}"))
        port, hook = free_port(), free_port()
        options = Options(
            namespace=f"op-{made.namespace}",
            listen=Listen(port=port),
            gateways=(),
            webhooks=Target(url=f"https://127.0.0.1:{hook}"),
            webhook_port=hook,
        )
        operator = await made.operator()
        running = asyncio.create_task(run_operator(operator, options, [TENANCY]))
        try:

            async def ready() -> None:
                async with (
                    aiohttp.ClientSession() as http,
                    http.get(f"http://127.0.0.1:{port}/readyz") as answer,
                ):
                    assert answer.status == 200

            await eventually(ready, within=40, not_yet=(aiohttp.ClientError,))
            owner = {"owners": [{"kind": "User", "name": "olga"}]}
            tenant = {"metadata": {"name": made.namespace}, "spec": owner}
            await admin.create(msgspec.convert(tenant, Tenant))

            async def established() -> None:
                found = await admin.get(Tenant, made.namespace)
                assert found.status.state == "Established", found.status

            await eventually(established, within=20)
            yield made
        finally:
            if not running.done():
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(running, 30)
            for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration):
                with contextlib.suppress(NotFound):
                    await admin.delete(kind, WEBHOOKS)


async def refused(doing: Any) -> str:
    with pytest.raises(ApiError) as caught:
        await doing
    return str(caught.value)


async def test_an_approved_request_gives_its_maker_the_role(town: Town) -> None:
    request = await town.ask("alice", roleRef=COLLABORATOR, requester="mallory")
    assert request.spec.requester == "alice"
    await town.until(request, "Pending")
    alice = await town.person("alice")
    assert "cannot create" in await refused(alice.create(ConfigMap.named("mine", town.namespace)))
    decided = await town.decide("olga", request, by="the-queen")
    assert decided.spec.decision.by == "olga"
    granted = await town.until(request, "Granted")
    assert granted.status.notified

    async def works() -> None:
        await alice.create(ConfigMap.named("mine", town.namespace))

    await eventually(works, not_yet=(ApiError,))
    binding = await town.admin.get(RoleBinding, f"request-{request.metadata.name}", town.namespace)
    # By this, Kubernetes takes the binding away with the request, whether an operator runs or not.
    assert [owner.uid for owner in binding.metadata.owner_references] == [request.metadata.uid]
    # What is taken away by hand is not given again.
    await town.admin.delete(RoleBinding, binding.metadata.name, town.namespace)
    await town.until(request, "Withdrawn")
    with pytest.raises(NotFound):
        await town.admin.get(RoleBinding, binding.metadata.name, town.namespace)


async def test_a_denied_request_gives_nothing(town: Town) -> None:
    request = await town.ask("dan")
    await town.decide("olga", request, approved=False, reason="who are you?")
    found = await town.until(request, "Denied")
    assert "who are you?" in found.status.message
    with pytest.raises(NotFound):
        await town.admin.get(RoleBinding, f"request-{request.metadata.name}", town.namespace)


async def test_a_decision_is_made_once_and_then_frozen(town: Town) -> None:
    request = await town.ask("erin")
    await town.decide("olga", request, approved=False)
    assert "frozen" in await refused(town.decide("olga", request, approved=True))
    patched = town.admin.patch(
        RoleRequest,
        request.metadata.name,
        town.namespace,
        body={"spec": {"requester": "mallory"}},
    )
    assert "requester is immutable" in await refused(patched)
    role = {"spec": {"roleRef": {"kind": "ClusterRole", "name": OWNER_ROLE}}}
    patched = town.admin.patch(RoleRequest, request.metadata.name, town.namespace, body=role)
    assert "roleRef is immutable" in await refused(patched)


async def test_nobody_decides_their_own(town: Town) -> None:
    request = await town.ask("olga")
    assert "nobody decides their own" in await refused(town.decide("olga", request))
    await (await town.person("olga")).delete(RoleRequest, request.metadata.name, town.namespace)


async def test_a_decision_needs_the_verb_approve(town: Town) -> None:
    request = await town.ask("fay")
    assert "cannot patch" in await refused(town.decide("bob", request))
    patches = {"apiGroups": ["tenancy.edgewise.dev"], "resources": ["*"], "verbs": ["patch", "get"]}
    await town.role("test-patcher", "bob", patches)

    async def says_why() -> None:
        assert "needs the verb approve" in await refused(town.decide("bob", request))

    await eventually(says_why)
    await town.decide("olga", request, approved=False)


async def test_nobody_gives_away_more_than_they_have(town: Town) -> None:
    request = await town.ask("gus")
    decides = {
        "apiGroups": ["tenancy.edgewise.dev"],
        "resources": ["rolerequests"],
        "verbs": ["patch", "get", "approve"],
    }
    await town.role("test-approver", "carol", decides)

    async def says_why() -> None:
        sentence = await refused(town.decide("carol", request))
        assert "holds a right that you lack" in sentence

    await eventually(says_why)
    binds = {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"],
        "resourceNames": [COLLABORATOR["name"]],
        "verbs": ["bind"],
    }
    await town.role("test-approver", "carol", decides, binds)

    async def approves() -> None:
        await town.decide("carol", request)

    await eventually(approves, not_yet=(ApiError,))
    await town.until(request, "Granted")


async def test_an_admin_of_a_namespace_approves_there_what_an_admin_has(town: Town) -> None:
    admins = {"kind": "ClusterRole", "name": ADMIN_ROLE}
    first = await town.ask("abel", roleRef=admins)
    await town.decide("olga", first)
    await town.until(first, "Granted")
    second = await town.ask("rosa")

    async def approves() -> None:
        await town.decide("abel", second)

    await eventually(approves, not_yet=(ApiError,))
    await town.until(second, "Granted")
    third = await town.ask("sven", roleRef={"kind": "ClusterRole", "name": OWNER_ROLE})
    assert "holds a right that you lack" in await refused(town.decide("abel", third))
    await town.decide("abel", third, approved=False)
    everywhere = {"roleRef": {"kind": "ClusterRole", "name": VIEWER_ROLE}}
    fourth = await town.ask("tove", ClusterRoleRequest, **everywhere)
    assert "cannot patch" in await refused(town.decide("abel", fourth))
    await (await town.person("tove")).delete(ClusterRoleRequest, fourth.metadata.name)


async def test_one_undecided_request_a_person(town: Town) -> None:
    first = await town.ask("hal")
    assert "not decided yet" in await refused(town.ask("hal"))
    everywhere = {"roleRef": {"kind": "ClusterRole", "name": VIEWER_ROLE}}
    assert "not decided yet" in await refused(town.ask("hal", ClusterRoleRequest, **everywhere))
    await town.decide("olga", first, approved=False)


async def test_a_request_is_seen_and_deleted_by_its_maker_alone(town: Town) -> None:
    request = await town.ask("ida")
    ida, bob = await town.person("ida"), await town.person("jo")
    found = await ida.get(RoleRequest, request.metadata.name, town.namespace)
    assert found.spec.requester == "ida"
    assert "cannot list" in await refused(bob.list(RoleRequest, town.namespace))
    deleted = bob.delete(RoleRequest, request.metadata.name, town.namespace)
    assert "by its maker" in await refused(deleted)
    await ida.delete(RoleRequest, request.metadata.name, town.namespace)


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "an account of a program": (
        "system:serviceaccount:default:robot",
        {"roleRef": COLLABORATOR},
        "requests are for people",
    ),
    "a ClusterRole that is not offered": (
        "kim",
        {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}},
        "the ClusterRoles to choose from",
    ),
    "a decision that comes with it": (
        "kim",
        {"roleRef": COLLABORATOR, "decision": {"approved": True}},
        "comes later",
    ),
    "a role that ends before it begins": (
        "kim",
        {"roleRef": COLLABORATOR, "grantExpiresAt": "2020-01-01T00:00:00Z"},
        "spec.grantExpiresAt lies in the past: it is 20",
    ),
    "a tenant with the name of a system namespace": (
        "kim",
        {"tenantName": "kube-system"},
        "this name is reserved: names that begin with kube-",
    ),
    "an amount that is none": (
        "kim",
        {"tenantName": "kim-inc", "resources": {"cpu": "many"}},
        "spec.resources.cpu: many, which is no quantity",
    ),
    "a negative amount": (
        "kim",
        {"tenantName": "kim-inc", "resources": {"pods": -1}},
        "spec.resources.pods: -1, which is no quantity",
    ),
    "what nobody counts": (
        "kim",
        {"tenantName": "kim-inc", "resources": {"bananas": 3}},
        "spec.resources names what a ResourceQuota does not count",
    ),
}


@pytest.mark.parametrize("sentence", BAD)
async def test_refused_at_once(town: Town, sentence: str) -> None:
    who, spec, says = BAD[sentence]
    kind = TenantRequest if "tenantName" in spec else RoleRequest
    assert says in await refused(town.ask(who, kind, **spec))


async def test_a_name_that_can_be_guessed_is_refused(town: Town) -> None:
    made = msgspec.convert(
        {"metadata": {"name": "please"}, "spec": {"tenantName": "lee-inc"}}, TenantRequest
    )
    assert "26 random characters" in await refused((await town.person("lee")).create(made))


async def test_a_role_request_belongs_into_a_tenants_namespace(town: Town) -> None:
    made = msgspec.convert(
        {
            "metadata": {"name": random_name(), "namespace": "default"},
            "spec": {"roleRef": COLLABORATOR},
        },
        RoleRequest,
    )
    assert "namespace of a tenant" in await refused((await town.person("max")).create(made))


async def test_an_approved_tenant_request_makes_a_tenant_with_its_quota(town: Town) -> None:
    name = f"newco-{secrets.token_hex(3)}"
    request = await town.ask(
        "nina",
        TenantRequest,
        tenantName=name,
        fullName="New Company",
        resources={"cpu": "2", "pods": "10"},
    )
    decider = {"kind": "ClusterRole", "name": APPROVER_ROLE}
    await town.admin.apply(
        msgspec.convert(
            {
                "metadata": {"name": "test-decider"},
                "roleRef": decider,
                "subjects": [
                    {"kind": "User", "name": "otto", "apiGroup": "rbac.authorization.k8s.io"}
                ],
            },
            ClusterRoleBinding,
        )
    )

    async def approves() -> None:
        await town.decide("otto", request)

    await eventually(approves, not_yet=(ApiError,))
    await town.until(request, "Granted")
    tenant = await town.admin.get(Tenant, name)
    assert [owner.name for owner in tenant.spec.owners] == ["nina"]
    assert tenant.spec.full_name == "New Company"
    quota = await town.admin.get(TenantResourceQuota, name)
    assert quota.spec.claims["request"].resources == {"cpu": "2", "pods": "10"}


async def test_a_tenant_request_for_a_name_that_is_taken_harms_nobody(town: Town) -> None:
    request = await town.ask(
        "pam", TenantRequest, tenantName=town.namespace, resources={"pods": "1"}
    )
    await town.admin.patch(
        TenantRequest, request.metadata.name, body={"spec": {"decision": {"approved": True}}}
    )
    found = await town.until(request, "Failed/Collision")
    assert "ask for another name" in found.status.message
    with pytest.raises(NotFound):
        await town.admin.get(TenantResourceQuota, town.namespace)


async def test_a_cluster_role_is_given_in_the_whole_cluster(town: Town) -> None:
    spec = {"roleRef": {"kind": "ClusterRole", "name": VIEWER_ROLE}}
    request = await town.ask("quin", ClusterRoleRequest, **spec)
    await town.admin.patch(
        ClusterRoleRequest, request.metadata.name, body={"spec": {"decision": {"approved": True}}}
    )
    await town.until(request, "Granted")
    found = await town.admin.get(ClusterRoleBinding, f"request-{request.metadata.name}")
    assert [(each.kind, each.name) for each in found.subjects] == [("User", "quin")]
