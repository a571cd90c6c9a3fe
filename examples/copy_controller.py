"""Keeps a copy of every ConfigMap that wants one: kubectl label configmap settings copy=yes"""

import asyncio
import sys

from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import ConfigError
from edgewise.kube.kinds.core import ConfigMap
from edgewise.runtime import Controller, Manager, owned


class CopyController(Controller[ConfigMap]):
    watches = (owned(ConfigMap),)

    async def reconcile(self, original: ConfigMap) -> None:
        if original.metadata.labels.get("copy") == "yes":
            name, namespace = original.metadata.name, original.metadata.namespace
            copy = ConfigMap.named(f"{name}-copy", namespace, data=original.data)
            copy.metadata.owner_references = [original.owner_reference()]
            present = self.cache[ConfigMap].get(copy.key)
            if present is None or present.data != copy.data:
                await self.api.apply(copy)
                self.events.normal(original, "Copied", f"copied to {copy.key}")


async def main() -> None:
    async with Client(load_access()) as client:
        await Manager(client, [CopyController()]).run()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except ConfigError as error:
        sys.exit(str(error))
