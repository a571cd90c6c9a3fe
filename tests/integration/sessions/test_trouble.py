"""What the API server itself refuses, and what becomes of those who wait for it."""

from __future__ import annotations

from typing import Any

from edgewise.kube.kinds.core import Pod, ResourceQuota
from edgewise.kube.kinds.events import Event
from edgewise.testing.eventually import eventually
from tests.integration.sessions.stage import Stage, pod_template


async def set_quota(stage: Stage, **status: dict[str, str]) -> None:
    """In place of the quota controller, which is no part of an API server."""
    await stage.client.patch(
        ResourceQuota, "few", stage.namespace, body={"status": status}, subresource="status"
    )


async def with_quota(stage: Stage, pods: int) -> None:
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": stage.namespace},
        "spec": {"hard": {"pods": str(pods)}},
    }
    await stage.client.apply(manifest)
    await set_quota(stage, hard={"pods": str(pods)}, used={"pods": "0"})


async def test_a_quota_is_told_in_its_own_words_and_a_recovery_gets_the_room(stage: Stage) -> None:
    await with_quota(stage, 1)
    await stage.template()
    async with stage.operator():
        await stage.session("s", "ann")
        await stage.ready("ann")
        await stage.clients(bob=True, cat=True)

        async def told() -> None:
            record = await stage.record("bob")
            assert record.reason == "PodsRefused"
            assert "exceeded quota: few, requested: pods=1, used: pods=1" in record.message

        await eventually(told)
        before = (await stage.record("ann")).pods["main"]
        await stage.client.delete(Pod, before, stage.namespace, grace_seconds=0)

        async def asked_in_vain() -> None:
            assert (await stage.record("ann")).reason == "PodsRefused"

        await eventually(asked_in_vain)
        await set_quota(stage, used={"pods": "0"})
        await stage.ready("ann")
        assert not (await stage.record("bob")).ready
        found = await stage.client.list(Event, stage.namespace)
        refusals = [each.note for each in found.items if each.reason == "PodsRefused"]
        assert len(refusals) <= 1, refusals

        await set_quota(stage, hard={"pods": "9"})
        await stage.ready("ann", "bob", "cat")
        assert not (await stage.get()).status.refusals


async def test_a_pod_that_the_api_server_finds_invalid_is_told(stage: Stage) -> None:
    spec = {"containers": [{"name": "M_X", "image": "room:1"}]}
    await stage.template(podTemplates=[pod_template(template={"spec": spec})])
    async with stage.operator():
        await stage.session("s", "ann")

        async def told() -> None:
            record = await stage.record("ann")
            assert record.reason == "PodsRefused"
            assert "spec.containers[0].name" in record.message
            assert not record.failures

        await eventually(told)
        await stage.template()  # mended: nobody waits for the next attempt
        await stage.ready("ann")
