"""The delta protocol, against a model of an Envoy that takes, refuses and reconnects."""

import msgspec
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from edgewise.agents.gateway.desired import Desired
from edgewise.agents.gateway.resource import ResourceType
from edgewise.agents.gateway.settings import Settings
from edgewise.agents.gateway.subscriber import Said, Subscriber
from edgewise.exposure.route import Route

CLUSTER, ENDPOINTS = ResourceType.CLUSTER, ResourceType.ENDPOINTS
LISTENER, SCOPE = ResourceType.LISTENER, ResourceType.SCOPE


def http(seat, address="10.0.0.1"):
    return Route(seat, "web", "HTTP", 0, address, 80)


def udp(seat, port, address="10.0.0.1"):
    return Route(seat, "game", "UDP", port, address, 7777)


class ModelEnvoy:
    """Does with responses what Envoy does, and asserts what Envoy would suffer from."""

    def __init__(self, desired, bad=()):
        self.desired = desired
        self.bad = set(bad)
        self.has = {type: {} for type in ResourceType}
        self.received = []
        self.connect()

    def connect(self):
        self.subscriber = Subscriber(self.desired)
        self.now = 0.0
        self.asked = set()
        self.endpoints_wanted = {name for name in self.has[CLUSTER] if "/" in name}
        for type in (CLUSTER, LISTENER, SCOPE):
            self.subscriber.hear(Said(type=type, has=dict(self.has[type])), self.now)
        if self.endpoints_wanted:
            self.want_endpoints(self.endpoints_wanted, has=dict(self.has[ENDPOINTS]))

    def want_endpoints(self, names, has=None):
        said = Said(type=ENDPOINTS, subscribe=tuple(sorted(names)), has=has or {})
        self.endpoints_wanted |= set(names)
        self.subscriber.hear(said, self.now)

    def receive(self, push):
        """Take what is good; returns the request that answers."""
        self.received.append(push)
        errors = []
        for name in push.removed:
            if push.type is CLUSTER:
                assert name not in self.has[LISTENER], "a cluster went before its listener"
                if name in self.endpoints_wanted:
                    self.endpoints_wanted.discard(name)
                    self.has[ENDPOINTS].pop(name, None)
                    self.forget_endpoints.append(name)
            self.has[push.type].pop(name, None)
        for resource in push.resources:
            name = resource.name
            if (push.type, name) in self.bad:
                errors.append(f"{name}: cannot bind")
                continue
            if push.type is LISTENER and "/" in name:
                assert name in self.has[CLUSTER], "a listener came before its cluster"
                assert name in self.has[ENDPOINTS], "a listener came before its endpoints"
            if push.type is CLUSTER and "/" in name and name not in self.has[CLUSTER]:
                self.new_endpoints.append(name)
            self.has[push.type][name] = resource.version
        return Said(type=push.type, nonce=push.nonce, error="; ".join(errors))

    def step(self):
        """One round; whether anything was sent."""
        self.new_endpoints, self.forget_endpoints = [], []
        pushes = self.subscriber.pushes()
        for push in pushes:
            answer = self.receive(push)
            self.subscriber.hear(answer, self.now)
        if self.forget_endpoints:
            gone = tuple(self.forget_endpoints)
            self.subscriber.hear(Said(type=ENDPOINTS, unsubscribe=gone), self.now)
        if self.new_endpoints:
            self.want_endpoints(self.new_endpoints)
        return bool(pushes)

    def settle(self):
        for _ in range(200):
            if not self.step():
                return
        raise AssertionError("it never comes to rest")

    def apply(self, changes):
        self.subscriber.note(self.desired.apply(changes))

    def assert_right(self):
        for type in ResourceType:
            expected = {
                name: resource.version
                for name, resource in self.desired.resources[type].items()
                if (type, name) not in self.bad
            }
            assert self.has[type] == expected, type


@pytest.fixture
def desired():
    return Desired(Settings())


def test_an_envoy_without_any_seat_gets_an_answer_to_each_question(desired):
    envoy = ModelEnvoy(desired)
    assert {push.type for push in envoy.subscriber.pushes()} == {CLUSTER, LISTENER, SCOPE}


def test_a_new_envoy_gets_everything(desired):
    desired.apply({route.id: route for route in (http("a"), http("b"), udp("a", 20001))})
    envoy = ModelEnvoy(desired)
    envoy.settle()
    envoy.assert_right()
    assert envoy.subscriber.idle


def test_a_change_sends_only_what_changed(desired):
    desired.apply({route.id: route for route in (http(f"seat-{n}") for n in range(100))})
    envoy = ModelEnvoy(desired)
    envoy.settle()
    envoy.received.clear()
    envoy.apply({http("seat-7").id: http("seat-7", "10.0.0.9")})
    envoy.settle()
    [push] = envoy.received
    assert [resource.name for resource in push.resources] == ["seat-7"]
    envoy.assert_right()


def test_a_replaced_pod_changes_the_endpoint_and_nothing_else(desired):
    envoy = ModelEnvoy(desired)
    envoy.apply({udp("a", 20001).id: udp("a", 20001)})
    envoy.settle()
    envoy.received.clear()
    envoy.apply({udp("a", 20001).id: udp("a", 20001, "10.0.0.2")})
    envoy.settle()
    assert [push.type for push in envoy.received] == [ENDPOINTS]


def test_an_envoy_that_comes_back_with_everything_is_sent_nothing(desired):
    desired.apply({route.id: route for route in (http("a"), udp("a", 20001))})
    envoy = ModelEnvoy(desired)
    envoy.settle()
    envoy.received.clear()
    envoy.connect()
    envoy.settle()
    assert envoy.received == []
    assert envoy.subscriber.idle
    envoy.assert_right()


def test_an_envoy_that_comes_back_is_sent_the_difference(desired):
    desired.apply({route.id: route for route in (http("a"), http("b"), udp("a", 20001))})
    envoy = ModelEnvoy(desired)
    envoy.settle()
    envoy.received.clear()
    desired.apply({http("a").id: None, http("c").id: http("c"), udp("a", 20001).id: None})
    envoy.connect()
    envoy.settle()
    envoy.assert_right()
    sent = {name for push in envoy.received for name in push.versions()}
    assert sent == {"a", "c", "udp/20001/a/game"}


def test_while_an_answer_is_awaited_changes_are_collected(desired):
    envoy = ModelEnvoy(desired)
    envoy.settle()
    envoy.apply({http("a").id: http("a")})
    [waiting] = envoy.subscriber.pushes()
    for n in range(20):
        envoy.apply({http("b").id: http("b", f"10.0.1.{n + 1}")})
        assert envoy.subscriber.pushes() == []
    envoy.subscriber.hear(envoy.receive(waiting), 0)
    [collected] = envoy.subscriber.pushes()
    assert [resource.name for resource in collected.resources] == ["b"]
    envoy.subscriber.hear(envoy.receive(collected), 0)
    envoy.settle()
    envoy.assert_right()


def test_a_stale_answer_settles_nothing(desired):
    envoy = ModelEnvoy(desired)
    envoy.settle()
    envoy.apply({http("a").id: http("a")})
    [push] = envoy.subscriber.pushes()
    assert envoy.subscriber.hear(Said(type=SCOPE, nonce="old"), 0) == set()
    assert not envoy.subscriber.has((SCOPE, "a"))
    assert envoy.subscriber.hear(Said(type=SCOPE, nonce=push.nonce), 0) == {(SCOPE, "a")}
    assert envoy.subscriber.has((SCOPE, "a"))


def test_of_a_refused_batch_only_the_bad_one_is_left_out(desired):
    routes = [udp(f"seat-{n}", 20000 + n) for n in range(33)]
    bad = (LISTENER, "udp/20013/seat-13/game")
    envoy = ModelEnvoy(desired, bad=[bad])
    envoy.settle()
    envoy.apply({route.id: route for route in routes})
    envoy.settle()
    envoy.assert_right()
    assert "cannot bind" in envoy.subscriber.refusal(bad)
    for name in envoy.desired.resources[LISTENER].keys() - {bad[1]}:
        assert envoy.subscriber.has((LISTENER, name))
        assert not envoy.subscriber.refusal((LISTENER, name))
    # One bad port is no reason to call the whole gateway unready.
    assert envoy.subscriber.idle


def test_a_refused_port_is_tried_again_later_and_less_and_less_often(desired):
    bad = (LISTENER, "udp/20001/a/game")
    envoy = ModelEnvoy(desired, bad=[bad])
    envoy.apply({udp("a", 20001).id: udp("a", 20001)})
    envoy.settle()
    pauses = []
    for _ in range(7):
        start = envoy.now
        while not envoy.subscriber.retry(envoy.now):
            envoy.now += 1
        pauses.append(envoy.now - start)
        envoy.settle()
    assert pauses == [15, 30, 60, 120, 240, 300, 300]
    envoy.bad.clear()
    envoy.now += 300
    assert envoy.subscriber.retry(envoy.now)
    envoy.settle()
    envoy.assert_right()
    assert envoy.subscriber.refusal(bad) == ""


def test_a_refused_port_that_is_given_up_is_forgotten(desired):
    bad = (LISTENER, "udp/20001/a/game")
    envoy = ModelEnvoy(desired, bad=[bad])
    envoy.apply({udp("a", 20001).id: udp("a", 20001)})
    envoy.settle()
    envoy.apply({udp("a", 20001).id: None})
    envoy.settle()
    envoy.assert_right()
    assert envoy.subscriber.refusal(bad) == ""
    envoy.bad.clear()
    envoy.apply({udp("a", 20001).id: udp("a", 20001)})
    envoy.settle()
    envoy.assert_right()


def test_endpoints_asked_for_by_name_that_are_gone_are_answered(desired):
    envoy = ModelEnvoy(desired)
    envoy.settle()
    envoy.subscriber.hear(Said(type=ENDPOINTS, subscribe=("udp/1/x/y",)), 0)
    [push] = envoy.subscriber.pushes()
    assert push.removed == ("udp/1/x/y",)


def test_a_cluster_that_envoy_made_anew_gets_its_endpoints_again(desired):
    envoy = ModelEnvoy(desired)
    envoy.apply({udp("a", 20001).id: udp("a", 20001)})
    envoy.settle()
    envoy.subscriber.hear(Said(type=ENDPOINTS, subscribe=("udp/20001/a/game",)), 0)
    [push] = envoy.subscriber.pushes()
    assert [resource.name for resource in push.resources] == ["udp/20001/a/game"]


seats = st.sampled_from(["a", "b", "c"])
ports = st.sampled_from([20001, 20002, 20003])
addresses = st.sampled_from(["10.0.0.1", "10.0.0.2"])


class ProtocolMachine(RuleBasedStateMachine):
    """Changes, answers, refusals and reconnects in any order; at rest Envoy is right."""

    @initialize()
    def start(self):
        self.envoy = ModelEnvoy(Desired(Settings()))

    @rule(seat=seats, address=st.none() | addresses)
    def change_http(self, seat, address):
        route = http(seat)
        new = None if address is None else msgspec.structs.replace(route, address=address)
        self.envoy.apply({route.id: new})

    @rule(seat=seats, port=st.none() | ports, address=addresses)
    def change_udp(self, seat, port, address):
        holders = {
            route.listen_port: id
            for id, route in self.envoy.desired.routes.items()
            if route.listen_port
        }
        changes = {f"{seat}/game": None if port is None else udp(seat, port, address)}
        if port in holders and holders[port] != f"{seat}/game":
            changes[holders[port]] = None
        self.envoy.apply(changes)

    @rule(port=ports, seat=seats)
    def a_port_is_taken(self, port, seat):
        part = (LISTENER, f"udp/{port}/{seat}/game")
        if part[1] not in self.envoy.has[LISTENER]:
            self.envoy.bad.add(part)

    @rule()
    def step(self):
        self.envoy.step()

    @rule()
    def reconnect(self):
        self.envoy.connect()

    @rule()
    def rest(self):
        self.envoy.settle()
        self.envoy.assert_right()
        assert self.envoy.subscriber.idle
        for type in ResourceType:
            for name in self.envoy.desired.resources[type]:
                part = (type, name)
                assert self.envoy.subscriber.has(part) != (part in self.envoy.bad)
                assert bool(self.envoy.subscriber.refusal(part)) == (part in self.envoy.bad)

    @rule()
    def ports_are_free_again(self):
        self.envoy.bad.clear()
        self.envoy.now += 1000
        self.envoy.subscriber.retry(self.envoy.now)

    @invariant()
    def every_listener_has_where_it_leads(self):
        if hasattr(self, "envoy"):
            ports = {name for name in self.envoy.has[LISTENER] if "/" in name}
            assert ports <= self.envoy.has[CLUSTER].keys()
            assert ports <= self.envoy.has[ENDPOINTS].keys()


TestProtocolMachine = ProtocolMachine.TestCase
TestProtocolMachine.settings = hypothesis_settings(
    max_examples=80, stateful_step_count=40, deadline=None
)
