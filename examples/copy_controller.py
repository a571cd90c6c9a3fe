"""Copies every ConfigMap that asks for it into the namespace that it names.

kubectl annotate configmap settings example.edgewise.dev/copy-to=staging
"""

import asyncio
from collections.abc import Iterable

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.core import ConfigMap
from edgewise.kube.objects import Key
from edgewise.runtime.controller import Controller
from edgewise.runtime.manager import Manager
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, mapped

COPY_TO = "example.edgewise.dev/copy-to"
COPY_OF = "example.edgewise.dev/copy-of"


def original_of(copy: ConfigMap, _: CacheView) -> Iterable[Key]:
    namespace, _slash, name = copy.metadata.annotations.get(COPY_OF, "").partition("/")
    return [Key(namespace, name)] if name else []


class CopyController(Controller[ConfigMap]):
    watches = (mapped(ConfigMap, by=original_of),)

    async def reconcile(self, original: ConfigMap) -> Requeue | None:
        target = original.metadata.annotations.get(COPY_TO)
        if target:
            copy = ConfigMap.named(original.metadata.name, target, data=original.data)
            copy.metadata.annotations[COPY_OF] = str(original.key)
            present = self.cache[ConfigMap].get(copy.key)
            if present is None or present.data != copy.data:
                await self.api.apply(copy)
                self.events.normal(original, "Copied", f"copied to {target}")
        return None


async def main() -> None:
    async with Client(load_access()) as client:
        await Manager(client, [CopyController()]).run()


if __name__ == "__main__":
    asyncio.run(main())
