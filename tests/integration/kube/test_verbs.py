"""Every verb of the client against a real API server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from edgewise.kube import errors
from edgewise.kube.client import Client, Patch
from edgewise.kube.dynamic import dynamic
from edgewise.kube.kinds.coordination import Lease, LeaseSpec
from edgewise.kube.kinds.core import ConfigMap, Namespace, Pod, Secret
from edgewise.kube.objects import Kind


def pod(name: str) -> Pod:
    return Pod.named(name, spec={"containers": [{"name": "main", "image": "edgewise.test/x:1"}]})


async def test_version_is_that_of_the_server(client: Client) -> None:
    assert (await client.version()).startswith("v1.")


async def test_an_object_can_be_created_read_and_deleted(client: Client, namespace: str) -> None:
    made = await client.create(ConfigMap.named("a", namespace, data={"x": "1"}))
    assert made.metadata.uid
    assert made.metadata.namespace == namespace
    assert (await client.get(ConfigMap, "a", namespace)).data == {"x": "1"}
    await client.delete(ConfigMap, "a", namespace)
    with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
        await client.get(ConfigMap, "a", namespace)
    with pytest.raises(errors.NotFound):
        await client.delete(ConfigMap, "a", namespace)


async def test_creating_twice_is_not_a_conflict_but_already_exists(
    client: Client, namespace: str
) -> None:
    await client.create(ConfigMap.named("a"), namespace)
    with pytest.raises(errors.AlreadyExists):
        await client.create(ConfigMap.named("a"), namespace)


async def test_a_dry_run_leaves_nothing(client: Client, namespace: str) -> None:
    await client.create(ConfigMap.named("a"), namespace, dry_run=True)
    assert (await client.list(ConfigMap, namespace)).items == []


async def test_an_object_out_of_a_list_can_be_replaced_and_a_stale_one_cannot(
    client: Client, namespace: str
) -> None:
    await client.create(ConfigMap.named("a", data={"x": "1"}), namespace)
    (first,) = (await client.list(ConfigMap, namespace)).items
    first.data["x"] = "2"
    assert (await client.replace(first)).data == {"x": "2"}
    with pytest.raises(errors.Conflict):
        await client.replace(first)


async def test_merge_and_json_and_strategic_patches(client: Client, namespace: str) -> None:
    await client.create(ConfigMap.named("a", data={"x": "1", "y": "1"}), namespace)
    merged = await client.patch(ConfigMap, "a", namespace, body={"data": {"x": "2", "y": None}})
    assert merged.data == {"x": "2"}
    listed = await client.patch(
        ConfigMap,
        "a",
        namespace,
        body=[{"op": "add", "path": "/data/z", "value": "3"}],
        type=Patch.JSON,
    )
    assert listed.data == {"x": "2", "z": "3"}
    strategic = await client.patch(
        ConfigMap, "a", namespace, body={"data": {"x": "4"}}, type=Patch.STRATEGIC
    )
    assert strategic.data == {"x": "4", "z": "3"}


async def test_a_failed_test_in_a_json_patch_is_invalid(client: Client, namespace: str) -> None:
    await client.create(ConfigMap.named("a", data={"x": "1"}), namespace)
    with pytest.raises(errors.Invalid):
        await client.patch(
            ConfigMap,
            "a",
            namespace,
            body=[{"op": "test", "path": "/data/x", "value": "2"}],
            type=Patch.JSON,
        )


async def test_apply_creates_then_owns_its_fields_alone(client: Client, namespace: str) -> None:
    await client.apply(ConfigMap.named("a", namespace, data={"x": "1", "y": "1"}))
    applied = await client.apply(ConfigMap.named("a", namespace, data={"x": "1"}))
    assert applied.data == {"x": "1"}
    with pytest.raises(errors.Conflict, match="x"):
        await client.apply(
            ConfigMap.named("a", namespace, data={"x": "2"}), field_manager="other", force=False
        )


async def test_a_manifest_of_any_kind_can_be_applied(client: Client, namespace: str) -> None:
    manifest: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    applied = await client.apply(manifest)
    assert applied["rules"] == manifest["rules"]
    role = dynamic(Kind("rbac.authorization.k8s.io", "v1", "Role", "roles"), "rules")
    assert (await client.get(role, "reader", namespace)).rules == manifest["rules"]  # type: ignore[attr-defined]


async def test_an_unknown_kind_in_a_manifest_gets_a_sentence(client: Client) -> None:
    with pytest.raises(errors.NotFound, match="no kind Potato in v1"):
        await client.apply({"apiVersion": "v1", "kind": "Potato", "metadata": {"name": "a"}})
    with pytest.raises(errors.NotFound, match="CRDs installed"):
        await client.apply({"apiVersion": "no.such/v1", "kind": "X", "metadata": {"name": "a"}})


async def test_a_status_is_patched_through_its_subresource(client: Client, namespace: str) -> None:
    await client.create(pod("a"), namespace)
    body = {"status": {"phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}
    assert (await client.patch(Pod, "a", namespace, body=body)).status.phase == "Pending"
    patched = await client.patch(Pod, "a", namespace, body=body, subresource="status")
    assert patched.status.phase == "Running"
    assert patched.status.pod_ip == "10.0.0.9"


async def test_delete_spares_a_successor_of_the_same_name(client: Client, namespace: str) -> None:
    made = await client.create(ConfigMap.named("a"), namespace)
    with pytest.raises(errors.Conflict):
        await client.delete(ConfigMap, "a", namespace, uid="another")
    with pytest.raises(errors.Conflict):
        await client.delete(ConfigMap, "a", namespace, resource_version="1")
    await client.delete(ConfigMap, "a", namespace, uid=made.metadata.uid)


async def test_evict_removes_a_pod(client: Client, namespace: str) -> None:
    await client.create(pod("a"), namespace)
    await client.evict("a", namespace, grace_seconds=0)
    with pytest.raises(errors.NotFound):
        await client.get(Pod, "a", namespace)


async def test_an_eviction_that_a_budget_forbids_is_too_many_requests(
    client: Client, namespace: str
) -> None:
    made = pod("a")
    made.metadata.labels = {"app": "a"}
    await client.create(made, namespace)
    await client.patch(
        Pod, "a", namespace, body={"status": {"phase": "Running"}}, subresource="status"
    )
    await client.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "a", "namespace": namespace},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "a"}}},
        }
    )
    with pytest.raises(errors.TooManyRequests) as refusal:
        await client.evict("a", namespace)
    assert refusal.value.status == 429


async def test_secrets_hold_bytes(client: Client, namespace: str) -> None:
    await client.create(Secret.named("a", namespace, data={"key": b"\x00\xff"}))
    assert (await client.get(Secret, "a", namespace)).data == {"key": b"\x00\xff"}


async def test_leases_round_trip(client: Client, namespace: str) -> None:
    spec = LeaseSpec(holder_identity="me", renew_time="2030-01-01T00:00:00.000001Z")
    await client.create(Lease.named("a", namespace, spec=spec))
    assert (await client.get(Lease, "a", namespace)).spec == spec


async def test_a_list_is_fetched_in_pages_from_one_snapshot(client: Client, namespace: str) -> None:
    names = [f"c{index:02}" for index in range(7)]
    for name in names:
        await client.create(ConfigMap.named(name), namespace)
    sizes = []
    versions = set()
    async for page in client.pages(ConfigMap, namespace, limit=3):
        sizes.append(len(page.items))
        versions.add(page.resource_version)
        # Not part of the snapshot that the first page belongs to:
        await client.apply(ConfigMap.named("zzz", data={"n": str(len(sizes))}), namespace)
    assert sizes == [3, 3, 1]
    assert len(versions) == 1
    whole = await client.list(ConfigMap, namespace, limit=3, labels="!none")
    assert [item.metadata.name for item in whole.items] == [*names, "zzz"]
    assert whole.resource_version


async def test_selectors_narrow_a_list(client: Client, namespace: str) -> None:
    for name in ("a", "b"):
        made = ConfigMap.named(name)
        made.metadata.labels = {"name": name}
        await client.create(made, namespace)
    labelled = await client.list(ConfigMap, namespace, labels="name in (b, c)")
    assert [item.metadata.name for item in labelled.items] == ["b"]
    named = await client.list(ConfigMap, None, fields=f"metadata.namespace={namespace}")
    assert [item.metadata.name for item in named.items] == ["a", "b"]


async def test_a_watch_tells_every_change_in_order(client: Client, namespace: str) -> None:
    start = (await client.list(ConfigMap, namespace)).resource_version
    await client.create(ConfigMap.named("a", data={"x": "1"}), namespace)
    await client.patch(ConfigMap, "a", namespace, body={"data": {"x": "2"}})
    await client.delete(ConfigMap, "a", namespace)
    seen = []
    async with aclosing(client.watch(ConfigMap, namespace, resource_version=start)) as changes:
        async for change in changes:
            seen.append((change.type, change.object.data.get("x")))
            if change.type == "DELETED":
                break
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


async def test_a_watch_ends_when_the_server_ends_it(client: Client, namespace: str) -> None:
    start = (await client.list(ConfigMap, namespace)).resource_version
    async with asyncio.timeout(20):
        changes = [
            change
            async for change in client.watch(
                ConfigMap, namespace, resource_version=start, timeout_seconds=1
            )
        ]
    assert {change.type for change in changes} <= {"BOOKMARK"}


async def test_objects_of_more_than_a_megabyte_pass_a_watch(client: Client, namespace: str) -> None:
    start = (await client.list(ConfigMap, namespace)).resource_version
    big = "x" * 1_040_000
    for name in ("a", "b"):
        await client.create(ConfigMap.named(name, data={"big": big}), namespace)
    seen = []
    async with aclosing(client.watch(ConfigMap, namespace, resource_version=start)) as changes:
        async for change in changes:
            seen.append(change.object)
            if len(seen) == 2:
                break
    assert [len(item.data["big"]) for item in seen] == [len(big), len(big)]


async def test_a_silent_watch_counts_as_a_dead_connection(client: Client, namespace: str) -> None:
    start = (await client.list(ConfigMap, namespace)).resource_version
    with pytest.raises(errors.Silent):
        async for _ in client.watch(ConfigMap, namespace, resource_version=start, idle_timeout=0.3):
            pass


async def test_many_requests_share_few_connections_beside_many_watches(
    api_server: Any, namespace: str
) -> None:
    from edgewise.kube.config import load_access

    async with Client(load_access(api_server.kubeconfig), connections=2) as few:
        start = (await few.list(ConfigMap, namespace)).resource_version

        async def first_change() -> str:
            async with aclosing(few.watch(ConfigMap, namespace, resource_version=start)) as it:
                async for change in it:
                    return change.object.metadata.name
            return ""

        watches = [asyncio.create_task(first_change()) for _ in range(10)]
        await asyncio.gather(
            *(few.create(ConfigMap.named(f"c{index}"), namespace) for index in range(20))
        )
        async with asyncio.timeout(20):
            names = await asyncio.gather(*watches)
        assert len(set(names)) == 1


async def test_a_namespaced_list_and_a_cluster_wide_kind(client: Client, namespace: str) -> None:
    found = await client.get(Namespace, namespace)
    assert found.key.namespace == ""
    assert namespace in {item.metadata.name for item in (await client.list(Namespace)).items}


async def test_an_object_that_does_not_fit_its_type_is_named(
    client: Client, namespace: str
) -> None:
    class NumbersOnly(ConfigMap):
        data: dict[str, int] = {}  # type: ignore[assignment]

    await client.create(ConfigMap.named("fits"), namespace)
    await client.create(ConfigMap.named("odd", data={"x": "text"}), namespace)
    for attempt in (client.get(NumbersOnly, "odd", namespace), client.list(NumbersOnly, namespace)):
        with pytest.raises(errors.Undecodable, match=f"ConfigMap {namespace}/odd .*int.*str"):
            await attempt


async def test_the_raw_door(client: Client) -> None:
    paths = msgspec.json.decode(await client.request("GET", "/apis"))
    assert "apps" in {group["name"] for group in paths["groups"]}


async def test_an_empty_name_never_becomes_a_request_about_all(client: Client) -> None:
    with pytest.raises(ValueError, match="a Pod cannot be addressed without its name"):
        await client.delete(Pod, "", "default")
    with pytest.raises(ValueError, match="a Pod cannot be addressed without its namespace"):
        await client.delete(Pod, "a")


@pytest.mark.parametrize("name", ["a/status", "..", "a%2Fstatus", "../../nodes/b"])
async def test_a_name_never_leads_to_another_path(client: Client, name: str) -> None:
    with pytest.raises(errors.Invalid, match="cannot be a name"):
        await client.get(ConfigMap, name, "default")
    with pytest.raises(errors.Invalid, match="cannot be a name"):
        await client.list(ConfigMap, name)


async def test_a_manifest_without_a_namespace_goes_to_the_one_of_the_context(
    client: Client, namespace: str
) -> None:
    client.access.namespace = namespace
    applied = await client.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    )
    assert applied["metadata"]["namespace"] == namespace
