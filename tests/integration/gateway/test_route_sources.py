"""The gateway knows no domain: what it serves comes from the sources that it is handed."""

import asyncio
import contextlib
import secrets
from typing import ClassVar

import msgspec
import pytest
import pytest_asyncio

from edgewise.agents.gateway.agent import Address, AgentOptions
from edgewise.agents.gateway.serving import serve_routes
from edgewise.agents.gateway.settings import Ports, SettingsError
from edgewise.api.crd import CrdSpec
from edgewise.api.exposure import Port
from edgewise.api.installation import install
from edgewise.api.sessions import ClientStatus, PodTemplate, Revision, Session, SessionSpec
from edgewise.exposure.publishing import Gateway, GatewayPublisher
from edgewise.exposure.route import Owner, Route
from edgewise.kube.client import Client, Patch
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import Namespace
from edgewise.kube.objects import Kind, Object, Record
from edgewise.sessions.route_source import SessionRoutes
from edgewise.testing.eventually import eventually
from edgewise.testing.gateway_rig import LOOPBACK, settings_for_test
from edgewise.testing.ports import free_port

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKEN = secrets.token_hex(16)


class ToySpec(Record):
    seat: str
    address: str
    port: int


class Toy(Object, kw_only=True):
    """What a domain of another kind might define: one place that clients come to."""

    # A group of its own: other tests on the same API server have toys of another shape.
    KIND: ClassVar = Kind("routed.test.edgewise.dev", "v1", "Toy", "toys")
    CRD: ClassVar = CrdSpec()

    spec: ToySpec


def route_to(toy: Toy) -> Route:
    spec = toy.spec
    return Route(spec.seat, "http", "HTTP", 0, spec.address, spec.port)


class ToyRoutes:
    """All that such a domain has to write for the gateway."""

    domain = "toys"
    kind = Toy

    def trim(self, obj):
        return obj

    def follow(self, cache, routing, *, wildcard):
        def changed(old, new, _):
            toy = new or old
            routes = [route_to(new)] if new is not None else []
            routing.show(Owner(self.domain, str(toy.key)), routes)

        return cache.subscribe(changed)


class Running:
    """A gateway in this process, with an Envoy of its own."""

    def __init__(self, api_server, run_dir, http):
        self._access = load_access(api_server.kubeconfig)
        self.http = http
        self.control = free_port()
        self.options = AgentOptions(
            settings=settings_for_test(ports=Ports(21380, 21389)),
            run_dir=run_dir,
            control=Address(LOOPBACK, self.control),
            token=lambda: TOKEN,
            workers=1,
            drain_seconds=0.5,
        )
        self._ended = asyncio.Event()

    @contextlib.asynccontextmanager
    async def serving(self, *sources):
        task = asyncio.create_task(serve_routes(self.options, self._access, sources, self._ended))
        try:
            yield
        finally:
            self._ended.set()
            await asyncio.wait_for(task, 20)

    async def readiness(self):
        try:
            async with self.http.get(f"http://{LOOPBACK}:{self.control}/readyz") as answer:
                return await answer.text()
        except OSError:
            return "not there"

    async def ready(self):
        async def is_ready():
            return await self.readiness() == "ok\n"

        await eventually(is_ready, within=30)

    async def pod_at(self, seat):
        """Who answers at a seat; nothing if there is no such seat."""
        port = self.options.settings.http_port
        async with self.http.get(f"http://{LOOPBACK}:{port}/s/{seat}/http/") as answer:
            return (await answer.json())["pod"] if answer.status == 200 else ""


@pytest_asyncio.fixture(loop_scope="module")
async def client(api_server):
    async with Client(load_access(api_server.kubeconfig)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def namespace(client):
    name = f"gw-{secrets.token_hex(4)}"
    await client.create(Namespace.named(name))
    return name


@pytest.fixture
def running(api_server, run_dir, http):
    return Running(api_server, run_dir, http)


async def seat_alice(client, namespace, pod, seat):
    """A session `one` with one client, as the operator writes it."""
    spec = SessionSpec(pod_templates=[PodTemplate(name="app", template={"spec": {}})])
    await client.create(Session.named("one", namespace, spec=spec), namespace)
    endpoints = {"app": {"http": f"http://gw/s/{seat}/http/"}}
    alice = ClientStatus(ready=True, pods={"app": "p"}, endpoints=endpoints)
    port = Port(name="http", port=pod.ports["HTTP"])
    revision = Revision(pod_template="app", exposure="Gateway", ports=[port])
    status = {
        "clients": {"alice": msgspec.to_builtins(alice)},
        "pods": {"r": {"p": LOOPBACK}},
        "revisions": {"r": msgspec.to_builtins(revision)},
    }
    body = {"status": status}
    await client.patch(Session, "one", namespace, body=body, type=Patch.MERGE, subresource="status")


async def test_a_gateway_serves_what_it_is_handed_and_keeps_domains_apart(
    client, namespace, running, pods
):
    """A toy and a session of one namespace and name: neither takes the other's routes."""
    await install(client, [Session, Toy])
    ours, theirs = await pods("session"), await pods("toy")
    await seat_alice(client, namespace, ours, "seata")
    toy = Toy.named(
        "one", namespace, spec=ToySpec(seat="toya", address=LOOPBACK, port=theirs.ports["HTTP"])
    )
    async with running.serving(SessionRoutes(), ToyRoutes()):
        await running.ready()
        assert await running.pod_at("seata") == "session"
        assert await running.pod_at("toya") == ""

        # Pushed ahead of the watch, as the controller of a domain does it.
        gateways = [Gateway(f"http://{LOOPBACK}:{running.control}")]
        publisher = GatewayPublisher(lambda: gateways, lambda: TOKEN, running.http, patience=10)
        ack = await publisher.publish(Owner("toys", f"{namespace}/one"), [route_to(toy)])
        assert ack.acked == {"toya/http"}, ack
        assert await running.pod_at("toya") == "toy"
        await client.create(toy, namespace)
        assert await running.pod_at("seata") == "session"

        await client.delete(Session, "one", namespace)
        await eventually(lambda: at(running, "seata", ""))
        assert await running.pod_at("toya") == "toy"
        await client.delete(Toy, "one", namespace)
        await eventually(lambda: at(running, "toya", ""))


async def at(running, seat, pod):
    return await running.pod_at(seat) == pod


class Ghost(Toy):
    """A toy whose CRD is not there yet."""

    KIND: ClassVar = Kind("ghosts.test.edgewise.dev", "v1", "Ghost", "ghosts")


class GhostRoutes(ToyRoutes):
    domain = "ghosts"
    kind = Ghost


async def test_a_source_whose_kind_the_cluster_does_not_have_is_left_out_until_it_appears(
    client, namespace, running, pods, caplog
):
    await install(client, [Session])
    pod = await pods("ghost")
    async with running.serving(SessionRoutes(), GhostRoutes()):
        await running.ready()
        assert "the cluster has no kind Ghost: routes of ghosts" in caplog.text
        await install(client, [Ghost])
        spec = ToySpec(seat="ghosta", address=LOOPBACK, port=pod.ports["HTTP"])
        await client.create(Ghost.named("one", namespace, spec=spec), namespace)
        await eventually(lambda: at(running, "ghosta", "ghost"), within=30)


async def test_two_sources_of_one_domain_are_refused(running):
    with pytest.raises(SettingsError, match="two route sources call their domain 'toys'"):
        async with running.serving(ToyRoutes(), ToyRoutes()):
            pass
