"""Who may have what made, and what passes while no operator answers: on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.installation import install
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, Forbidden, Invalid, NotFound, ServerError
from edgewise.kube.kinds.admission import ValidatingWebhookConfiguration
from edgewise.kube.objects import Key
from edgewise.operator import CERTIFICATES_SECRET, WEBHOOKS
from edgewise.runtime.caching.shared_caches import SharedCaches
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.webhooks.reviewing import Reviewing, reviewing
from edgewise.runtime.webhooks.serving import Target
from edgewise.sessions.admission.known import webhooks_of_sessions
from edgewise.testing.eventually import eventually
from edgewise.testing.ports import free_port

API = "sessions.edgewise.dev/v1alpha1"
RBAC = "rbac.authorization.k8s.io"
CONTAINER = {"name": "main", "image": "room:1"}
HERE = {"connected": True}


class Scene:
    """A namespace, the webhooks of an operator, and people with few rights."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.port = free_port()

    @contextlib.asynccontextmanager
    async def operator(self, **options: Any) -> AsyncIterator[None]:
        caches = SharedCaches(self.client)
        how = Reviewing(
            name=WEBHOOKS,
            certificates=Key(self.namespace, CERTIFICATES_SECRET),
            target=Target(url=f"https://127.0.0.1:{self.port}"),
            port=self.port,
        )
        hooks = webhooks_of_sessions(self.client, caches, **options)
        async with reviewing(self.client, hooks, how, Metrics()):
            keeping = asyncio.create_task(caches.run())
            try:
                await caches.wait_synced()
                await eventually(self._asked, within=30)
                yield
            finally:
                keeping.cancel()
                await asyncio.wait((keeping,))

    async def _asked(self) -> bool:
        try:
            await self.write("admin", template("probe", containers=[]), dry_run=True)
        except Forbidden:
            return True
        except ServerError:
            return False  # registered, but not trusted yet
        return False

    async def write(
        self, who: str, manifest: dict[str, Any], *, method: str = "POST", dry_run: bool = False
    ) -> None:
        kind = SessionTemplate if manifest["kind"] == "SessionTemplate" else Session
        name = manifest["metadata"]["name"]
        await self.client.request(
            method,
            kind.KIND.path(self.namespace, name if method == "PATCH" else None),
            body=msgspec.json.encode(manifest),
            content_type="application/merge-patch+json"
            if method == "PATCH"
            else "application/json",
            headers={} if who == "admin" else {"Impersonate-User": who},
            params={"dryRun": "All"} if dry_run else {},
        )

    async def refusal(self, who: str, manifest: dict[str, Any], *, method: str = "POST") -> str:
        with pytest.raises(ApiError) as refused:
            await self.write(who, manifest, method=method)
        return str(refused.value)

    async def join(self, session: str, *clients: str) -> None:
        wanted = dict.fromkeys(clients, HERE)
        await self.write("admin", patch("Session", session, clients=wanted), method="PATCH")

    async def grant(self, who: str, name: str, *rules: dict[str, Any]) -> None:
        metadata = {"name": f"{who}-{name}", "namespace": self.namespace}
        role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata}
        await self.client.apply({**role, "rules": list(rules)})
        await self.client.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": metadata["name"]},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": who}],
            }
        )

    async def granted(self, who: str, manifest: dict[str, Any]) -> None:
        """The authorizer takes a moment to see a role."""

        async def written() -> bool:
            await self.write(who, manifest)
            return True

        await eventually(written, within=15, not_yet=(Forbidden,))


def rule(group: str, resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


SESSIONS_ONLY = (
    rule("sessions.edgewise.dev", "sessions", "*"),
    rule("sessions.edgewise.dev", "sessiontemplates", "*"),
)


def template(name: str = "room", resources: list[Any] | None = None, **pod: Any) -> dict[str, Any]:
    made = {"spec": {"containers": [CONTAINER], **pod}}
    spec: dict[str, Any] = {"podTemplates": [{"name": "main", "template": made}]}
    if resources:
        spec["resources"] = resources
    return {
        "apiVersion": API,
        "kind": "SessionTemplate",
        "metadata": {"name": name},
        "spec": spec,
    }


def inline(name: str = "s", **pod: Any) -> dict[str, Any]:
    return {**template(name, **pod), "kind": "Session"}


def session(name: str = "s", of: str = "room", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "Session",
        "metadata": {"name": name},
        "spec": {"templateRef": {"name": of}, **spec},
    }


def patch(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def scene(client: Client, namespace: str) -> AsyncIterator[Scene]:
    await install(client, (Session, SessionTemplate, PortClaim))
    yield Scene(client, namespace)
    with contextlib.suppress(NotFound):
        await client.delete(ValidatingWebhookConfiguration, WEBHOOKS)


POWERFUL = {
    "containers": [{**CONTAINER, "securityContext": {"privileged": True}}],
    "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    "serviceAccountName": "boss",
}
OPEN = {
    "name": "door",
    "manifest": {
        "kind": "Service",
        "spec": {"externalIPs": ["192.0.2.1"], "ports": [{"port": 80}]},
    },
}


async def test_rights_on_sessions_alone_make_no_pods(scene: Scene) -> None:
    """All verbs on sessions and templates, as roles often have it, and nothing else."""
    async with scene.operator():
        await scene.grant("eve", "sessions", *SESSIONS_ONLY)

        async def refused(manifest: dict[str, Any]) -> str:
            said = ""

            async def by_the_webhook() -> bool:
                nonlocal said
                said = await scene.refusal("eve", manifest)
                return "cannot create resource" not in said  # the role is not seen yet

            await eventually(by_the_webhook, within=15)
            return said

        for manifest in (template(**POWERFUL), inline(**POWERFUL), template()):
            said = await refused(manifest)
            assert "spec.podTemplates[0]: eve may not create pods in the namespace" in said

        await scene.grant("eve", "pods", rule("", "pods", "create"))
        await scene.granted("eve", template("plain"))
        said = await refused(template(**POWERFUL))
        assert "spec.serviceAccountName: eve may not impersonate serviceaccounts boss" in said
        said = await refused(template(resources=[OPEN]))
        assert "spec.resources[0].manifest: eve may not create services" in said

        await scene.grant(
            "eve",
            "more",
            {**rule("", "serviceaccounts", "impersonate"), "resourceNames": ["boss"]},
            rule("", "services", "create"),
        )
        await scene.granted("eve", template("powerful", [OPEN], **POWERFUL))


async def test_a_template_that_is_being_deleted_makes_no_pods_that_its_author_may_not(
    scene: Scene,
) -> None:
    """It stays while anybody uses it, and pods are made from it all the while."""
    kept = template("trap")
    kept["metadata"]["finalizers"] = ["example.com/not-yet"]
    async with scene.operator():
        await scene.grant("eve", "sessions", *SESSIONS_ONLY)
        await scene.write("admin", kept)
        await scene.granted("eve", session("s", of="trap", clients={"eve": HERE}))
        await scene.client.delete(SessionTemplate, "trap", scene.namespace)
        change = patch("SessionTemplate", "trap", **template(**POWERFUL)["spec"])
        said = await scene.refusal("eve", change, method="PATCH")
        assert "spec.podTemplates[0]: eve may not create pods in the namespace" in said
        freed = {"kind": "SessionTemplate", "metadata": {"name": "trap", "finalizers": None}}
        await scene.write("eve", freed, method="PATCH")


async def test_who_follows_a_template_needs_no_pods_of_its_own(scene: Scene) -> None:
    async with scene.operator():
        await scene.write("admin", template())
        await scene.grant("ann", "sessions", *SESSIONS_ONLY)
        await scene.granted("ann", session(clients={"a": HERE}))
        # Parts that make no objects are not asked about, those that do are.
        await scene.write("ann", patch("SessionTemplate", "room", timeoutSeconds=5), method="PATCH")
        pods = template(hostNetwork=True)["spec"]["podTemplates"]
        said = await scene.refusal(
            "ann", patch("SessionTemplate", "room", podTemplates=pods), method="PATCH"
        )
        assert "ann may not create pods" in said


async def test_an_explicit_right_and_a_switch_let_authors_pass(scene: Scene) -> None:
    await scene.grant("bob", "sessions", *SESSIONS_ONLY)
    async with scene.operator():
        await scene.grant("bob", "trusted", rule("sessions.edgewise.dev", "authors", "escalate"))
        await scene.granted("bob", template("trusted", [OPEN], **POWERFUL))
    await scene.grant("cat", "sessions", *SESSIONS_ONLY)
    async with scene.operator(check_authors=False):
        await scene.granted("cat", template("unchecked", **POWERFUL))


IMPOSSIBLE = {
    "an unknown field": ({"contaners": []}, 'unknown field "spec.contaners"'),
    "a container name that cannot be": (
        {"containers": [{**CONTAINER, "name": "M_X"}]},
        "spec.containers[0].name: Invalid value",
    ),
    "a field of a wrong type": ({"hostNetwork": "yes"}, "hostNetwork"),
}


async def test_pods_that_can_never_be_made_are_refused_with_their_template(scene: Scene) -> None:
    async with scene.operator():
        for pod, sentence in IMPOSSIBLE.values():
            for manifest in (template(**pod), inline(**pod)):
                with pytest.raises(Invalid) as refused:
                    await scene.write("admin", manifest)
                said = str(refused.value)
                assert "spec.podTemplates[0].template: " in said
                assert sentence in said


async def test_pods_that_a_quota_forbids_just_now_are_no_reason_to_refuse(scene: Scene) -> None:
    await scene.client.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": scene.namespace},
            "spec": {"hard": {"pods": "0"}},
        }
    )
    async with scene.operator():
        await scene.write("admin", template())


async def test_names_that_lead_elsewhere_get_a_sentence(scene: Scene) -> None:
    async with scene.operator():
        for name in ("../../x", "=hello", "hello,metadata.name=hello", "A"):
            with pytest.raises(Invalid, match=r"templateRef\.name must be a name"):
                await scene.write("admin", session(of=name))


async def test_json_without_end_gets_a_sentence(scene: Scene) -> None:
    async with scene.operator():
        await scene.write("admin", template())
        await scene.write("admin", session())
        for levels in (150, 3000):
            deep = '{"a":' * levels + "1" + "}" * levels
            body = f'{{"spec":{{"clients":{{"ann":{deep}}}}}}}'.encode()
            with pytest.raises((Forbidden, Invalid), match="nested deeper than 100 levels"):
                await scene.client.request(
                    "PATCH",
                    Session.KIND.path(scene.namespace, "s"),
                    body=body,
                    content_type="application/merge-patch+json",
                )


async def test_clients_come_and_go_while_no_operator_answers(scene: Scene) -> None:
    async with scene.operator():
        await scene.write("admin", {**template(), "spec": {**template()["spec"], "maxClients": 2}})
        await scene.write("admin", session(clients={"ann": HERE}))
        with pytest.raises(Forbidden, match="the session is full, maxClients is 2"):
            await scene.join("s", "bob", "cat")
        with pytest.raises(Forbidden, match=r"the client id '\.\./x' must have"):
            await scene.join("s", "../x")
    # The operator is gone, and its webhooks are still registered.
    await scene.join("s", "bob")
    gone = patch("Session", "s", clients={"ann": None, "bob": {"connected": False}})
    await scene.write("admin", gone, method="PATCH")
    found = await scene.client.get(Session, "s", scene.namespace)
    assert found.spec.clients == {"bob": {"connected": False}}
    for manifest, method in (
        (session("another"), "POST"),
        (template("another"), "POST"),
        (patch("SessionTemplate", "room", timeoutSeconds=5), "PATCH"),
    ):
        with pytest.raises(ServerError, match="failed calling webhook"):
            await scene.write("admin", manifest, method=method)
    async with scene.operator():
        with pytest.raises(Forbidden, match="the session is full"):
            await scene.join("s", "cat", "dan")


async def test_a_change_of_anything_else_waits_for_an_operator(scene: Scene) -> None:
    async with scene.operator():
        await scene.write("admin", inline())
    both = patch("Session", "s", clients={"ann": HERE}, timeoutSeconds=5)
    with pytest.raises(ServerError, match="failed calling webhook"):
        await scene.write("admin", both, method="PATCH")
    await scene.join("s", "ann")
