"""One stored object that does not fit its type, at a real API server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

import msgspec
import pytest

from edgewise.api.crd import CrdSpec
from edgewise.api.installation import install
from edgewise.api.schema import left_open
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound, Undecodable
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.kinds.events import Event
from edgewise.kube.objects import Key, Kind, Object, ObjectMeta, Record
from edgewise.runtime.controller import Controller
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, mapped
from edgewise.testing.eventually import eventually
from tests.integration.runtime.widgets import Running

OF = "runtime.test.edgewise.dev/of"


class GadgetSpec(Record):
    size: int = 0
    # The schema leaves open what the type does not.
    parts: Annotated[dict[str, int], left_open()] = {}


class Gadget(Object):
    """Something with a part that a person can break."""

    KIND: ClassVar = Kind("runtime.test.edgewise.dev", "v1", "Gadget", "gadgets")
    CRD: ClassVar = CrdSpec()

    spec: GadgetSpec = msgspec.field(default_factory=GadgetSpec)


def gadget_of(child: ConfigMap, _: CacheView) -> Iterable[Key]:
    return (Key(child.metadata.namespace, child.metadata.labels[OF]),)


class Gadgets(Controller[Gadget]):
    """Has one ConfigMap for each, and takes it away from those that are gone."""

    watches = (mapped(ConfigMap, gadget_of, labels=OF),)

    async def reconcile(self, obj: Gadget) -> Requeue | None:
        meta = obj.metadata
        child = ConfigMap.named(meta.name, meta.namespace, data={"size": str(obj.spec.size)})
        child.metadata = ObjectMeta(
            name=meta.name, namespace=meta.namespace, labels={OF: meta.name}
        )
        await self.api.apply(child)
        return None

    async def gone(self, key: Key) -> None:
        child = self.cache[ConfigMap].get(key)
        if child is not None:
            await self.api.delete(child)


@pytest.fixture
async def gadgets(client: Client) -> type[Gadget]:
    await install(client, [Gadget])
    return Gadget


class Scene:
    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    async def make(self, name: str) -> None:
        await self.client.create(Gadget.named(name, self.namespace))

    async def set(self, name: str, **spec: Any) -> None:
        path = Gadget.KIND.path(self.namespace, name)
        await self.client.request(
            "PATCH",
            path,
            body=msgspec.json.encode({"spec": spec}),
            content_type="application/merge-patch+json",
        )

    async def size(self, name: str) -> str:
        try:
            return (await self.client.get(ConfigMap, name, self.namespace)).data["size"]
        except NotFound:
            return "none"

    async def becomes(self, name: str, size: str) -> None:
        async def it_is() -> bool:
            return await self.size(name) == size

        await eventually(it_is, within=20)

    async def told(self) -> list[str]:
        found = await self.client.list(Event, self.namespace)
        return [each.note for each in found.items if each.reason == "Unreadable"]


async def test_its_neighbours_go_on_and_what_belongs_to_it_stays(
    client: Client, namespace: str, gadgets: type[Gadget], run: Running
) -> None:
    scene = Scene(client, namespace)
    cache = f"gadgets[{namespace}]"
    await scene.make("odd")
    await scene.make("good")
    async with run(client, Gadgets()) as manager:
        await scene.becomes("odd", "0")
        await scene.becomes("good", "0")
        await scene.set("odd", parts={"a": "many"}, size=7)
        await scene.set("good", size=1)
        await scene.becomes("good", "1")
        assert await scene.size("odd") == "0", "nothing is done by what cannot be read"
        assert manager.metrics.value("edgewise_cache_unreadable_objects", cache=cache) == 1

    with pytest.raises(Undecodable, match=f"Gadget {namespace}/odd does not fit its type"):
        await client.get(Gadget, "odd", namespace)
    # A new process has never seen a version of it that it could read.
    async with run(client, Gadgets()) as manager:
        await scene.set("good", size=2)
        await scene.becomes("good", "2")
        # Whatever of it changes must not make it look deleted.
        await client.patch(ConfigMap, "odd", namespace, body={"data": {"note": "touched"}})
        await scene.set("good", size=3)
        await scene.becomes("good", "3")
        assert await scene.size("odd") == "0"
        await manager.events.flush()
        assert any("odd does not fit its type" in note for note in await scene.told())

        await scene.set("odd", parts={"a": 5})
        await scene.becomes("odd", "7")
        assert manager.metrics.value("edgewise_cache_unreadable_objects", cache=cache) == 0

        await scene.set("odd", parts={"a": "many"})
        await client.delete(Gadget, "odd", namespace)
        await scene.becomes("odd", "none")
        assert await scene.size("good") == "3"
