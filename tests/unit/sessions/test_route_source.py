"""What the gateway makes of a session, change by change."""

import time

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.gateway.routing import Routing
from edgewise.agents.gateway.settings import Settings
from edgewise.api.exposure import Port
from edgewise.api.sessions import ClientStatus, Revision, Session, SessionSpec, SessionStatus
from edgewise.kube.objects import ObjectMeta
from edgewise.runtime.caching.cache import Cache
from edgewise.sessions.route_source import RoutedSession, SessionRoutes, routes_of

WEB = Port(name="web", port=80)
GAME = Port(name="game", port=7777, protocol="UDP")


class Watched:
    """A cache that is fed with sessions as the API server writes them."""

    def __init__(self, **more):
        metrics = GatewayMetrics(CollectorRegistry())
        self.routing = Routing(Settings(**more), metrics, time.monotonic)
        self.cache = Cache(RoutedSession, trim=SessionRoutes().trim)
        SessionRoutes().follow(self.cache, self.routing, wildcard=more.get("domain", ""))
        self.revision = 0

    def feed(self, document):
        self.revision += 1
        document["metadata"]["resourceVersion"] = str(self.revision)
        self.cache.apply(msgspec.json.decode(msgspec.json.encode(document), type=RoutedSession))

    def show(self, session):
        self.feed(msgspec.to_builtins(session))

    def delete(self, session):
        document = msgspec.to_builtins(session)
        self.revision += 1
        document["metadata"]["resourceVersion"] = str(self.revision)
        gone = msgspec.convert(document, type=Session)
        self.cache.apply(
            msgspec.json.decode(msgspec.json.encode(gone), type=RoutedSession), deleted=True
        )

    @property
    def served(self):
        return dict(self.routing._table.served)


def session(clients, pods, *, name="s", uid="u1", exposure="Gateway", ports=(WEB, GAME)):
    return Session(
        metadata=ObjectMeta(name=name, namespace="ns", uid=uid),
        spec=SessionSpec(clients={key: {"connected": True} for key in clients}),
        status=SessionStatus(
            clients=clients,
            pods={"r1": pods},
            revisions={"r1": Revision(pod_template="app", exposure=exposure, ports=list(ports))},
        ),
    )


def client(pod, seat, port=20001, token=""):
    endpoints = {"web": f"http://gw:8080/s/{seat}/web/"}
    if port:
        endpoints["game"] = f"udp://gw:{port}"
    tokens = {"app": token} if token else {}
    return ClientStatus(ready=True, pods={"app": pod}, endpoints={"app": endpoints}, tokens=tokens)


def test_a_client_is_served_from_when_its_endpoints_are_published_until_it_leaves():
    watched = Watched()
    watched.show(session({"a": ClientStatus(pods={"app": "p"})}, {"p": "10.0.0.1"}))
    assert watched.served == {}
    watched.show(session({"a": client("p", "seat-a")}, {"p": "10.0.0.1"}))
    assert {(route.protocol, route.address) for route in watched.served.values()} == {
        ("HTTP", "10.0.0.1"),
        ("UDP", "10.0.0.1"),
    }
    watched.show(session({}, {"p": "10.0.0.1"}))
    assert watched.served == {}


def test_a_pod_that_moves_takes_its_clients_along():
    watched = Watched()
    watched.show(session({"a": client("p", "seat-a")}, {"p": "10.0.0.1"}))
    watched.show(session({"a": client("p", "seat-a")}, {"p": "10.0.0.2"}))
    assert {route.address for route in watched.served.values()} == {"10.0.0.2"}
    watched.show(session({"a": client("p", "seat-a")}, {"p": ""}))
    assert watched.served == {}


def test_what_a_pod_exposes_follows_its_revision():
    watched = Watched()
    one = {"a": client("p", "seat-a")}
    watched.show(session(one, {"p": "10.0.0.1"}))
    watched.show(session(one, {"p": "10.0.0.1"}, ports=(WEB,)))
    assert [route.protocol for route in watched.served.values()] == ["HTTP"]
    watched.show(session(one, {"p": "10.0.0.1"}, exposure="None"))
    assert watched.served == {}


def test_a_successor_of_the_same_name_is_another_session():
    watched = Watched()
    one = session({"a": client("p", "seat-a")}, {"p": "10.0.0.1"})
    watched.show(one)
    other = session({"a": client("p", "seat-a")}, {"p": "10.0.0.1"}, uid="u2")
    watched.show(other)
    assert watched.served == {route.id: route for route in routes_of(other)}
    assert watched.served != {route.id: route for route in routes_of(one)}


def test_a_deleted_session_is_served_no_more():
    watched = Watched()
    one = session({"a": client("p", "seat-a")}, {"p": "10.0.0.1"})
    watched.show(one)
    watched.delete(one)
    assert watched.served == {}
    watched.show(one)
    assert watched.served


def test_a_status_that_makes_no_sense_leaves_everybody_what_they_had(caplog):
    watched = Watched()
    one = session({"a": client("p", "seat-a")}, {"p": "10.0.0.1"})
    watched.show(one)
    before = watched.served
    broken = msgspec.to_builtins(one)
    broken["status"]["clients"] = ["not", "a", "map"]
    watched.feed(broken)
    assert watched.served == before
    assert "cannot be read" in caplog.text
    half = session(
        {"a": client("p", "seat-a", 20002), "b": client("p", "seat-b")}, {"p": "10.0.0.1"}
    )
    half.status.clients["b"].endpoints["app"]["web"] = "http://[broken"
    watched.show(half)
    ports = {route.listen_port for route in watched.served.values()}
    assert ports == {0, 20002}


def test_with_a_domain_each_port_has_a_host_name():
    watched = Watched(domain="play.example.org", host_port=8081)
    one = session({"a": client("p", "seata", 0)}, {"p": "10.0.0.1"})
    one.status.clients["a"].endpoints["app"]["web"] = "http://web-seata.play.example.org/"
    watched.show(one)
    [route] = watched.served.values()
    assert (route.seat, route.hostname) == ("seata", "web-seata.play.example.org")


pods = st.sampled_from(["p1", "p2", "p3"])
clients = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.builds(
        client,
        pods,
        st.sampled_from(["s1", "s2", "s3", "s4"]),
        st.sampled_from([0, 20001, 20002, 20003]),
        st.sampled_from(["", "0" * 64]),
    ),
)
addresses = st.dictionaries(pods, st.sampled_from(["", "10.0.0.1", "10.0.0.2"]))
sessions = st.builds(
    session,
    clients,
    addresses,
    uid=st.sampled_from(["u1", "u2"]),
    exposure=st.sampled_from(["Gateway", "Gateway", "None"]),
    ports=st.sampled_from([(WEB, GAME), (WEB,)]),
)


def sound(one):
    """Whether no two clients share a seat or port: the operator sees to that."""
    routes = routes_of(one)
    places = [route.id for route in routes]
    places += [str(route.listen_port) for route in routes if route.listen_port]
    return len(places) == len(set(places))


@settings(max_examples=150)
@given(st.lists(sessions.filter(sound), min_size=1, max_size=8))
def test_change_by_change_it_arrives_where_it_would_have_started(history):
    watched = Watched()
    for one in history:
        watched.show(one)
    assert watched.served == {route.id: route for route in routes_of(history[-1])}
