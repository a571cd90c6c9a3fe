"""What the API server itself refuses, and the sentence that says why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.installation import install
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client, Patch
from edgewise.kube.errors import Conflict, Invalid

API = "sessions.edgewise.dev/v1alpha1"
POD = {"spec": {"containers": [{"name": "main", "image": "room"}]}}


@pytest.fixture
async def served(client: Client) -> Client:
    await install(client, (Session, SessionTemplate, PortClaim))
    return client


def template(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "SessionTemplate",
        "spec": {"podTemplates": [{"name": "room", "template": POD}], **spec},
    }


def session(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "Session", "spec": spec}


def pod_template(**fields: Any) -> dict[str, Any]:
    return {"name": "room", "template": POD, **fields}


HTTP = {"name": "http", "port": 80}

REFUSED = {
    "a negative reconnection timeout": (
        template(timeoutSeconds=-1),
        "spec.timeoutSeconds",
    ),
    "a negative reuse timeout": (
        template(reutilizeTimeoutSeconds=-1),
        "spec.reutilizeTimeoutSeconds",
    ),
    "a negative limit of clients": (template(maxClients=-1), "spec.maxClients"),
    "an unknown way of reuse": (template(reuse="Always"), "spec.reuse"),
    "an unknown exposure": (template(exposure="Ingress"), "spec.exposure"),
    "a template without pods": (
        template(podTemplates=[]),
        "podTemplates must name at least one kind of pod",
    ),
    "two pod templates of one name": (
        template(podTemplates=[pod_template(), pod_template()]),
        "spec.podTemplates[1]: Duplicate value",
    ),
    "two ports of one name": (
        template(podTemplates=[pod_template(ports=[HTTP, {"name": "http", "port": 81}])]),
        "spec.podTemplates[0].ports[1]: Duplicate value",
    ),
    "a port that is exposed twice": (
        template(podTemplates=[pod_template(ports=[HTTP, {"name": "web", "port": 80}])]),
        "ports exposes the same port twice",
    ),
    "a port that does not exist": (
        template(podTemplates=[pod_template(ports=[{"name": "http", "port": 70000}])]),
        "spec.podTemplates[0].ports[0].port",
    ),
    "an unknown protocol": (
        template(podTemplates=[pod_template(ports=[{**HTTP, "protocol": "SCTP"}])]),
        "spec.podTemplates[0].ports[0].protocol",
    ),
    "a name that no pod can have": (
        template(podTemplates=[pod_template(name="Room_1")]),
        "spec.podTemplates[0].name",
    ),
    "a reset without a way": (
        template(podTemplates=[pod_template(reset={})]),
        "reset needs either httpPath or restartContainer",
    ),
    "a resource of an unknown scope": (
        template(resources=[{"name": "assets", "scope": "Cluster"}]),
        "spec.resources[0].scope",
    ),
    "a session without a workload": (session(), "say either templateRef or podTemplates"),
    "a session with two workloads": (
        session(templateRef={"name": "room"}, podTemplates=[pod_template()]),
        "say either templateRef or podTemplates",
    ),
    "a session that overrules its template": (
        session(templateRef={"name": "room"}, timeoutSeconds=5),
        "with templateRef, everything but clients is said by the template",
    ),
    "an inline session that shares its pods": (
        session(podTemplates=[pod_template()], reuse="Template"),
        "reuse Template needs a templateRef",
    ),
    "an inline session with warm pods": (
        session(podTemplates=[pod_template(warmPods=1)]),
        "warmPods needs a templateRef",
    ),
}

ACCEPTED = {
    "a small template": template(),
    "the same port by TCP and by UDP": template(
        podTemplates=[pod_template(ports=[HTTP, {"name": "voice", "port": 80, "protocol": "UDP"}])]
    ),
    "a reset by path": template(podTemplates=[pod_template(reset={"httpPath": "/reset"})]),
    "a session of a template": session(templateRef={"name": "room"}, clients={"ann": {}}),
    "an inline session": session(podTemplates=[pod_template()], reuse="Session"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused_is(case: str, served: Client, namespace: str) -> None:
    manifest, sentence = REFUSED[case]
    kind = SessionTemplate if manifest["kind"] == "SessionTemplate" else Session
    body = msgspec.json.encode({**manifest, "metadata": {"name": "x", "namespace": namespace}})
    with pytest.raises(Invalid) as refused:
        await served.request("POST", kind.KIND.path(namespace), body=body)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("case", ACCEPTED)
async def test_accepted_is(case: str, served: Client, namespace: str) -> None:
    await served.apply({**ACCEPTED[case], "metadata": {"name": "x", "namespace": namespace}})


async def test_a_name_that_is_no_label_is_refused(served: Client, namespace: str) -> None:
    manifest = template()
    with pytest.raises(Invalid, match="at most 63 characters"):
        await served.apply({**manifest, "metadata": {"name": "x" * 64, "namespace": namespace}})


async def test_who_owns_a_field_is_not_noted_for_each_client(
    served: Client, namespace: str
) -> None:
    """Managed fields of a thousand clients would double the object, and cost every write."""
    manifest = session(
        templateRef={"name": "room"}, clients={f"c-{n}": {"connected": True} for n in range(100)}
    )
    applied = await served.apply({**manifest, "metadata": {"name": "x", "namespace": namespace}})
    assert "c-99" not in str(applied["metadata"]["managedFields"])


async def test_clients_are_one_value_for_server_side_apply_and_many_for_a_merge_patch(
    served: Client, namespace: str
) -> None:
    """As the how-to says: what several managers may use, and what they may not."""
    pods = {"podTemplates": [pod_template()]}
    room = {**session(**pods), "metadata": {"name": "room", "namespace": namespace}}
    await served.apply(room, field_manager="gitops")

    async def merge(client: str, entry: dict[str, bool] | None) -> None:
        body = {"spec": {"clients": {client: entry}}}
        await served.patch(Session, "room", namespace, body=body, type=Patch.MERGE)

    async def clients() -> set[str]:
        return set((await served.get(Session, "room", namespace)).spec.clients)

    await merge("ann", {"connected": True})
    await merge("bob", {"connected": True})
    # A manifest that leaves the clients out does not touch them.
    await served.apply(room, field_manager="gitops")
    assert await clients() == {"ann", "bob"}
    await merge("bob", None)
    assert await clients() == {"ann"}

    cleo = {"clients": {"cleo": {"connected": True}}, **pods}
    with pytest.raises(Conflict):
        await served.apply({**room, "spec": cleo}, field_manager="other", force=False)
    await served.apply({**room, "spec": cleo}, field_manager="other")
    assert await clients() == {"cleo"}, "by force it puts out those of others"
