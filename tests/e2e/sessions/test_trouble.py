"""Pods that a real kubelet cannot start or keep up, and a quota that a real controller counts."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from edgewise.api.sessions import DEFAULT_READY_SECONDS, ClientStatus, Session
from edgewise.kube.kinds.core import ResourceQuota
from tests.e2e.sessions.conftest import Rooms
from tests.e2e.sessions.workloads import NAMESPACE, key, pod_spec, pods, template

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]


def broken(how: str) -> dict[str, Any]:
    spec = pod_spec()
    container = spec["containers"][0]
    match how:
        case "image":
            container["image"] = "edgewise.local/not-there:1"
        case "probe":
            container["readinessProbe"] = {"tcpSocket": {"port": 9999}, "periodSeconds": 1}
        case "cpu":
            container["resources"] = {"requests": {"cpu": "100"}}
        case "crash":
            container["command"] = ["sh", "-c", "sleep 1; exit 3"]
    return spec


WORDS = {
    "image": "edgewise.local/not-there:1",
    "probe": "TCP at port 9999",
    "cpu": "Insufficient cpu",
    "crash": "with code 3",
}


@pytest.mark.parametrize("how", WORDS)
async def test_a_client_says_what_is_wrong_and_follows_the_corrected_template(
    how: str, rooms: Rooms
) -> None:
    name = f"broken-{how}"
    await rooms.make(name, pods(seats=4, pod=broken(how)))
    await rooms.say(name, {"ann": True})
    waiting = await rooms.until(name, "ann", lambda has: WORDS[how] in has.message)
    assert waiting.reason
    await rooms.client.apply(template(name, pods(seats=4)))
    began = time.monotonic()
    ann, bob = await rooms.join(name, "ann", "bob")
    assert ann.pods == bob.pods
    assert time.monotonic() - began < DEFAULT_READY_SECONDS, "it waited for its deadline"
    assert (ann.reason, ann.message, ann.late) == ("", "", False)
    await rooms.delete(name)


async def test_a_container_that_crashes_again_and_again_gets_another_pod(rooms: Rooms) -> None:
    spec = pod_spec()
    server = spec["containers"][0]["command"]
    spec["containers"][0]["command"] = ["timeout", "2", *server]
    await rooms.make("crashes", pods(pod=spec))
    (ann,) = await rooms.join("crashes", "ann")
    first = ann.pods["server"]

    def replaced(has: ClientStatus) -> bool:
        return has.ready and has.pods["server"] != first

    # The kubelet alone would restart its container for ever, and never replace the pod.
    await rooms.until("crashes", "ann", replaced)
    session = await rooms.client.get(Session, "crashes", NAMESPACE)
    assert session.status.recoveries >= 1
    await rooms.delete("crashes")


async def test_a_recovery_does_not_wait_for_those_who_were_refused(rooms: Rooms) -> None:
    await rooms.make("full")
    (ann, _) = await rooms.join("full", "ann", "bob")
    there = len([pod for pod in rooms.pods.cache.all(NAMESPACE) if not pod.metadata.deleting])
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": str(there)}},
    }
    await rooms.client.apply(quota)
    try:
        await _until_counted(rooms, there)
        await rooms.say("full", {"cat": True, "dan": True})
        cat = await rooms.until("full", "cat", lambda has: has.reason)
        assert (cat.reason, "exceeded quota: few" in cat.message) == ("PodsRefused", True)
        await rooms.sessions.until(key("full"), _refused_often, "several refusals")
        lost = ann.pods["server"]
        began = time.monotonic()
        await rooms.kill(lost)
        await rooms.recovered("full", "ann", lost)
        assert time.monotonic() - began < 30, "it waited with those who were refused"
        seen = await rooms.client.get(Session, "full", NAMESPACE)
        assert not seen.status.clients["cat"].ready
    finally:
        await rooms.client.delete(ResourceQuota, "few", NAMESPACE)
    await rooms.until("full", "cat", lambda has: has.ready)
    await rooms.until("full", "dan", lambda has: has.ready)
    await rooms.delete("full")


def _refused_often(seen: Session | None) -> bool:
    return seen is not None and any(each.count >= 3 for each in seen.status.refusals.values())


async def _until_counted(rooms: Rooms, pods: int) -> None:
    async with asyncio.timeout(30):
        while True:
            found = await rooms.client.get(ResourceQuota, "few", NAMESPACE)
            if found.status.used.get("pods") == str(pods):
                return
            await asyncio.sleep(0.1)
