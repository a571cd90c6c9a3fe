"""Writes that an API server answers with an object which is no more."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.kinds.core import ConfigMap, Namespace, Pod
from edgewise.kube.objects import Key
from edgewise.runtime.api import Api
from edgewise.runtime.caching.selection import Selection
from edgewise.runtime.caching.shared_caches import SharedCaches

HELD = {"finalizers": ["test.edgewise.dev/hold"]}


async def made(client: Client, kind: str, namespace: str, name: str, **more: Any) -> None:
    metadata = {"name": name, **more.pop("metadata", {})}
    body = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}
    path = f"/api/v1/namespaces/{namespace}/{kind.lower()}s"
    await client.request("POST", path, body=msgspec.json.encode(body))


async def test_a_pod_that_goes_at_once_is_not_shown_as_going(
    client: Client, namespace: str
) -> None:
    spec = {
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "x"}],
    }
    on_a_node = {**spec, "nodeName": "n1"}
    await made(client, "Pod", namespace, "waits-for-a-node", spec=spec)
    await made(client, "Pod", namespace, "killed", spec=on_a_node)
    await made(client, "Pod", namespace, "asked-to-go", spec=on_a_node)
    caches = SharedCaches(client)
    pods = caches.of(Pod, Selection(namespace=namespace))
    await caches.refresh()
    api = Api(client, caches)
    for name, grace in (("waits-for-a-node", None), ("killed", 0), ("asked-to-go", None)):
        pod = pods.find(name, namespace)
        assert pod is not None
        await api.delete(pod, grace_seconds=grace)
    (left,) = pods.all()
    assert (left.metadata.name, left.metadata.deleting) == ("asked-to-go", True)


async def test_with_its_last_finalizer_an_object_goes_whoever_takes_it_away(
    client: Client, namespace: str
) -> None:
    for name in ("removed", "stale", "patched"):
        await made(client, "ConfigMap", namespace, name, metadata=HELD)
    caches = SharedCaches(client)
    configs = caches.of(ConfigMap, Selection(namespace=namespace))
    await caches.refresh()
    api = Api(client, caches)
    for config in configs.all():
        await api.delete(config)
    held = {config.metadata.name: config for config in configs.all()}
    assert all(config.metadata.deleting for config in held.values())
    assert len(held) == 3

    await api.remove_finalizer(held["removed"], HELD["finalizers"][0])
    await client.patch(ConfigMap, "stale", namespace, body={"data": {"by": "somebody else"}})
    await api.remove_finalizer(held["stale"], HELD["finalizers"][0])
    await api.patch(held["patched"], {"metadata": {"finalizers": []}})
    assert configs.all() == []


async def test_a_namespace_that_is_being_emptied_is_still_there(client: Client) -> None:
    await client.create(Namespace.named("emptied"))
    caches = SharedCaches(client)
    namespaces = caches.of(Namespace)
    await caches.refresh()
    found = namespaces.get(Key("", "emptied"))
    assert found is not None
    await Api(client, caches).delete(found)
    left = namespaces.get(Key("", "emptied"))
    assert left is not None
    assert left.metadata.deleting
