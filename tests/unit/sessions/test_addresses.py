"""Addresses: written, read back, and turned into routes and objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.exposure import Port
from edgewise.api.sessions import ClientStatus, Revision, Session, SessionSpec, SessionStatus
from edgewise.exposure.endpoints import port_in, port_url, seat_in, seat_url
from edgewise.exposure.route import Route
from edgewise.exposure.seats import SEAT_LENGTH, seat_id, seat_token, token_hash
from edgewise.exposure.site import Site
from edgewise.kube.kinds.core import Node, Pod
from edgewise.kube.kinds.gateway_api import HTTPRoute
from edgewise.kube.objects import Key, ObjectMeta
from edgewise.sessions import names
from edgewise.sessions.route_source import routes_of
from edgewise.sessions.seats.manifests import http_route, listener_set, port_route, seat_service
from edgewise.workloads.children import ChildService
from edgewise.workloads.names import pod_name
from tests.unit.sessions.world import NAMESPACE, SITE, Operator, World, pod_template

KEY = b"k" * 32
SEAT = seat_id(KEY, "uid", "ann", "main")
HTTP = Port(name="http", port=8080)
UDP = Port(name="game", port=7777, protocol="UDP")

SITES = {
    "by path": Site(seat_key=KEY, public_url="https://edge.example/"),
    "by path below a prefix": Site(seat_key=KEY, public_url="https://edge.example/rooms"),
    "by host": Site(seat_key=KEY, public_url="https://edge.example", domain="rooms.example"),
    "by host and port": Site(
        seat_key=KEY, public_url="http://edge.example", domain="rooms.example", domain_port=8443
    ),
}


@pytest.mark.parametrize("site", SITES)
def test_a_seat_is_read_back_from_its_address(site: str) -> None:
    assert seat_in(seat_url(SITES[site], SEAT, "http")) == SEAT


@pytest.mark.parametrize("host", ["edge.example", "203.0.113.7", "2001:db8::7"])
@pytest.mark.parametrize("protocol", ["UDP", "TCP"])
def test_a_port_is_read_back_from_its_address(host: str, protocol: str) -> None:
    assert port_in(port_url(protocol, host, 20001)) == 20001


@pytest.mark.parametrize("text", ["", "nonsense", "http://", "udp://host:port", "udp://h:99999999"])
def test_what_is_no_address_leads_nowhere(text: str) -> None:
    assert port_in(text) == 0
    assert len(seat_in(text)) < SEAT_LENGTH


def test_seats_differ_and_stay() -> None:
    seats = {
        seat_id(key, uid, client, template)
        for key in (KEY, b"other")
        for uid in ("u1", "u2")
        for client in ("ann", "bob")
        for template in ("main", "chat")
    }
    assert len(seats) == 16
    assert seat_id(KEY, "uid", "ann", "main") == SEAT
    assert names.seat_service_name(SEAT).isascii()


def test_a_token_says_nothing_about_its_hash() -> None:
    token = seat_token(KEY, SEAT)
    assert token != SEAT
    assert token not in token_hash(token)


def session(**fields: Any) -> Session:
    status: dict[str, Any] = {
        "clients": {
            "ann": ClientStatus(
                pods={"main": "p0"},
                endpoints={
                    "main": {
                        "http": seat_url(SITES["by path"], SEAT, "http"),
                        "game": port_url("UDP", "edge.example", 20001),
                    }
                },
                tokens={"main": "f" * 64},
            )
        },
        "pods": {"main-1": {"p0": "10.0.0.5"}},
        "revisions": {
            "main-1": Revision(pod_template="main", exposure="Gateway", ports=[HTTP, UDP])
        },
        **fields,
    }
    return Session(
        metadata=ObjectMeta(name="s", namespace="n", uid="uid"),
        spec=SessionSpec(),
        status=SessionStatus(**status),
    )


def test_routes_come_from_the_status_alone() -> None:
    http, udp = routes_of(session())
    assert http == Route(SEAT, "http", "HTTP", 0, "10.0.0.5", 8080, "f" * 64)
    assert (udp.protocol, udp.listen_port, udp.target_port) == ("UDP", 20001, 7777)
    assert udp.token_sha256 == ""
    assert udp.seat != SEAT, "whoever knows the port must not learn the path"


WITHOUT_ROUTES = {
    "its pod has no address": {"pods": {"main-1": {"p0": ""}}},
    "its pod is not recorded": {"pods": {}},
    "its revision is not recorded": {"revisions": {}},
    "it was not told yet": {"clients": {"ann": ClientStatus(pods={"main": "p0"})}},
    "others lead there": {
        "revisions": {"main-1": Revision(pod_template="main", exposure="NodePort", ports=[HTTP])}
    },
}


@pytest.mark.parametrize("case", WITHOUT_ROUTES)
def test_there_is_no_route_for_a_client_when(case: str) -> None:
    assert routes_of(session(**WITHOUT_ROUTES[case])) == []


def test_a_seat_also_has_a_host_name_where_there_is_a_domain() -> None:
    http, udp = routes_of(session(), wildcard="rooms.example")
    assert http.hostname == f"http-{SEAT}.rooms.example"
    assert udp.hostname == ""


REVISION = Revision(pod_template="main", exposure="NodePort", ports=[HTTP, UDP])


def test_the_service_of_a_seat_leads_to_one_pod() -> None:
    service = seat_service("seat-x", "n", "p0", REVISION)
    assert service["spec"]["selector"] == {names.POD: "p0"}
    assert service["spec"]["type"] == "NodePort"
    assert [port["protocol"] for port in service["spec"]["ports"]] == ["TCP", "UDP"]


def test_objects_of_the_gateway_api() -> None:
    route = http_route("r", "n", "infra/edge", service="seat-x", port=HTTP, path="/s/x/http")
    (rule,) = route["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/s/x/http"}}]
    assert rule["backendRefs"] == [{"name": "seat-x", "port": 8080}]
    assert route["spec"]["parentRefs"][0]["namespace"] == "infra"
    listeners = listener_set("l", "n", "infra/edge", UDP, 20001)
    assert listeners["spec"]["listeners"][0]["port"] == 20001
    udp = port_route("u", "n", "l", "seat-x", UDP)
    assert udp["kind"] == "UDPRoute"
    assert udp["spec"]["parentRefs"][0]["sectionName"] == "game"


async def test_with_the_gateway_api_a_client_is_ready_when_its_routes_are_accepted() -> None:
    world = World(msgspec.structs.replace(SITE, gateway="infra/edge"))
    ports = [{"name": "http", "port": 80}, {"name": "game", "port": 7, "protocol": "UDP"}]
    world.template(exposure="GatewayAPI", podTemplates=[pod_template(ports=ports)])
    world.session(ann=True)
    operator = Operator(world)
    await world.settle(operator)
    assert not world.get().status.clients["ann"].ready
    made = {
        kind.kind: (kind, next(iter(objects)))
        for kind, objects in world.store.objects.items()
        if kind.kind in ("HTTPRoute", "UDPRoute", "ListenerSet", "Service")
    }
    assert made.keys() == {"HTTPRoute", "UDPRoute", "ListenerSet", "Service"}
    yes = [{"type": "Accepted", "status": "True"}]
    for name in ("HTTPRoute", "UDPRoute"):
        kind, key = made[name]
        world.store.patch(kind, key, {"status": {"parents": [{"conditions": yes}]}})
    await world.settle(operator)
    assert not world.get().status.clients["ann"].ready
    kind, key = made["ListenerSet"]
    world.store.patch(kind, key, {"status": {"conditions": yes}})
    await world.settle(operator)
    world.check()
    before = world.get().status.clients["ann"]
    assert before.ready
    assert before.endpoints["main"]["game"].startswith("udp://edge.example:2")
    world.clients(ann=None)
    await world.settle(operator)
    world.check()
    assert not any(objects for kind, objects in world.store.objects.items() if kind.kind in made)
    assert Key(NAMESPACE, "s") in world.store.objects[Session.KIND]


LONG_NAME = "a-very-long-name-of-a-session-that-somebody-has-chosen-for-fun.x"


def test_names_are_short_enough_and_never_the_same() -> None:
    made = {
        pod_name(owner, uid, template, number)
        for owner in ("s", "s-main", LONG_NAME, LONG_NAME[:-1] + "y")
        for uid in ("u1", "u2")
        for template in ("main", "x" * 20)
        for number in (0, 1, 99_999)
    }
    assert len(made) == 4 * 2 * 2 * 3
    assert all(len(name) <= 63 and name[-1].isalnum() for name in made)
    assert len(names.bound_name(LONG_NAME, "x" * 20, "Session")) <= 52


async def test_without_a_gateway_to_hang_routes_on_a_sentence_says_so() -> None:
    cases = {
        "": (frozenset({"HTTPRoute"}), "start the operator with --gateway-api"),
        "infra/edge": (frozenset({"HTTPRoute"}), "the kind ListenerSet and UDPRoute of gateway"),
    }
    for gateway, (kinds, sentence) in cases.items():
        world = World(msgspec.structs.replace(SITE, gateway=gateway, gateway_kinds=kinds))
        ports = [{"name": "http", "port": 80}, {"name": "game", "port": 7, "protocol": "UDP"}]
        world.template(exposure="GatewayAPI", podTemplates=[pod_template(ports=ports)])
        world.session(ann=True)
        operator = Operator(world)
        await world.settle(operator)
        status = world.get().status
        assert not status.clients["ann"].ready
        assert sentence in status.clients["ann"].message
        degraded = {each.type: each for each in status.conditions}["Degraded"]
        assert (degraded.reason, degraded.status) == ("GatewayApiMissing", "True")
        assert sentence in degraded.message
        known = {each.KIND.kind for each in operator.sessions.child_kinds}
        assert known.isdisjoint({"UDPRoute", "ListenerSet"}), "what is not there is not watched"


def host_port_world() -> World:
    world = World()
    world.template(exposure="HostPort")
    for name, address in (("node-1", "192.0.2.1"), ("node-2", "192.0.2.2")):
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        world.store.create(Node.KIND, {"metadata": {"name": name}})
        world.store.patch(Node.KIND, Key("", name), {"status": status}, "status")
    return world


def wishes(pod: Pod) -> list[str]:
    """Nodes on which the pod would rather run."""
    found = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = found.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    return [value for each in terms for value in each["preference"]["matchFields"][0]["values"]]


async def test_a_host_port_and_its_node_are_asked_for_again() -> None:
    world = host_port_world()
    world.session(ann=True)
    operator = Operator(world)
    await world.settle(operator)
    before = world.get().status.clients["ann"]
    [pod] = world.store.all(Pod)
    assert wishes(pod) == []
    world.delete(Pod, pod.metadata.name)
    await world.settle(operator)
    world.check()
    after = world.get().status.clients["ann"]
    assert after.pods != before.pods
    assert after.endpoints == before.endpoints
    [successor] = world.store.all(Pod)
    assert wishes(successor) == ["node-1"]


async def test_a_host_port_that_somebody_else_has_meanwhile_is_not_asked_for() -> None:
    world = host_port_world()
    world.session(ann=True)
    operator = Operator(world)
    await world.settle(operator)
    [pod] = world.store.all(Pod)
    before = world.get().status.clients["ann"]
    raw = world.store.get(Pod, pod.key)
    stolen = {"metadata": {"name": "thief", "namespace": NAMESPACE}, "spec": raw["spec"]}
    stolen["metadata"]["labels"] = {names.POD_TEMPLATE: "x"}
    world.store.create(Pod.KIND, msgspec.json.decode(msgspec.json.encode(stolen)))
    world.delete(Pod, pod.metadata.name)
    await world.settle(operator)
    after = world.get().status.clients["ann"]
    assert after.ready
    assert after.endpoints != before.endpoints


PORTS = [{"name": "http", "port": 80}, {"name": "game", "port": 7, "protocol": "UDP"}]
ELSEWHERE = {"public_url": "https://new.example/rooms", "public_host": "new.example"}
DOMAIN = {"domain": "rooms.example", "domain_port": 8443}
MOVED = {
    "another URL and host": ("Gateway", ELSEWHERE),
    "another URL and host, by the cluster's Gateway": ("GatewayAPI", ELSEWHERE),
    "another host for its ports alone": ("Gateway", {"public_host": "ports.example"}),
    "a wildcard domain": ("Gateway", DOMAIN),
}


@pytest.mark.parametrize("case", MOVED)
async def test_who_sits_already_is_told_when_the_entry_moves_to(case: str) -> None:
    exposure, change = MOVED[case]
    world = World(msgspec.structs.replace(SITE, gateway="infra/edge"))
    world.template(exposure=exposure, podTemplates=[pod_template(ports=PORTS)])
    world.session(ann=True)
    await settled_with_routes(world, Operator(world))
    before = world.get().status.clients["ann"]
    assert before.ready
    world.site = msgspec.structs.replace(world.site, **change)
    operator = Operator(world)
    await settled_with_routes(world, operator)
    world.check()
    after = world.get().status.clients["ann"]
    told, now = before.endpoints["main"], after.endpoints["main"]
    assert after.ready
    # Another way to the same seat and the same port.
    assert now["http"] == seat_url(world.site, seat_in(told["http"]), "http")
    assert now["game"] == port_url("UDP", world.site.public_host, port_in(told["game"]))
    assert now != told
    version = world.store.version
    await world.settle(operator)
    assert world.store.version == version, "and that is all"


async def test_the_clusters_gateway_knows_no_domain_of_ours() -> None:
    world = World(msgspec.structs.replace(SITE, gateway="infra/edge", **DOMAIN))
    world.template(exposure="GatewayAPI", podTemplates=[pod_template(ports=PORTS)])
    world.session(ann=True)
    await settled_with_routes(world, Operator(world))
    endpoint = world.get().status.clients["ann"].endpoints["main"]["http"]
    [route] = world.store.objects[HTTPRoute.KIND].values()
    [rule] = route["spec"]["rules"]
    path = rule["matches"][0]["path"]["value"]
    assert endpoint == f"http://edge.example{path}/"
    assert path.startswith("/s/")


async def settled_with_routes(world: World, operator: Operator) -> None:
    """A Gateway that accepts every route."""
    yes = [{"type": "Accepted", "status": "True"}]
    status = {"parents": [{"conditions": yes}], "conditions": yes}
    for _ in range(2):
        await world.settle(operator)
        for kind, objects in world.store.objects.items():
            if kind.kind in ("HTTPRoute", "UDPRoute", "ListenerSet"):
                for key in list(objects):
                    world.store.patch(kind, key, {"status": status})
    await world.settle(operator)


async def test_while_gateways_are_silent_a_moved_client_is_not_called_ready() -> None:
    world = World()
    world.template(podTemplates=[pod_template(ports=PORTS)])
    world.session(ann=True)
    await world.settle(Operator(world))
    world.site = msgspec.structs.replace(SITE, domain="rooms.example")
    world.gateways.silent = True
    operator = Operator(world)
    await world.settle(operator)
    assert not world.get().status.clients["ann"].ready
    world.gateways.silent = False
    await world.advance(120, operator)
    assert world.get().status.clients["ann"].ready


async def test_a_key_that_was_lost_changes_the_address_of_newcomers_only() -> None:
    world = World()
    world.template(podTemplates=[pod_template(ports=PORTS)])
    world.session(ann=True)
    await world.settle(Operator(world))
    before = world.get().status.clients["ann"].endpoints
    world.site = msgspec.structs.replace(SITE, seat_key=b"another" * 5)
    await world.settle(Operator(world))
    assert world.get().status.clients["ann"].endpoints == before


async def test_without_an_entry_clients_wait_and_are_told_for_what() -> None:
    world = World(msgspec.structs.replace(SITE, public_url="", public_host=""))
    world.template(podTemplates=[pod_template(ports=PORTS)])
    world.session(ann=True)
    operator = Operator(world)
    await world.settle(operator)
    status = world.get().status
    assert not status.clients["ann"].ready
    assert "--public-url" in status.clients["ann"].message
    degraded = {each.type: each for each in status.conditions}["Degraded"]
    assert (degraded.reason, degraded.status) == ("NoPublicAddress", "True")
    world.site = SITE
    await world.settle(Operator(world))
    assert world.get().status.clients["ann"].ready


async def test_a_port_that_changes_its_protocol_gets_another_address() -> None:
    world = World(msgspec.structs.replace(SITE, public_url="http://edge.example:8443"))
    world.template(podTemplates=[pod_template(ports=[{"name": "x", "port": 80}])])
    world.session(ann=True)
    operator = Operator(world)
    await world.settle(operator)
    udp = [{"name": "x", "port": 80, "protocol": "UDP"}]
    world.edit_template(podTemplates=[pod_template(ports=udp)])
    await world.settle(operator)
    world.delete(Pod, world.pod_of("ann"))
    await world.settle(operator)
    world.check()
    url = world.get().status.clients["ann"].endpoints["main"]["x"]
    assert url.startswith("udp://edge.example:20"), url


# Through a Service of the seat's own -----------------------------------------------------


def address(node: str, ip: str, world: World) -> None:
    if Key("", node) not in world.store.objects.get(Node.KIND, {}):
        world.store.create(Node.KIND, {"metadata": {"name": node}})
    status = {"addresses": [{"type": "InternalIP", "address": ip}]}
    world.store.patch(Node.KIND, Key("", node), {"status": status}, "status")


async def allocated(world: World, operator: Operator, *, port: int, ingress: str = "") -> Key:
    """The seat's Service, once the cluster has given it what it needs."""
    await world.settle(operator)
    [(kind, key)] = [
        (kind, key)
        for kind, objects in world.store.objects.items()
        if kind.kind == "Service"
        for key in objects
    ]
    ports = [{"name": "http", "port": 80, "nodePort": port}]
    status = {"loadBalancer": {"ingress": [{"ip": ingress}] if ingress else []}}
    world.store.patch(kind, key, {"spec": {"ports": ports}, "status": status})
    await world.settle(operator)
    return key


def through_a_service(exposure: str) -> World:
    world = World()
    address("node-1", "192.0.2.1", world)
    address("node-2", "192.0.2.2", world)
    world.template(
        exposure=exposure, podTemplates=[pod_template(ports=[{"name": "http", "port": 80}])]
    )
    world.session(ann=True)
    return world


def told(world: World) -> tuple[bool, str]:
    ann = world.get().status.clients["ann"]
    return ann.ready, ann.endpoints.get("main", {}).get("http", "")


async def test_a_node_port_that_the_service_lost_is_not_called_open() -> None:
    world = through_a_service("NodePort")
    operator = Operator(world)
    key = await allocated(world, operator, port=30001)
    assert told(world) == (True, "http://192.0.2.1:30001/")
    world.delete(ChildService, key.name)
    await world.settle(operator)
    assert told(world)[0] is False, "the new Service has no port yet"
    await allocated(world, operator, port=30002)
    assert told(world) == (True, "http://192.0.2.1:30002/")


async def test_a_node_port_stays_where_it_is_when_the_pod_moves() -> None:
    world = through_a_service("NodePort")
    operator = Operator(world)
    await allocated(world, operator, port=30001)
    world.node = "node-2"
    world.delete(Pod, world.pod_of("ann"))
    await allocated(world, operator, port=30001)
    assert told(world) == (True, "http://192.0.2.1:30001/"), "any node leads there"


@pytest.mark.parametrize("what", ["is removed", "is lost"])
async def test_a_node_port_moves_when_its_node(what: str) -> None:
    world = through_a_service("NodePort")
    operator = Operator(world)
    await allocated(world, operator, port=30001)
    world.node = "node-2"
    world.delete(Pod, world.pod_of("ann"))
    await allocated(world, operator, port=30001)
    if what == "is removed":
        world.store.delete(Node.KIND, Key("", "node-1"), {})
    else:
        world.set_node("node-1", lost=True)
    await world.settle(operator)
    assert told(world) == (True, "http://192.0.2.2:30001/")


async def test_another_host_for_node_ports_reaches_who_sits_already() -> None:
    world = through_a_service("NodePort")
    await allocated(world, Operator(world), port=30001)
    world.site = msgspec.structs.replace(SITE, node_host="nodes.example")
    await world.settle(Operator(world))
    assert told(world) == (True, "http://nodes.example:30001/")


async def test_a_load_balancer_that_gets_another_address_is_followed() -> None:
    world = through_a_service("LoadBalancer")
    operator = Operator(world)
    await allocated(world, operator, port=0, ingress="203.0.113.1")
    assert told(world) == (True, "http://203.0.113.1:80/")
    await allocated(world, operator, port=0, ingress="")
    assert told(world)[0] is False
    await allocated(world, operator, port=0, ingress="203.0.113.2")
    assert told(world) == (True, "http://203.0.113.2:80/")
