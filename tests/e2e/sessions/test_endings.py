"""What comes with a session goes with it."""

from typing import Any

import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.kinds.apps import Deployment, Job, StatefulSet
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import ConfigMap, Service
from edgewise.kube.kinds.endpoints import EndpointSlice
from edgewise.sessions import names
from edgewise.testing.eventually import eventually
from tests.e2e.sessions.conftest import PATIENCE, Rooms
from tests.e2e.sessions.workloads import IMAGE, NAMESPACE, UDP, pods

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]

BOUND = (ConfigMap, Deployment, Service, StatefulSet, Job)


def resources(scope: str) -> list[dict[str, Any]]:
    labels = {"app": "helper"}

    def runs(command: list[str], **more: Any) -> dict[str, Any]:
        container = {"name": "main", "image": IMAGE, "command": command}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **more}
        return {"metadata": {"labels": labels}, "spec": spec}

    waits = ["python3", "-S", "-E", "-c", "import signal; signal.pause()"]
    serving = {"selector": {"matchLabels": labels}, "template": runs(waits)}
    specs: dict[str, dict[str, Any]] = {
        "ConfigMap": {"data": {"greeting": "hello"}},
        "Deployment": {"spec": serving},
        "Service": {"spec": {"selector": labels, "ports": [{"port": 80}]}},
        "StatefulSet": {"spec": {**serving, "serviceName": "none"}},
        "Job": {"spec": {"template": runs(["true"], restartPolicy="Never")}},
    }
    prefix = scope.lower()
    return [
        {"name": f"{prefix}-{kind.lower()}", "scope": scope, "manifest": {"kind": kind, **rest}}
        for kind, rest in specs.items()
    ]


async def bound_to(rooms: Rooms, label: str, uid: str) -> dict[str, Any]:
    """What is there now, by kind."""
    found = {}
    for kind in BOUND:
        for each in (await rooms.client.list(kind, NAMESPACE, labels=f"{label}={uid}")).items:
            found[kind.KIND.kind] = each
    return found


async def test_bound_resources_come_and_go_with_session_and_template(rooms: Rooms) -> None:
    both = [*resources("Session"), *resources("Template")]
    await rooms.make("bound", resources=both)
    session = await rooms.client.get(Session, "bound", NAMESPACE)
    template = await rooms.client.get(SessionTemplate, "bound", NAMESPACE)

    async def of_session() -> dict[str, Any]:
        return await bound_to(rooms, names.SESSION_UID, session.metadata.uid)

    async def of_template() -> dict[str, Any]:
        return await bound_to(rooms, names.TEMPLATE_UID, template.metadata.uid)

    async def all_there() -> None:
        assert (await of_session()).keys() == {kind.KIND.kind for kind in BOUND}

    await eventually(all_there, within=30, every=0.1)
    assert await of_template() == {}, "these wait for the first client"
    await rooms.join("bound", "ann")

    async def at_work() -> None:
        for found in (await of_session(), await of_template()):
            assert found["ConfigMap"].data == {"greeting": "hello"}
            assert found["Deployment"].status.ready_replicas == 1
            assert found["StatefulSet"].status.ready_replicas == 1
            assert found["Job"].status.succeeded == 1
            name = found["Service"].metadata.name
            slices = await rooms.client.list(
                EndpointSlice, NAMESPACE, labels=f"kubernetes.io/service-name={name}"
            )
            ready = [
                endpoint
                for each in slices.items
                for endpoint in each.endpoints or ()
                if endpoint.conditions.ready
            ]
            # The pods of Deployment and StatefulSet, and none of the other's scope.
            assert len(ready) == 2, name

    await eventually(at_work, within=PATIENCE, every=0.2)
    await rooms.leave("bound", "ann")

    async def only_the_session() -> None:
        assert await of_template() == {}
        assert len(await of_session()) == len(BOUND)

    await eventually(only_the_session, within=PATIENCE, every=0.1)
    await rooms.client.delete(Session, "bound", NAMESPACE)

    async def none() -> None:
        assert await of_session() == {}

    await eventually(none, within=PATIENCE, every=0.1)
    await rooms.client.delete(SessionTemplate, "bound", NAMESPACE)


async def test_a_deleted_session_leaves_nothing(rooms: Rooms) -> None:
    ports = [{"name": "game", "port": UDP, "protocol": "UDP"}, {"name": "http", "port": 8000}]
    await rooms.make("leaving", pods(ports=ports, service=True), timeoutSeconds=600)
    ann, _ = await rooms.join("leaving", "ann", "bob")
    uid = (await rooms.client.get(Session, "leaving", NAMESPACE)).metadata.uid
    label = f"{names.SESSION_UID}={uid}"
    assert len((await rooms.client.list(Service, NAMESPACE, labels=label)).items) == 2
    assert len(await claims(rooms, uid)) == 2
    await rooms.client.delete(Session, "leaving", NAMESPACE)

    async def nothing() -> None:
        assert rooms.pods_of("leaving") == []
        for kind in (*BOUND, Lease):
            assert (await rooms.client.list(kind, NAMESPACE, labels=label)).items == []
        assert await claims(rooms, uid) == []

    await eventually(nothing, within=PATIENCE, every=0.1)
    assert await rooms.status(ann.endpoints["server"]["http"]) == 404
    await rooms.client.delete(SessionTemplate, "leaving", NAMESPACE)


async def claims(rooms: Rooms, uid: str) -> list[PortClaim]:
    return [each for each in (await rooms.client.list(PortClaim)).items if each.spec.uid == uid]
