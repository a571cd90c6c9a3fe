"""The program that `bench runtime` measures: copies each spec to its status.

    python -m edgewise.bench.runtime.copy_controller KUBECONFIG CONTEXT TOKEN_FILE NAMESPACE OBJECTS

It says on standard output when it has reconciled every object, and where its metrics are.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from edgewise.bench.runtime.account import access_of
from edgewise.bench.runtime.copies import Copy, CopyStatus
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.objects import Key
from edgewise.runtime.controller import Controller
from edgewise.runtime.manager import Listen, Manager
from edgewise.runtime.requeue import Requeue

RECONCILED = "reconciled"


class CopyController(Controller[Copy]):
    async def reconcile(self, copy: Copy) -> Requeue | None:
        await self.api.write_status(copy, CopyStatus(value=copy.spec.value))
        return None


class CountingCopyController(CopyController, Controller[Copy]):
    """Knows when it has seen as many objects as there are."""

    def __init__(self, objects: int) -> None:
        self.objects = objects
        self.seen: set[Key] = set()
        self.seen_all = asyncio.Event()

    async def reconcile(self, copy: Copy) -> Requeue | None:
        answer = await super().reconcile(copy)
        if not self.seen_all.is_set():
            self.seen.add(copy.key)
            if len(self.seen) >= self.objects:
                self.seen_all.set()
        return answer


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main(access: Access, namespace: str, objects: int) -> None:
    controller = CountingCopyController(objects)
    async with Client(access) as client:
        manager = Manager(
            client, [controller], name="bench", namespace=namespace, listen=Listen(port=0)
        )
        running = asyncio.create_task(manager.run())
        await controller.seen_all.wait()
        say(f"{RECONCILED} http://127.0.0.1:{manager.health.port if manager.health else 0}")
        await running


if __name__ == "__main__":
    _, config, chosen, token, space, number = sys.argv
    uvloop.run(main(access_of(config, chosen, token), space, int(number)))
