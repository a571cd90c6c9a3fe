"""Clients in their seats: who sits where, who comes back, and what nobody else can reach."""

import asyncio
import re

import pytest

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.cli.session.cluster import ClusterSessions
from edgewise.cli.session.views import view_client
from edgewise.testing.eventually import eventually
from tests.e2e.sessions import workloads
from tests.e2e.sessions.conftest import Rooms
from tests.e2e.sessions.traffic import ask_by_udp
from tests.e2e.sessions.workloads import HIDDEN, NAMESPACE, pod_spec, pods

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="session")]

CLIENTS = ("ann", "bob", "cleo")


async def test_clients_are_spread_and_packed_as_the_templates_say(rooms: Rooms) -> None:
    kinds = (pods("own", 1), pods("pair", 2), pods("hall", 0))
    await rooms.make("packed", *kinds, timeoutSeconds=60)
    seats = dict(zip(CLIENTS, await rooms.join("packed", *CLIENTS), strict=True))
    for kind, count in (("own", 3), ("pair", 2), ("hall", 1)):
        sitting = [has.pods[kind] for has in seats.values()]
        assert len(set(sitting)) == count, kind
        assert max(sitting.count(pod) for pod in sitting) <= (len(CLIENTS) if kind == "hall" else 2)
    for client, has in seats.items():
        for kind, ports in has.endpoints.items():
            assert (await rooms.ask(ports["http"]))["pod"] == has.pods[kind], client
    urls = {
        url for has in seats.values() for ports in has.endpoints.values() for url in ports.values()
    }
    assert len(urls) == 9, "a seat of one's own in a shared pod is an address of one's own"

    await rooms.say("packed", {"ann": False})
    lost = await rooms.until("packed", "ann", lambda has: has.phase == "Disconnected")
    assert lost.until is not None
    [back] = await rooms.join("packed", "ann")
    assert (back.pods, back.endpoints) == (seats["ann"].pods, seats["ann"].endpoints)
    assert (await rooms.ask(back.endpoints["own"]["http"]))["visits"] == 2, "the same process"
    await rooms.delete("packed")


async def test_an_edited_template_is_for_new_pods_only(rooms: Rooms) -> None:
    spec = {"timeoutSeconds": 60, "reutilizeTimeoutSeconds": 60}
    await rooms.make("edited", pods(pod=pod_spec("one")), **spec)
    [ann] = await rooms.join("edited", "ann")
    await rooms.client.apply(workloads.template("edited", pods(pod=pod_spec("two")), **spec))
    [bob] = await rooms.join("edited", "bob")
    assert (await rooms.ask(bob.endpoints["server"]["http"]))["version"] == "two"
    old = await rooms.ask(ann.endpoints["server"]["http"])
    assert (old["version"], old["pod"]) == ("one", ann.pods["server"])

    await rooms.leave("edited", "ann")
    [cleo] = await rooms.join("edited", "cleo")
    assert cleo.pods["server"] != ann.pods["server"], "a pod of the past is not reused"
    assert (await rooms.ask(cleo.endpoints["server"]["http"]))["version"] == "two"
    await rooms.delete("edited")


async def test_a_web_socket_lasts_while_others_come_and_go(rooms: Rooms) -> None:
    await rooms.make("chat", pods(seats=0), reutilizeTimeoutSeconds=60)
    [ann] = await rooms.join("chat", "ann")
    asked = answered = 0
    stop = asyncio.Event()

    async def talk() -> None:
        nonlocal asked, answered
        url = ann.endpoints["server"]["http"].replace("http:", "ws:") + "ws"
        async with rooms.http.ws_connect(url) as chat:
            while not stop.is_set() or asked < 10:
                asked += 1
                await chat.send_str(str(asked))
                said = await chat.receive_str(timeout=10)
                assert said == f"{ann.pods['server']} {asked}"
                answered += 1
                await asyncio.sleep(0.01)

    talking = asyncio.create_task(talk())
    try:
        for number in range(10):
            await rooms.join("chat", f"guest-{number}", f"visitor-{number}")
            await rooms.leave("chat", f"guest-{number}")
    finally:
        stop.set()
        await asyncio.wait_for(talking, 30)
    assert answered == asked >= 10
    await rooms.delete("chat")


async def test_only_what_belongs_to_a_seat_is_reachable(rooms: Rooms) -> None:
    await rooms.make("closed", timeoutSeconds=60)
    ann, bob = await rooms.join("closed", "ann", "bob")
    url = ann.endpoints["server"]["http"]
    base, seat = re.fullmatch(r"(http://[^/]+)/s/([a-z2-7]{26})/http/", url).groups()  # type: ignore[union-attr]
    assert seat not in bob.endpoints["server"]["http"]
    guesses = [
        f"{base}/s/{'a' * 26}/http/",
        f"{base}/s/{seat[:-1]}/http/",
        f"{base}/s/",
        f"{base}/",
    ]
    undeclared = [f"{base}/s/{seat}/{HIDDEN}/", f"{base}/s/{seat}/hidden/", f"{base}/s/{seat}/"]
    for other in [*guesses, *undeclared]:
        assert await rooms.status(other) == 404, other
    # Nothing that a client sends leads its request to another place.
    pod = rooms.pods.cache.find(bob.pods["server"], NAMESPACE)
    assert pod is not None
    for header in ("x-envoy-original-dst-host", "x-forwarded-host", "host"):
        there = f"{pod.status.pod_ip}:{HIDDEN}"
        seen = await rooms.ask(url, headers={header: there})
        assert seen["pod"] == ann.pods["server"], header

    await rooms.leave("closed", "ann")

    async def unreachable() -> bool:
        return await rooms.status(url) in (404, 503)

    # The gateway is told of it a moment after the status says so.
    await eventually(unreachable)
    assert (await rooms.ask(bob.endpoints["server"]["http"]))["pod"] == bob.pods["server"]
    await rooms.delete("closed")


async def test_seats_with_tokens_ask_for_them(rooms: Rooms) -> None:
    await rooms.make("tokens", pods(seats=2), seatTokens=True)
    ann, bob = await rooms.join("tokens", "ann", "bob")
    sessions = ClusterSessions(rooms.client, NAMESPACE)
    tokens = {
        who: (await sessions.tokens(view_client(who, has, {"connected": True})))["server"]
        for who, has in (("ann", ann), ("bob", bob))
    }
    stored = await rooms.client.get(Session, "tokens", NAMESPACE)
    assert tokens["ann"] not in str(stored), "the object holds nothing but hashes"
    url = ann.endpoints["server"]["http"]
    assert await rooms.status(url) == 401
    for wrong in (tokens["bob"], "", ann.tokens["server"]):
        assert await rooms.status(url, headers={"Authorization": f"Bearer {wrong}"}) == 401
    right = {"Authorization": f"Bearer {tokens['ann']}"}
    assert (await rooms.ask(url, headers=right))["pod"] == ann.pods["server"]
    assert await rooms.status(f"{url}?edgewise_token={tokens['ann']}") == 200
    await rooms.delete("tokens")


async def test_udp_and_tcp_ports_are_kept_when_the_pod_is_lost(rooms: Rooms) -> None:
    ports = [
        {"name": "game", "port": workloads.UDP, "protocol": "UDP"},
        {"name": "talk", "port": workloads.TCP, "protocol": "TCP"},
        {"name": "http", "port": workloads.HTTP},
    ]
    await rooms.make("ports", pods(ports=ports))
    ann, bob = await rooms.join("ports", "ann", "bob")
    public = [has.endpoints["server"][port] for has in (ann, bob) for port in ("game", "talk")]
    assert len({url.rpartition(":")[2] + url[:3] for url in public}) == 4
    for has in (ann, bob):
        await talks_to(has.endpoints["server"], has.pods["server"])
    await rooms.kill(ann.pods["server"])
    again = await rooms.recovered("ports", "ann", ann.pods["server"])
    assert again.endpoints == ann.endpoints
    await talks_to(again.endpoints["server"], again.pods["server"])
    assert (await rooms.ask(again.endpoints["server"]["http"]))["pod"] == again.pods["server"]
    session = await rooms.client.get(Session, "ports", NAMESPACE)
    assert session.status.recoveries == 1
    await rooms.delete("ports")


async def talks_to(endpoints: dict[str, str], pod: str) -> None:
    """An answer from this pod, by UDP and by TCP."""
    for port, prefix in (("game", "udp://"), ("talk", "tcp://")):
        assert endpoints[port].startswith(prefix)
    host, _, number = endpoints["talk"].removeprefix("tcp://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(number))
    writer.write(b"hello\n")
    assert await asyncio.wait_for(reader.readline(), 10) == f"{pod} hello\n".encode()
    writer.close()
    host, _, number = endpoints["game"].removeprefix("udp://").rpartition(":")
    assert await ask_by_udp(host, int(number), b"hello") == f"{pod} hello".encode()


async def test_a_template_in_use_stays_and_says_why(rooms: Rooms) -> None:
    await rooms.make("held")
    key = workloads.key("held")
    # A template that nobody has seen yet is simply gone.
    await rooms.templates.until(
        key, lambda seen: seen is not None and bool(seen.metadata.finalizers), "its protection"
    )
    await rooms.client.delete(SessionTemplate, "held", NAMESPACE)

    def says(seen: SessionTemplate | None) -> bool:
        return seen is not None and any(
            each.type == "InUse" and each.status == "True" and "held" in each.message
            for each in seen.status.conditions
        )

    await rooms.templates.until(key, says, "the reason why it stays")
    [ann] = await rooms.join("held", "ann")
    assert (await rooms.ask(ann.endpoints["server"]["http"]))["pod"] == ann.pods["server"]
    await rooms.client.delete(Session, "held", NAMESPACE)
    await rooms.templates.until(key, lambda seen: seen is None, "its end")
