"""Slices against a real API server: policies, webhooks and the operator together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from edgewise.api.tenancy import SLICE, SubNamespace
from edgewise.api.tenancy_slices import (
    EMPTY_BY,
    ClaimRef,
    Slice,
    SliceClaim,
    SliceClaimSpec,
    SliceSpec,
)
from edgewise.domain import all_kinds, install_domains
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import ApiError, NotFound
from edgewise.kube.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from edgewise.kube.kinds.core import Namespace, Node, Pod
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.kube.kinds.rbac import ClusterRole, PolicyRule
from edgewise.operator import WEBHOOKS, Options, run_operator
from edgewise.runtime.manager import Listen
from edgewise.runtime.webhooks.serving import Target
from edgewise.tenancy.domain import TENANCY
from edgewise.tenancy.names import child_name
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port
from tests.integration.conftest import ApiServer
from tests.integration.tenancy.requests.test_requests import OPERATOR, RUNS
from tests.integration.tenancy.slices.field import WITHIN, Field, playing, pod_document

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(api_server: ApiServer) -> AsyncIterator[None]:
    """With the rights that the chart gives it for this domain, and those of its own running."""
    async with contextlib.AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Client(load_access(api_server.kubeconfig)))
        await install_domains(admin, [TENANCY], all_kinds([TENANCY]))
        await _rights(admin)
        access = msgspec.structs.replace(
            load_access(api_server.kubeconfig), impersonation=(("Impersonate-User", OPERATOR),)
        )
        client = await stack.enter_async_context(Client(access))
        namespace = f"op-{secrets.token_hex(3)}"
        await admin.create(Namespace.named(namespace))
        port, hook = free_port(), free_port()
        options = Options(
            namespace=namespace,
            listen=Listen(port=port),
            gateways=(),
            webhooks=Target(url=f"https://127.0.0.1:{hook}"),
            webhook_port=hook,
        )
        running = asyncio.create_task(run_operator(client, options, [TENANCY]))
        try:
            await _answers(port)
            yield
        finally:
            if not running.done():
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(running, 30)
            for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration):
                with contextlib.suppress(NotFound):
                    await admin.delete(kind, WEBHOOKS)


async def _rights(admin: Client) -> None:
    mine = [
        msgspec.to_builtins(rule)
        for rights in TENANCY.rights
        if rights.program == "operator"
        for rule in rights.cluster
    ]
    rules = msgspec.convert([*mine, *RUNS], list[PolicyRule])
    await admin.apply(ClusterRole.named("slices-operator", rules=rules))
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "slices-operator"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "slices-operator",
        },
        "subjects": [{"kind": "User", "name": OPERATOR, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    with contextlib.suppress(ApiError):
        await admin.request(
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            body=msgspec.json.encode(binding),
        )


async def _answers(port: int) -> None:
    async def ready() -> None:
        url = f"http://127.0.0.1:{port}/readyz"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            assert answer.status == 200

    await eventually(ready, within=WITHIN, not_yet=(AssertionError, aiohttp.ClientError))


@pytest_asyncio.fixture(loop_scope="module")
async def field(api_server: ApiServer, operator: None) -> AsyncIterator[Field]:
    async with playing(api_server) as made:
        yield made


async def refused(doing: Any) -> str:
    with pytest.raises(ApiError) as caught:
        await doing
    return str(caught.value)


# The whole way ------------------------------------------------------------------------------


async def test_a_dynamic_claim_gets_nodes_and_gives_them_back(field: Field) -> None:
    await field.tenants()
    node, spare = await field.node("a"), await field.node("b")
    foreign = await field.pod(field.rival, node)
    own = await field.pod(field.acme, node)
    system = await field.pod("default", node)
    claim = await field.claim("c")
    found = await field.claim_is("c", "Bound")
    assert found.status.slice.startswith("c-")
    assert (found.status.nodes, found.status.resources["cpu"]) == (1, "4")
    # Reserved, and open to everybody.
    assert await field.look(node) == (found.status.slice, [])
    assert await field.look(spare) == ("", [])
    assert await field.has_pod(field.rival, foreign)
    child = await field.use("c")
    inside = await field.inside_is("Established")
    assert inside.status.granted["cpu"] == "4"  # what the node has
    assert (await field.admin.get(Namespace, child)).metadata.labels[SLICE] == found.status.slice
    assert await field.look(node) == (found.status.slice, ["slice"])
    assert not await field.has_pod(field.rival, foreign)
    assert await field.has_pod(field.acme, own)
    assert await field.has_pod("default", system)
    await field.claim_is("c", "Employed")
    await field.slice_is(found.status.slice, "Provisioned")
    mine = await field.pod(child, node)
    await (await field.owner()).delete(SubNamespace, "inside", field.acme)
    # The pod goes, though nothing deletes what is in the namespace here; the node stays reserved.
    await field.node_is(node, found.status.slice)
    assert not await field.has_pod(child, mine)
    assert await field.has_pod(field.acme, own)
    await (await field.owner()).delete(SliceClaim, "c", field.acme)
    await field.node_is(node, "")
    with pytest.raises(NotFound):
        await field.admin.get(Slice, found.status.slice)
    assert claim.spec.mode == "Dynamic"


async def test_pods_in_a_slice_run_there_alone_and_in_what_they_like(field: Field) -> None:
    await field.tenants()
    await field.node("a")
    await field.claim("c")
    child = await field.use("c")
    await field.inside_is("Established")
    owner = await field.owner()
    body = pod_document("free", nodeSelector={"disk": "ssd"})
    await owner.request("POST", Pod.KIND.path(child), body=msgspec.json.encode(body))
    made = await field.admin.get(Pod, "free", child)
    name = (await field.admin.get(SliceClaim, "c", field.acme)).status.slice
    assert made.spec["nodeSelector"] == {"disk": "ssd", SLICE: name}
    mine = {"key": SLICE, "operator": "Equal", "value": name, "effect": "NoSchedule"}
    assert mine in made.spec["tolerations"]
    # Outside, nobody tolerates a slice; inside, no other one.
    for where, value in ((field.acme, name), (child, "another"), (child, None)):
        wrong = {"key": SLICE, "operator": "Equal" if value else "Exists"}
        wrong |= {"value": value} if value else {}
        body = pod_document("sly", tolerations=[wrong])
        sent = owner.request("POST", Pod.KIND.path(where), body=msgspec.json.encode(body))
        assert "spec.tolerations" in await refused(sent)


async def test_what_lies_below_a_namespace_in_a_slice_is_in_it_too(field: Field) -> None:
    await field.tenants()
    await field.node("a")
    await field.claim("c")
    child = await field.use("c")
    await field.inside_is("Established")
    spec = {"workspace": {"inherit": ["RBAC"]}}
    below = msgspec.convert(
        {"metadata": {"name": "deep", "namespace": child}, "spec": spec}, SubNamespace
    )
    await (await field.owner()).create(below)

    async def labelled() -> None:
        found = await field.admin.get(Namespace, child_name(child, "deep"))
        claim = await field.admin.get(SliceClaim, "c", field.acme)
        assert found.metadata.labels[SLICE] == claim.status.slice

    await eventually(labelled, within=WITHIN, not_yet=(ApiError, KeyError))


# Quota ----------------------------------------------------------------------------------------


async def test_nodes_beyond_quota_are_refused(field: Field) -> None:
    await field.tenants({"cpu": "3", "memory": "100Gi"})
    node = await field.node("a")
    sentence = await refused(field.claim("c"))
    assert f"the node has cpu 4, and the quota of {field.acme} covers 3" in sentence
    assert await field.look(node) == ("", [])


async def test_two_claims_do_not_share_one_quota(field: Field) -> None:
    await field.tenants({"cpu": "6", "memory": "100Gi"})
    for name in ("a", "b"):
        await field.node(name)
    await field.claim("one")
    await field.claim_is("one", "Bound")
    await field.claim("two")
    await field.claim_is("two", "Pending", "covers 2")
    await (await field.owner()).delete(SliceClaim, "one", field.acme)
    await field.claim_is("two", "Bound")


async def test_a_claim_without_quota_is_for_an_administrator(field: Field) -> None:
    await field.tenants({})
    node = await field.node("a")
    assert "an administrator" in await refused(field.claim("c"))
    await field.claim("c", mode="Manual")
    await field.claim_is("c", "Pending", "waits for an administrator")
    assert await field.look(node) == ("", [])
    name = await field.slice("s", claim="c")
    await field.claim_is("c", "Bound")
    await field.node_is(node, name)
    # It is the administrator's: without the claim, the nodes stay reserved.
    await (await field.owner()).delete(SliceClaim, "c", field.acme)
    await field.slice_is(name, "Reserved")
    assert await field.look(node) == (name, [])


# Emptying nodes -------------------------------------------------------------------------------


async def test_budgets_hold_until_the_grace_is_over(field: Field) -> None:
    await field.tenants()
    node = await field.node("a")
    # Were it evicted at once, it would end long before the grace does.
    kept = await field.pod(field.rival, node, "kept", terminationGracePeriodSeconds=1)
    # It is seen to the end.
    pinned = {"metadata": {"finalizers": ["example.com/seen"]}}
    await field.admin.patch(Pod, kept, field.rival, body=pinned)
    field.stubborn.add(await field.pod(field.rival, node, terminationGracePeriodSeconds=3600))
    budget = PodDisruptionBudget.named(
        "kept", field.rival, spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    )
    await field.admin.create(budget)
    await field.claim("c", mode="Manual")
    name = await field.slice("s", claim="c", grace_seconds=4)
    await field.claim_is("c", "Bound")
    await field.use("c")

    async def ends() -> datetime:
        written = (await field.admin.get(Pod, kept, field.rival)).metadata.deletion_timestamp
        assert written is not None
        return datetime.fromisoformat(written)

    await eventually(ends, within=WITHIN)
    notes = (await field.admin.get(Node, node)).metadata.annotations
    assert await ends() >= datetime.fromisoformat(notes[EMPTY_BY])

    # The other one is gone, and this one counts until it is.
    async def alone() -> None:
        left = [each.metadata.name for each in (await field.admin.list(Pod, field.rival)).items]
        assert left == [kept]
        said = (await field.admin.get(Slice, name)).status.conditions
        assert any(f"1 pod has to leave {node}" in each.message for each in said), said

    await eventually(alone, within=WITHIN)
    await field.inside_is("Failed/SliceNotReady")
    await field.slice_is(name, "Bound")
    await field.admin.patch(Pod, kept, field.rival, body={"metadata": {"finalizers": None}})
    await field.inside_is("Established")
    await field.slice_is(name, "Provisioned")


async def test_a_pod_that_is_bound_late_leaves_too(field: Field) -> None:
    await field.tenants()
    node = await field.node("a")
    await field.claim("c", mode="Manual")
    name = await field.slice("s", claim="c", grace_seconds=1)
    await field.claim_is("c", "Bound")
    await field.use("c")
    await field.inside_is("Established")
    late = await field.pod(field.rival, node)

    async def gone() -> None:
        assert not await field.has_pod(field.rival, late)

    await eventually(gone, within=WITHIN)
    await field.slice_is(name, "Provisioned")


async def test_a_slice_ends_when_its_time_is_over(field: Field) -> None:
    await field.tenants()
    node = await field.node("a")
    await field.claim("c", mode="Manual")
    name = await field.slice("s", claim="c", grace_seconds=3)
    await field.claim_is("c", "Bound")
    child = await field.use("c")
    await field.inside_is("Established")
    stubborn = await field.pod(child, node, terminationGracePeriodSeconds=3600)
    field.stubborn.add(stubborn)
    soon = datetime.now(UTC) + timedelta(seconds=2)
    await field.admin.patch(Slice, name, body={"spec": {"expiresAt": soon.isoformat()}})
    await field.node_is(node, "")
    assert not await field.has_pod(child, stubborn)
    await field.claim_is("c", "Pending")
    status = (await field.inside_is("Failed/SliceMissing")).status
    assert "SliceClaim c is Pending" in status.conditions[0].message
    # Its pods wait for nodes, rather than to run beside others.
    assert (await field.admin.get(Namespace, child)).metadata.labels[SLICE] == name


async def test_a_claim_ends_when_its_time_is_over(field: Field) -> None:
    await field.tenants()
    node = await field.node("a")
    await field.claim("c")
    await field.claim_is("c", "Bound")
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    body = {"spec": {"expiresAt": soon}}
    await (await field.owner()).patch(SliceClaim, "c", field.acme, body=body)
    await field.node_is(node, "")
    with pytest.raises(NotFound):
        await field.admin.get(SliceClaim, "c", field.acme)


# All nodes or none ----------------------------------------------------------------------------


async def test_two_slices_never_get_the_same_node_and_none_gets_half(field: Field) -> None:
    nodes = [await field.node(name) for name in ("a", "b", "c")]
    names = [await field.slice(name, node_count=2) for name in ("one", "two")]

    async def settled() -> None:
        states = sorted([(await field.admin.get(Slice, each)).status.state for each in names])
        assert states == ["Failed/NodesShort", "Reserved"]
        held = [(await field.look(node))[0] for node in nodes]
        assert sorted(map(held.count, names)) == [0, 2]

    await eventually(settled, within=WITHIN)
    first = (await field.admin.get(Slice, names[0])).status.state
    loser = names[0] if first.startswith("Failed") else names[1]
    message = (await field.admin.get(Slice, loser)).status.conditions[0].message
    assert "2 wanted; 3 nodes match" in message
    assert "1 of them is in no slice" in message
    await field.node("d")
    await field.slice_is(loser, "Reserved")


async def test_a_node_that_goes_is_said_and_replaced(field: Field) -> None:
    await field.tenants()
    node = await field.node("a")
    await field.claim("c")
    claim = await field.claim_is("c", "Bound")
    await field.use("c")
    await field.inside_is("Established")
    await field.admin.delete(Node, node)
    found = await field.slice_is(claim.status.slice, "Failed/NodesShort")
    assert found.status.nodes == []
    other = await field.node("b")
    await field.node_is(other, claim.status.slice, "slice")
    await field.slice_is(claim.status.slice, "Provisioned")


async def test_marks_that_somebody_took_from_a_node_come_back(field: Field) -> None:
    await field.tenants()
    node = await field.node("a")
    await field.claim("c")
    claim = await field.claim_is("c", "Bound")
    await field.use("c")
    await field.inside_is("Established")
    await field.admin.patch(Node, node, body={"spec": {"taints": []}})
    await field.node_is(node, claim.status.slice, "slice")


# What is refused ------------------------------------------------------------------------------


async def test_a_node_does_not_choose_its_slice(field: Field) -> None:
    node = await field.node("a")
    await field.admin.apply(
        ClusterRole.named(
            "test-nodes",
            rules=[PolicyRule(api_groups=[""], resources=["nodes"], verbs=["get", "patch"])],
        )
    )
    who = f"staff-{field.pool}"
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"test-nodes-{field.pool}"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "test-nodes",
        },
        "subjects": [
            {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
            for name in (who, OPERATOR)
        ],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    await field.admin.request("POST", path, body=msgspec.json.encode(body))
    staff = await field.person(who)
    label = {"metadata": {"labels": {SLICE: "mine"}}}
    assert "make a Slice" in await refused(staff.patch(Node, node, body=label))
    taint = {"spec": {"taints": [{"key": SLICE, "value": "mine", "effect": "NoSchedule"}]}}
    assert "make a Slice" in await refused(staff.patch(Node, node, body=taint))
    await staff.patch(Node, node, body={"metadata": {"labels": {"disk": "ssd"}}})
    # The operator writes nothing but that.
    ours = await field.person(OPERATOR)
    other = {"metadata": {"labels": {"disk": "none"}}}
    assert "only which slice" in await refused(ours.patch(Node, node, body=other))


def _spec(**more: Any) -> dict[str, Any]:
    return {"nodeCount": 1, **more}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no node": (_spec(nodeCount=0), "spec.nodeCount"),
    "more nodes than match": (_spec(nodeCount=3), "spec.nodeCount: 3 wanted; 1 node matches"),
    "a selector that no node has": (
        _spec(selector=[{"matchLabels": {"no": "where"}}]),
        "0 nodes match spec.selector",
    ),
    "more than a node has": (_spec(resources={"cpu": "64"}), "0 nodes match spec.selector"),
    "no quantity": (_spec(resources={"cpu": "lots"}), "spec.resources.cpu: lots"),
    "a negative one": (_spec(resources={"cpu": "-1"}), "spec.resources.cpu: -1"),
    "the past": (_spec(expiresAt="2020-01-01T00:00:00Z"), "spec.expiresAt lies in the past"),
    "no time": (_spec(expiresAt="tomorrow"), "spec.expiresAt"),
    "an unknown mode": (_spec(mode="Magic"), "spec.mode"),
    "a name with Dynamic": (_spec(sliceName="s"), "sliceName goes with mode Manual"),
}


async def test_bad_claims_are_refused_with_a_sentence(field: Field) -> None:
    await field.tenants()
    await field.node("a")
    owner = await field.owner()
    path = SliceClaim.KIND.path(field.acme)
    mine = msgspec.to_builtins(field.selector)
    for what, (spec, sentence) in BAD.items():
        body = {
            "apiVersion": SliceClaim.KIND.api_version,
            "kind": "SliceClaim",
            "metadata": {"name": "c"},
            "spec": {"selector": mine, **spec},
        }
        sent = owner.request("POST", path, body=msgspec.json.encode(body))
        assert sentence in await refused(sent), what
    # And what is good passes.
    await field.claim("c")


async def test_what_was_asked_for_does_not_change(field: Field) -> None:
    await field.tenants()
    for name in ("a", "b"):
        await field.node(name)
    await field.claim("c")
    await field.claim("d", mode="Manual")
    owner = await field.owner()
    for spec in ({"nodeCount": 2}, {"mode": "Manual"}, {"selector": []}, {"resources": {"cpu": 1}}):
        sentence = await refused(owner.patch(SliceClaim, "c", field.acme, body={"spec": spec}))
        assert "is immutable: delete this one and make a new one" in sentence
    await field.use("c")
    for value in ("d", None):
        body = {"spec": {"sliceClaim": value}}
        sentence = await refused(owner.patch(SubNamespace, "inside", field.acme, body=body))
        assert "sliceClaim is immutable" in sentence


async def test_slices_are_for_administrators_and_claims_for_owners(field: Field) -> None:
    await field.tenants()
    await field.node("a")
    owner = await field.owner()
    ref = ClaimRef(namespace=field.acme, name="c")
    mine = Slice.named(f"mine-{field.pool}", spec=SliceSpec(node_count=1, claim_ref=ref))
    assert "cannot create resource" in await refused(owner.create(mine))
    stranger = await field.person(f"owner-of-{field.rival}")
    assert "cannot create resource" in await refused(stranger.create(field.claim_of("c")))
    spec = SliceClaimSpec(node_count=1)
    nowhere = SliceClaim.named("c", "default", spec=spec)
    assert "namespace of a tenant" in await refused(field.admin.create(nowhere))


async def test_a_subnamespace_without_its_claim_says_so(field: Field) -> None:
    await field.tenants()
    await field.use("none")
    status = (await field.inside_is("Failed/SliceMissing")).status
    assert status.conditions[0].message == f"there is no SliceClaim none in {field.acme}"
    assert status.granted == {}
