"""What is refused or warned of, asked of the review itself: with what a real API server knows."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from edgewise.api.installation import install
from edgewise.api.placement import NAME_LABEL, LatencyPlacement
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace, Node
from edgewise.kube.kinds.scheduling import PriorityClass
from edgewise.placement.admission import Admission
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.webhooks.admission import (
    AdmissionRequest,
    Allowed,
    Denied,
    UserInfo,
    Verdict,
)

SHARES = "api-server"
ADMIN = UserInfo(username="root", groups=["system:masters"])


class Ground:
    """A namespace with a Deployment `web`, and what is said of a placement for it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def make(self, kind: str, name: str, version: str = "v1", **rest: Any) -> None:
        meta = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": version, "kind": kind, "metadata": meta, **rest}
        await self.client.apply(body, field_manager="test")

    async def deploy(self, pod: dict[str, Any] | None = None, **spec: Any) -> None:
        labels = {"app": "web", NAME_LABEL: "web"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "web"}], **(pod or {})},
        }
        selector = {"matchLabels": {"app": "web"}}
        await self.make(
            "Deployment",
            "web",
            "apps/v1",
            spec={"selector": selector, "template": template, **spec},
        )

    async def service(self, **spec: Any) -> None:
        await self.make(
            "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
        )

    async def says(self, user: UserInfo = ADMIN, **spec: Any) -> Verdict:
        document = {
            "metadata": {"name": "web", "namespace": self.namespace},
            "spec": {"target": {"name": "web"}, **spec},
        }
        raw = msgspec.json.encode(document)
        asked = AdmissionRequest(
            uid="u",
            operation="CREATE",
            name="web",
            namespace=self.namespace,
            subresource="",
            user=user,
            object=msgspec.json.decode(raw, type=LatencyPlacement),
            old_object=None,
            dry_run=False,
            raw_object=raw,
        )
        return await Admission(self.client, SharedCaches(self.client)).review(asked)

    async def refuses(self, **asked: Any) -> str:
        verdict = await self.says(**asked)
        assert isinstance(verdict, Denied), verdict
        return verdict.sentence

    async def warns(self) -> tuple[str, ...]:
        verdict = await self.says()
        assert isinstance(verdict, Allowed), verdict
        return verdict.warnings


@pytest.fixture
async def ground(client: Client) -> AsyncIterator[Ground]:
    await install(client, (LatencyPlacement,))
    mark = secrets.token_hex(3)
    await client.create(Namespace.named(f"admit-{mark}"))
    names = [f"admit-{mark}-{number}" for number in range(3)]
    for name in names:
        await client.create(Node.named(name))
        # Nobody is here who would find it ready.
        await client.patch(Node, name, body={"spec": {"taints": None}})
    try:
        yield Ground(client, f"admit-{mark}")
    finally:
        for name in names:
            await client.delete(Node, name)


async def test_a_target_that_is_not_there_names_the_field(ground: Ground) -> None:
    said = await ground.refuses()
    assert said.startswith("spec.target: there is no Deployment web")


async def test_a_volume_of_one_node_is_refused(ground: Ground) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await ground.make("PersistentVolumeClaim", "disk", spec=claim)
    await ground.deploy(
        {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "disk"}}]}
    )
    said = await ground.refuses()
    assert said.startswith("spec.target: the volume disk of Deployment web is ReadWriteOnce")


async def test_a_volume_that_many_nodes_mount_is_not(ground: Ground) -> None:
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    await ground.make("PersistentVolumeClaim", "disk", spec=claim)
    await ground.deploy(
        {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "disk"}}]}
    )
    assert isinstance(await ground.says(), Allowed)


async def test_a_target_whose_pods_may_not_run_side_by_side_is_refused(ground: Ground) -> None:
    await ground.deploy(strategy={"type": "Recreate"})
    assert (await ground.refuses()).startswith("spec.target: Deployment web has the strategy")


async def test_no_service_in_front_is_warned_of(ground: Ground) -> None:
    await ground.deploy()
    (said,) = await ground.warns()
    assert said.startswith("no Service selects the pods of web")
    await ground.service()
    assert await ground.warns() == ()


async def test_session_affinity_is_warned_of(ground: Ground) -> None:
    await ground.deploy()
    await ground.service(sessionAffinity="ClientIP")
    (said,) = await ground.warns()
    assert said.startswith("Service web has sessionAffinity ClientIP")


@pytest.mark.parametrize(("policy", "warned"), [("PreemptLowerPriority", True), ("Never", False)])
async def test_a_priority_class_that_preempts_is_warned_of(
    ground: Ground, policy: str, warned: bool
) -> None:
    name = f"high-{secrets.token_hex(3)}"
    made = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
        "preemptionPolicy": policy,
    }
    await ground.client.apply(made, field_manager="test")
    try:
        await ground.deploy({"priorityClassName": name})
        await ground.service()
        said = await ground.warns()
        assert [f"the priority class {name} preempts" in each for each in said] == [True] * warned
    finally:
        await ground.client.delete(PriorityClass, name)


async def test_who_may_not_create_pods_gets_no_sentinels(ground: Ground) -> None:
    await ground.deploy()
    said = await ground.refuses(user=UserInfo(username="eve", groups=["system:authenticated"]))
    assert said.startswith("spec: eve may not create pods in the namespace")
