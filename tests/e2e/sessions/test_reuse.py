"""Pods that are used again: by whom, and how they are made clean before."""

import asyncio

import pytest

from edgewise.api.sessions import SessionTemplate
from edgewise.testing.eventually import eventually
from tests.e2e.sessions import workloads
from tests.e2e.sessions.conftest import Rooms
from tests.e2e.sessions.workloads import NAMESPACE, pods

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]

RESETS = {
    "asked": {"httpPath": "/reset"},
    "restarted": {"restartContainer": "server"},
}


async def test_a_reset_makes_a_pod_clean_for_the_next_client(rooms: Rooms) -> None:
    """Both ways at once, because a restart takes its time."""

    async def used_again(how: str) -> None:
        await rooms.make(how, pods(reset=RESETS[how]), reutilizeTimeoutSeconds=120)
        [ann] = await rooms.join(how, "ann")
        url = ann.endpoints["server"]["http"]
        for visit in (1, 2):
            assert (await rooms.ask(url))["visits"] == visit
        await rooms.leave(how, "ann")
        pod = ann.pods["server"]
        await rooms.idle(how, pod)
        [bob] = await rooms.join(how, "bob")
        assert bob.pods["server"] == pod
        seen = await rooms.ask(bob.endpoints["server"]["http"])
        assert seen == {"pod": pod, "version": "", "visits": 1}, "nothing of ann is left"
        assert bob.endpoints["server"]["http"] != url, "her address is hers"
        found = rooms.pods.cache.find(pod, NAMESPACE)
        assert found is not None
        restarts = sum(each.restart_count for each in found.status.container_statuses)
        assert restarts == (1 if how == "restarted" else 0)
        await rooms.delete(how)

    async with asyncio.TaskGroup() as tasks:
        for how in RESETS:
            tasks.create_task(used_again(how))


async def test_a_pod_is_used_by_another_session_of_the_template(rooms: Rooms) -> None:
    await rooms.make(
        "shared", pods(reset={"httpPath": "/reset"}), reuse="Template", reutilizeTimeoutSeconds=120
    )
    await rooms.client.apply(workloads.session("shared-2", "shared"))
    [ann] = await rooms.join("shared", "ann")
    assert (await rooms.ask(ann.endpoints["server"]["http"]))["visits"] == 1
    await rooms.leave("shared", "ann")

    # Until it is clean it is nobody's, and bob would get another one.
    await eventually(lambda: rooms.on_the_shelf(ann.pods["server"]), within=30)
    [bob] = await rooms.join("shared-2", "bob")
    assert bob.pods == ann.pods
    seen = await rooms.ask(bob.endpoints["server"]["http"])
    assert (seen["pod"], seen["visits"]) == (ann.pods["server"], 1)
    assert await rooms.status(ann.endpoints["server"]["http"]) in (404, 503)
    # The session for which the pod was made may go: the pod stays with who has it now.
    await rooms.remove("shared")
    assert (await rooms.ask(bob.endpoints["server"]["http"]))["pod"] == bob.pods["server"]
    await rooms.remove("shared-2")
    await rooms.client.delete(SessionTemplate, "shared", NAMESPACE)


async def test_a_warm_pod_is_given_at_once_and_replaced(rooms: Rooms) -> None:
    await rooms.make("warm", pods(warmPods=1))
    key = workloads.key("warm")
    await rooms.templates.until(key, lambda t: t is not None and t.status.warm == 1, "a warm pod")
    before = rooms.pods_of_template("warm")
    [ann] = await rooms.join("warm", "ann")
    assert [ann.pods["server"]] == before
    assert (await rooms.ask(ann.endpoints["server"]["http"]))["pod"] == ann.pods["server"]
    await eventually(lambda: len(rooms.pods_of_template("warm")) == 2, within=30)
    await rooms.delete("warm")
