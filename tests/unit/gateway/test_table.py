"""The route table: two sources, one truth, and nothing held by two."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgewise.agents.gateway.desired import Desired
from edgewise.agents.gateway.refusal import refusal
from edgewise.agents.gateway.settings import Settings
from edgewise.agents.gateway.table import RouteTable
from edgewise.exposure.route import Owner, Route

SETTINGS = Settings()
A = Route("seat-a", "web", "HTTP", 0, "10.0.0.1", 80)
A2 = msgspec.structs.replace(A, address="10.0.0.2")
A3 = msgspec.structs.replace(A, address="10.0.0.3")
UDP = Route("seat-a", "game", "UDP", 20001, "10.0.0.1", 7777)
OTHER = Route("seat-b", "game", "UDP", 20001, "10.0.0.9", 7777)


MATCH = Owner("sessions", "ns/s")
ANN = Owner("sessions", "ns/a")
BEN = Owner("sessions", "ns/b")
NAMESAKE = Owner("games", "ns/a")  # of another domain


def table() -> RouteTable:
    return RouteTable(SETTINGS)


def test_the_watch_is_the_truth():
    routes = table()
    assert routes.replace(MATCH, [A, UDP]) == {A.id: A, UDP.id: UDP}
    assert routes.replace(MATCH, [A, UDP]) == {}
    assert routes.replace(MATCH, [A2]) == {A.id: A2, UDP.id: None}
    assert routes.replace(MATCH, []) == {A.id: None}
    assert not routes.served


def test_a_push_counts_at_once_and_until_the_watch_shows_the_same():
    routes = table()
    routes.replace(MATCH, [A])
    assert routes.push(MATCH, [A2], until=30) == {A.id: A2}
    # A watch that is behind does not undo it.
    assert routes.replace(MATCH, [A, UDP]) == {UDP.id: UDP}
    assert routes.replace(MATCH, [A2, UDP]) == {}
    # From here on the watch alone decides.
    assert routes.ahead == 0
    assert routes.replace(MATCH, [A3, UDP]) == {A.id: A3}


def test_a_push_that_the_watch_never_shows_runs_out():
    routes = table()
    routes.push(MATCH, [A], until=30)
    assert routes.expire(29.9) == {}
    assert routes.expire(30) == {A.id: None}
    routes.replace(MATCH, [A])
    routes.push(MATCH, [A2], until=60)
    assert routes.expire(61) == {A.id: A}


def test_a_push_of_what_the_watch_shows_already_is_nothing_ahead():
    routes = table()
    routes.replace(MATCH, [A])
    assert routes.push(MATCH, [A], until=30) == {}
    assert routes.ahead == 0


def test_a_push_that_comes_back_to_what_the_watch_shows_replaces_an_older_push():
    routes = table()
    routes.replace(MATCH, [A])
    routes.push(MATCH, [A2], until=30)
    assert routes.push(MATCH, [A], until=31) == {A.id: A}


def test_a_withdrawn_push_leaves_what_the_watch_shows():
    routes = table()
    routes.replace(MATCH, [A])
    routes.push(MATCH, [A2], until=30)
    assert routes.withdraw(MATCH, [A.id]) == {A.id: A}
    assert routes.withdraw(MATCH, [A.id]) == {}


def test_a_port_is_held_by_the_first_and_passes_on_when_it_is_free():
    routes = table()
    routes.replace(ANN, [UDP])
    assert routes.replace(BEN, [OTHER]) == {}
    assert "held by ns/a (sessions)" in routes.why_not(BEN, OTHER)
    assert routes.replace(ANN, []) == {UDP.id: None, OTHER.id: OTHER}
    assert routes.why_not(BEN, OTHER) == ""


def test_the_holder_of_a_port_may_change_where_it_leads():
    routes = table()
    routes.replace(ANN, [UDP])
    routes.replace(BEN, [OTHER])
    moved = msgspec.structs.replace(UDP, address="10.0.0.77")
    assert routes.replace(ANN, [moved]) == {UDP.id: moved}


def test_a_seat_that_two_owners_claim_stays_with_the_first():
    routes = table()
    routes.replace(ANN, [A])
    assert routes.replace(BEN, [A2]) == {}
    assert "ns/a (sessions) already has" in routes.why_not(BEN, A2)
    assert routes.push(BEN, [A3], until=30) == {}
    assert routes.served == {A.id: A}


def test_two_domains_with_one_namespace_and_name_keep_their_routes_apart():
    routes = table()
    game = Route("seat-g", "web", "HTTP", 0, "10.0.0.7", 80)
    routes.replace(ANN, [A, UDP])
    assert routes.replace(NAMESAKE, [game]) == {game.id: game}, "nothing of the session goes"
    assert routes.push(NAMESAKE, [A2], until=30) == {}, "a seat is not to be had by name"
    assert "ns/a (sessions) already has" in routes.why_not(NAMESAKE, A2)
    assert routes.withdraw(NAMESAKE, [A.id]) == {}
    assert routes.amend(NAMESAKE, [], [UDP.id]) == {}, "ids of others are not theirs to remove"
    assert routes.replace(ANN, []) == {A.id: None, UDP.id: None}
    assert routes.served == {game.id: game}


def test_a_bad_route_is_refused_alone():
    routes = table()
    bad = msgspec.structs.replace(UDP, address="127.0.0.1")
    assert routes.replace(MATCH, [A, bad]) == {A.id: A}
    assert "address" in routes.why_not(MATCH, bad)
    assert routes.replace(MATCH, [A, UDP]) == {UDP.id: UDP}
    assert not routes.refused


def test_a_route_that_turns_bad_is_no_longer_served():
    routes = table()
    routes.replace(MATCH, [UDP])
    bad = msgspec.structs.replace(UDP, address="127.0.0.1")
    routes.replace(BEN, [OTHER])
    # Its port is free then.
    assert routes.replace(MATCH, [bad]) == {UDP.id: None, OTHER.id: OTHER}


owners = st.sampled_from([ANN, BEN, NAMESAKE])
a_route = st.one_of(
    st.builds(
        Route,
        seat=st.sampled_from(["s1", "s2", "s3"]),
        port_name=st.sampled_from(["p", "q"]),
        protocol=st.just("HTTP"),
        listen_port=st.just(0),
        address=st.sampled_from(["10.0.0.1", "10.0.0.2", "127.0.0.1"]),
        target_port=st.sampled_from([80, 81]),
    ),
    st.builds(
        Route,
        seat=st.sampled_from(["s1", "s2", "s3"]),
        port_name=st.sampled_from(["p", "q"]),
        protocol=st.sampled_from(["TCP", "UDP"]),
        listen_port=st.sampled_from([20001, 20002, 5]),
        address=st.sampled_from(["10.0.0.1", "10.0.0.2"]),
        target_port=st.just(80),
    ),
)
some_routes = st.lists(a_route, max_size=5, unique_by=lambda route: route.id)


class TableMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: what is told as changed is what changed, nothing
    is served to two, nobody waits for what is free, and the resources built from changes
    are those that would be built from nothing."""

    def __init__(self):
        super().__init__()
        self.table = RouteTable(SETTINGS)
        self.desired = Desired(SETTINGS)
        self.told = {}
        self.watched = {}
        self.ahead = {}
        self.now = 0

    def follow(self, changes):
        for id, route in changes.items():
            assert self.told.get(id) != route, "told as changed, but it is as before"
            if route is None:
                del self.told[id]
            else:
                self.told[id] = route
        before = {type: dict(named) for type, named in self.desired.resources.items()}
        touched = self.desired.apply(changes)
        for type, named in self.desired.resources.items():
            names = named.keys() | before[type].keys()
            differing = {(type, n) for n in names if named.get(n) != before[type].get(n)}
            assert differing == {part for part in touched if part[0] is type}

    @rule(owner=owners, routes=some_routes)
    def watch(self, owner, routes):
        self.watched[owner] = {route.id: route for route in routes}
        for route in routes:
            if self.ahead.get((owner, route.id), (None,))[0] == route:
                del self.ahead[owner, route.id]
        self.follow(self.table.replace(owner, routes))

    @rule(owner=owners, routes=some_routes)
    def push(self, owner, routes):
        for route in routes:
            self.ahead[owner, route.id] = (route, self.now + 30)
            if self.watched.get(owner, {}).get(route.id) == route:
                del self.ahead[owner, route.id]
        self.follow(self.table.push(owner, routes, self.now + 30))

    @rule(owner=owners, route=a_route)
    def withdraw(self, owner, route):
        self.ahead.pop((owner, route.id), None)
        self.follow(self.table.withdraw(owner, [route.id]))

    @rule(seconds=st.integers(1, 40))
    def wait(self, seconds):
        self.now += seconds
        self.ahead = {key: value for key, value in self.ahead.items() if value[1] > self.now}
        self.follow(self.table.expire(self.now))

    def wanted(self):
        found = {
            (owner, id): route
            for owner, routes in self.watched.items()
            for id, route in routes.items()
        }
        found.update({key: route for key, (route, _) in self.ahead.items()})
        return found

    @invariant()
    def what_was_told_is_what_is_served(self):
        assert self.told == dict(self.table.served)

    @invariant()
    def only_what_is_wanted_is_served_and_each_port_once(self):
        wanted = list(self.wanted().values())
        served = list(self.table.served.values())
        assert all(route in wanted for route in served)
        ports = [(route.protocol, route.listen_port) for route in served if route.listen_port]
        assert len(ports) == len(set(ports))

    @invariant()
    def whoever_is_not_served_is_told_why(self):
        for (owner, _), route in self.wanted().items():
            if route not in self.table.served.values():
                assert self.table.why_not(owner, route)

    @invariant()
    def nobody_waits_for_what_nobody_else_wants(self):
        wanted = self.wanted()
        for claim, reason in self.table.refused.items():
            route = wanted[claim.owner, claim.id]
            if refusal(route, SETTINGS):
                continue
            rivals = [
                other
                for key, other in wanted.items()
                if key != (claim.owner, claim.id)
                and not refusal(other, SETTINGS)
                and (
                    other.id == route.id
                    or (other.protocol, other.listen_port) == (route.protocol, route.listen_port)
                )
            ]
            assert rivals, reason

    @invariant()
    def resources_are_those_of_the_served_routes(self):
        fresh = Desired(SETTINGS)
        fresh.apply(dict(self.table.served))
        assert fresh.resources == self.desired.resources


TestTableMachine = TableMachine.TestCase
TestTableMachine.settings = settings(max_examples=40, stateful_step_count=25)


@given(st.permutations([A, UDP, Route("seat-a", "admin", "HTTP", 0, "10.0.0.1", 81)]))
def test_versions_do_not_depend_on_the_order_in_which_routes_came(order):
    one, other = Desired(SETTINGS), Desired(SETTINGS)
    for route in order:
        one.apply({route.id: route})
    other.apply({route.id: route for route in sorted(order, key=lambda route: route.id)})
    assert one.resources == other.resources
