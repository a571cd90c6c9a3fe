"""What the chart's Job does before a removal, with the rights that it has, and no operator."""

import asyncio
import contextlib
import secrets

import msgspec
import pytest
import yaml

from edgewise.api.exposure import PortClaim
from edgewise.api.games import Allocation, Server
from edgewise.api.sessions import Session, SessionTemplate
from edgewise.domain import all_kinds
from edgewise.exposure.seat_key import SEAT_KEY_SECRET
from edgewise.gameservers import names as games
from edgewise.gameservers.protection import budget
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.kinds.admission import ValidatingWebhookConfiguration
from edgewise.kube.kinds.apps import Deployment
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import ConfigMap, Namespace, Pod, Secret, Service
from edgewise.kube.kinds.extensions import CustomResourceDefinition
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.operator import CERTIFICATES_SECRET, DOMAINS, LEASE
from edgewise.sessions import names
from edgewise.testing.eventually import eventually
from edgewise.uninstall import Uninstaller, UninstallError
from edgewise.workloads.children import CHILD
from tests.integration.chart.conftest import CHART

GROUP = SessionTemplate.KIND.api_version
CONTAINERS = {"containers": [{"name": "c", "image": "none"}]}
# A pod that has a node ends when its kubelet says so.
RUNNING = {**CONTAINERS, "nodeName": "node-1"}
# Seconds in which a busy API server deletes what nobody holds. No pod ends: there is no kubelet.
QUICK = 6.0
# A webhook that nobody answers any more.
UNANSWERED = [
    {
        "name": "all.sessions.edgewise.dev",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "rules": [
            {
                "apiGroups": ["sessions.edgewise.dev"],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["*"],
            }
        ],
    }
]


# No administrator may end a game: the policy lets only Edgewise's own programs.
AS_UNINSTALL = (("Impersonate-User", games.UNINSTALL_USER), ("Impersonate-Group", "system:masters"))


class Remains:
    """What an operator that ended in the middle of its work has left."""

    def __init__(self, client: Client, system: str):
        self.client = client
        self.system = system
        self.namespace = f"rooms-{secrets.token_hex(3)}"

    async def post(self, api_version, kind, path, name, **content):
        metadata = {"name": name, **content.pop("metadata", {})}
        body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
        answer = await self.client.request("POST", path, body=msgspec.json.encode(body))
        return msgspec.json.decode(answer)

    async def make(self, kind, name, **content):
        where = self.namespace if kind.KIND.namespaced else None
        path = kind.KIND.path(where)
        return await self.post(kind.KIND.api_version, kind.KIND.kind, path, name, **content)

    async def leave(self, *finalizers):
        await self.client.create(Namespace.named(self.namespace))
        pod_template = {"name": "main", "template": {"spec": CONTAINERS}}
        template = await self.make(
            SessionTemplate,
            "room",
            metadata={"finalizers": [names.TEMPLATE_FINALIZER, *finalizers]},
            spec={"podTemplates": [pod_template]},
        )
        session = await self.make(Session, "s", spec={"templateRef": {"name": "room"}})
        await self.make(
            PortClaim,
            f"udp-{20000 + secrets.randbelow(9999)}",
            spec={
                "domain": names.DOMAIN,
                "owner": f"{self.namespace}/s",
                "uid": session["metadata"]["uid"],
                "holder": "ann/main",
                "port": "game",
            },
        )
        for name, owner in (("own", session), ("warm", template)):
            labels = {names.POD_TEMPLATE: "main"}
            await self.make(Pod, name, metadata=owned(owner, labels), spec=RUNNING)
        await self.make(Pod, "theirs", metadata={"labels": labels}, spec=RUNNING)
        await self.make(
            Lease,
            "warm",
            metadata={"labels": {names.TEMPLATE_UID: "x"}, "annotations": {names.POD_UID: "y"}},
        )
        child = owned(session, {CHILD: "true"})
        await self.make(Service, "seat-x", metadata=child, spec={"ports": [{"port": 80}]})
        await self.make(ConfigMap, "bound", metadata=child)
        await self.leave_a_match()
        for name in (CERTIFICATES_SECRET, SEAT_KEY_SECRET):
            await self.client.create(Secret.named(name, self.system))
        await self.client.patch(
            ValidatingWebhookConfiguration, "edgewise", body={"webhooks": UNANSWERED}
        )

    async def leave_a_match(self):
        """A game server that somebody plays on, with all that protects it."""
        server = await self.make(
            Server,
            "match",
            metadata={"finalizers": [games.SERVER_FINALIZER]},
            spec={"pod": CONTAINERS},
        )
        protected = owned(server, {games.PROTECTED: "match"})
        await self.make(Pod, games.pod_of("match"), metadata=protected, spec=RUNNING)
        taken = {"serverUid": server["metadata"]["uid"], "match": "m"}
        await self.make(Allocation, "match", spec=taken)
        await self.client.create(budget(self.namespace))

    async def count(self, kind):
        where = self.namespace if kind.KIND.namespaced else None
        return len((await self.client.list(kind, where)).items)

    async def secrets(self):
        found = (await self.client.list(Secret, self.system)).items
        ours = {CERTIFICATES_SECRET, SEAT_KEY_SECRET, "edgewise-control-token"}
        return {each.metadata.name for each in found} & ours

    async def end(self):
        """For the next test, which looks at all namespaces."""
        access = msgspec.structs.replace(self.client.access, impersonation=AS_UNINSTALL)
        kinds = (SessionTemplate, Session, PortClaim, Lease, Service, ConfigMap, Server, Allocation)
        async with Client(access) as client:
            for kind in (*kinds, PodDisruptionBudget, Pod):
                where = self.namespace if kind.KIND.namespaced else None
                for each in (await client.list(kind, where)).items:
                    name = each.metadata.name
                    if each.metadata.finalizers:
                        await self.let_go(kind, name)
                    with contextlib.suppress(NotFound):
                        await client.delete(kind, name, where or "", grace_seconds=0)

    async def let_go(self, kind=SessionTemplate, name="room"):
        """Somebody else takes off the finalizer that is not ours."""
        body = {"metadata": {"finalizers": None}}
        await self.client.patch(kind, name, self.namespace, body=body)


def owned(owner, labels):
    meta = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
    return {"labels": labels, "ownerReferences": [reference]}


@pytest.fixture
async def remains(client, installed):
    remains = Remains(client, installed)
    yield remains
    await remains.end()


@pytest.fixture
def hook(client, helm, installed, account, tmp_path):
    """Does the Job's work with the Job's rights."""

    async def run(*, keep, timeout=30.0, server_seconds=0.0):
        text = helm(
            *("template", "edge", CHART, "--namespace", installed),
            *("--set", f"crds.keep={str(keep).lower()}"),
        )
        # The Job, its account, and what each domain grants to it.
        documents = [
            each
            for each in yaml.safe_load_all(text)
            if each and each["metadata"]["name"].startswith("edgewise-uninstall")
        ]
        [job] = [each for each in documents if each["kind"] == "Job"]
        [container] = job["spec"]["template"]["spec"]["containers"]
        for each in documents:
            if each is not job:
                await client.apply(each)
        said = []
        async with Client(load_access(await account("edgewise-uninstall"))) as limited:
            work = Uninstaller(
                limited, installed, said.append, timeout=timeout, server_seconds=server_seconds
            )
            await work.run(delete_sessions="--delete-sessions" in container["args"])
        return said

    return run


async def test_kept_sessions_wait_for_nobody(client, remains, hook):
    await remains.leave("example.org/theirs")
    await hook(keep=True)
    with pytest.raises(NotFound):
        await client.get(ValidatingWebhookConfiguration, "edgewise")
    template = await client.get(SessionTemplate, "room", remains.namespace)
    assert template.metadata.finalizers == ["example.org/theirs"]
    assert not template.metadata.deleting
    assert [await remains.count(kind) for kind in (Session, Pod, Lease, Service)] == [1, 4, 1, 1]
    match = await client.get(Server, "match", remains.namespace)
    assert match.metadata.finalizers == [], "nobody is there who would take it off later"
    pod = await client.get(Pod, games.pod_of("match"), remains.namespace)
    assert not pod.metadata.deleting
    assert await remains.secrets() == {SEAT_KEY_SECRET, "edgewise-control-token"}
    scaled = await client.get(Deployment, "edgewise-operator", remains.system)
    assert scaled.spec["replicas"] == 0
    # And once more, as after a try that was cut off.
    await hook(keep=True)
    await remains.let_go()


async def test_what_is_not_kept_is_deleted_with_all_that_belongs_to_it(client, remains, hook):
    await remains.leave()

    async def protected():
        """The API server takes a policy into use a moment after it was made."""
        path = Pod.KIND.path(remains.namespace, games.pod_of("match"))
        try:
            await client.request("DELETE", path, params={"dryRun": "All"})
        except Forbidden as error:
            return "delete the Server instead" in str(error)
        return False

    await eventually(protected, within=20)
    removing = asyncio.create_task(hook(keep=False))

    async def kubelet():
        for pod in (await client.list(Pod, remains.namespace)).items:
            if pod.metadata.deleting:
                await client.delete(Pod, pod.metadata.name, remains.namespace, grace_seconds=0)
        assert removing.done()

    await eventually(kubelet, within=30, every=0.1)
    assert "nothing is left of any session" in await removing
    gone = (Session, SessionTemplate, PortClaim, Lease, Service)
    for kind in (*gone, Server, Allocation, PodDisruptionBudget):
        assert await remains.count(kind) == 0, kind
    left = [each.metadata.name for each in (await client.list(Pod, remains.namespace)).items]
    assert left == ["theirs"], "a label alone makes a pod nobody's"
    assert [
        each.metadata.name for each in (await client.list(ConfigMap, remains.namespace)).items
    ] in (
        [],
        ["kube-root-ca.crt"],
    )
    assert await remains.secrets() == {"edgewise-control-token"}, "which Helm deletes"


async def test_pods_that_end_slowly_hold_nothing_up(client, remains, hook):
    await remains.leave()
    said = await hook(keep=False, timeout=QUICK)
    assert any("on their way out, but slowly: Pod" in line for line in said), said


async def test_a_finalizer_of_somebody_else_is_named(remains, hook):
    await remains.leave("example.org/theirs")
    with pytest.raises(UninstallError, match=r"still there after 1 s: SessionTemplate .*/room"):
        await hook(keep=False, timeout=1.0)
    await remains.let_go()


async def test_an_operator_that_runs_elsewhere_is_named(client, remains, hook):
    await remains.leave()

    async def lead():
        number = 0
        while True:
            number += 1
            renewed = f"2030-01-01T00:00:00.{number:06d}Z"
            spec = {"holderIdentity": "laptop_1", "leaseDurationSeconds": 1, "renewTime": renewed}
            body = {"metadata": {"name": LEASE, "namespace": remains.system}, "spec": spec}
            await client.apply(
                {"apiVersion": Lease.KIND.api_version, "kind": Lease.KIND.kind, **body}
            )
            await asyncio.sleep(0.2)

    leading = asyncio.create_task(lead())
    try:
        with pytest.raises(UninstallError, match="an operator still leads as laptop_1"):
            await hook(keep=True, timeout=3.0)
    finally:
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
    # It was killed: its lease runs out, and nobody waits for its whole life.
    await hook(keep=True, timeout=10.0)


async def test_the_chart_is_not_installed_over_a_crd_that_is_on_its_way_out(
    client, helm, remains, hook
):
    """The order that used to be documented: first the chart, then the CRDs."""
    await remains.leave()
    helm("uninstall", "edge", "--namespace", remains.system, "--no-hooks")
    name = f"{SessionTemplate.KIND.plural}.{SessionTemplate.KIND.group}"
    await client.delete(CustomResourceDefinition, name)
    install = ("install", "edge", CHART, "--namespace", remains.system, "--take-ownership")
    with pytest.raises(AssertionError, match=r"is being deleted.*edgewise uninstall"):
        helm(*install)
    await hook(keep=False, timeout=QUICK)

    async def gone():
        try:
            found = await client.get(CustomResourceDefinition, name)
        except NotFound:
            return
        raise AssertionError(found)

    await eventually(gone, within=70)
    helm(*install)
    for kind in all_kinds(DOMAINS):
        await eventually(lambda kind=kind: client.list(kind), within=20)
    helm("uninstall", "edge", "--namespace", remains.system, "--no-hooks")


async def test_without_any_crd_there_is_nothing_to_do(client, installed, hook):
    for kind in all_kinds(DOMAINS):
        await client.delete(CustomResourceDefinition, f"{kind.KIND.plural}.{kind.KIND.group}")

    async def gone():
        assert (await client.list(CustomResourceDefinition)).items == []

    await eventually(gone, within=20)
    assert await hook(keep=False) == ["no operator runs", "nothing is left of any session"]
