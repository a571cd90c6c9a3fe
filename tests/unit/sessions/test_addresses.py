"""Addresses: written, read back, and turned into routes and objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.sessions import (
    ClientStatus,
    Port,
    Revision,
    Session,
    SessionSpec,
    SessionStatus,
)
from edgewise.kube.core import Node, Pod
from edgewise.kube.objects import Key, ObjectMeta
from edgewise.sessions import names
from edgewise.sessions.endpoints import port_in, port_url, seat_in, seat_url
from edgewise.sessions.exposure import http_route, listener_set, port_route, seat_service
from edgewise.sessions.routes import Route, routes_of
from edgewise.sessions.seats import SEAT_LENGTH, seat_id, seat_token, token_hash
from edgewise.sessions.site import Site
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
    http, udp = routes_of(session(), domain="rooms.example")
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
        names.pod_name(owner, uid, template, number)
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
