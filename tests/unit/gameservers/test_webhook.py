"""A webhook that misbehaves in every way: the number stays, and nobody waits for it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from edgewise.api.games import WebhookPolicy, WebhookService
from edgewise.gameservers.autoscaler.addresses import ForbiddenAddress, Lookups, check_address
from edgewise.gameservers.autoscaler.asking import Asking
from edgewise.gameservers.autoscaler.observed import Said, Trouble
from edgewise.gameservers.autoscaler.webhook import (
    MOST_AT_ONCE,
    MOST_BYTES,
    Question,
    Webhooks,
    port_name,
    read_answer,
    ready_endpoints,
    with_path,
)
from edgewise.kube.client import Client
from edgewise.kube.documents import Listing
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import Service, ServicePort, ServiceSpec
from edgewise.kube.kinds.endpoints import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    TargetRef,
)
from edgewise.kube.objects import Key
from edgewise.testing.eventually import eventually

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]
NOBODY = cast("Client", None)  # these URLs need no cluster


@asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def question(url: str, path: str = "") -> Question:
    return Question(
        namespace="play",
        webhook=WebhookPolicy(url=url, path=path),
        game_name="arena",
        current_replicas=3,
    )


async def asked(handle: Handle, path: str = "", *, patience: float = 5.0) -> Said | Trouble:
    async with serving(handle) as url:
        hooks = Webhooks(NOBODY, local=True, patience=patience)
        return await hooks.ask(question(url, path))


async def test_it_is_asked_as_the_first_implementation_asked() -> None:
    heard: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        heard.append((request.method, request.path, await request.json()))
        return web.json_response({"scale": True, "desired_replicas": 16})

    assert await asked(handle, "/scale") == Said(16)
    assert heard == [("POST", "/scale", {"game_name": "arena", "current_replicas": 3})]


def answering(body: bytes, status: int = 200, **headers: str) -> Handle:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers=headers)

    return handle


@pytest.mark.parametrize(
    ("sentence", "handle", "reason"),
    [
        ("500", answering(b"oh", 500), "Refused"),
        ("404", answering(b"", 404), "Refused"),
        ("HTML", answering(b"<html><body>Welcome</body></html>"), "Senseless"),
        ("nothing", answering(b""), "Senseless"),
        ("no number", answering(b'{"scale": true}'), "Senseless"),
        ("an empty object", answering(b"{}"), "Senseless"),
        ("negative", answering(b'{"scale": true, "desired_replicas": -1}'), "Senseless"),
        ("10^9", answering(b'{"scale": true, "desired_replicas": 1000000000}'), "Senseless"),
        ("text", answering(b'{"scale": true, "desired_replicas": "5"}'), "Senseless"),
        ("half", answering(b'{"scale": true, "desired_replicas": 2.5}'), "Senseless"),
        ("null", answering(b'{"scale": null, "desired_replicas": 2}'), "Senseless"),
        ("too long", answering(b" " * MOST_BYTES + b'{"scale": false}'), "Senseless"),
        ("zipped", answering(b"x", **{"Content-Encoding": "gzip"}), "Senseless"),
        ("deep", answering(b"[" * 4000), "Senseless"),
        ("redirect", answering(b"", 302, Location="http://169.254.169.254/"), "Redirected"),
        ("redirect kept", answering(b"", 307, Location="/elsewhere"), "Redirected"),
    ],
)
async def test_whatever_is_no_answer_is_no_number(
    sentence: str, handle: Handle, reason: str
) -> None:
    answer = await asked(handle)
    assert isinstance(answer, Trouble), sentence
    assert answer.reason == reason
    assert "Welcome" not in answer.message


async def test_a_slow_webhook_is_not_waited_for() -> None:
    async def handle(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        raise AssertionError

    began = time.monotonic()
    answer = await asked(handle, patience=0.3)
    assert answer == Trouble("TooLate", "the webhook did not answer within 0.3 s")
    assert time.monotonic() - began < 10


async def test_one_that_sends_a_byte_now_and_then_is_not_waited_for_either() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.05)

    answer = await asked(handle, patience=0.5)
    assert isinstance(answer, Trouble)
    assert answer.reason == "TooLate"


async def test_one_that_is_down() -> None:
    async with serving(answering(b"")) as url:
        gone = url
    answer = await Webhooks(NOBODY, local=True).ask(question(gone))
    assert answer == Trouble("Unreachable", "the webhook cannot be reached (no connection)")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/", "Forbidden"),
        ("http://localhost:1/", "Forbidden"),
        ("http://[::1]:1/", "Forbidden"),
        ("http://[::ffff:127.0.0.1]:1/", "Forbidden"),
        ("http://2130706433:1/", "BadUrl"),
        ("http://0x7f.1:1/", "Forbidden"),
        ("http://0.0.0.0:1/", "Forbidden"),
        ("http://169.254.169.254/latest", "Forbidden"),
        ("http://[fe80::1%25lo]:1/", "Forbidden"),
        ("ftp://scale.example/", "BadUrl"),
        ("file:///etc/passwd", "BadUrl"),
        ("http://", "BadUrl"),
        ("http://host:99999/", "BadUrl"),
        ("http://ann:secret@scale.example/", "BadUrl"),
    ],
)
async def test_what_the_operator_does_not_call(url: str, reason: str) -> None:
    answer = await Webhooks(NOBODY, patience=5).ask(question(url))
    assert isinstance(answer, Trouble)
    assert answer.reason == reason, answer.message
    assert "secret" not in answer.message


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "169.254.1.1",
        "fe80::1",
        "::",
        "224.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "100.100.100.200",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "255.255.255.255",
    ],
)
def test_addresses_that_are_nobody_elses(address: str) -> None:
    with pytest.raises(ForbiddenAddress):
        check_address(address, local=False)
    check_address(address, local=True)


@pytest.mark.parametrize(
    "address", ["10.1.2.3", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd00::1"]
)
def test_addresses_that_are_called(address: str) -> None:
    check_address(address, local=False)


async def test_a_service_of_another_namespace_is_not_asked() -> None:
    service = WebhookService(name="scale", namespace="other", port=80)
    asking = Question(
        namespace="play",
        webhook=WebhookPolicy(service=service),
        game_name="arena",
        current_replicas=3,
    )
    answer = await Webhooks(NOBODY).ask(asking)
    assert isinstance(answer, Trouble)
    assert answer.reason == "Forbidden"
    assert "policy.webhook.service.namespace" in answer.message


class Behind:
    """An API server that knows one Service, and the pod behind it if that is ready."""

    def __init__(self, port: int, *, ready: bool = True) -> None:
        self._port = port
        self._ready = ready

    async def get(self, kind: type[Service], name: str, namespace: str) -> Service:
        if (name, namespace) != ("scale", "play"):
            raise NotFound(404, "NotFound", "no such Service")
        return Service(spec=ServiceSpec(ports=[ServicePort(port=80, name="http")]))

    async def list(
        self, kind: type[EndpointSlice], namespace: str, *, labels: str
    ) -> Listing[EndpointSlice]:
        assert (namespace, labels) == ("play", "kubernetes.io/service-name=scale")
        pod = Endpoint(
            addresses=["127.0.0.1"],
            target_ref=TargetRef(kind="Pod", name="p"),
            conditions=EndpointConditions(ready=self._ready),
        )
        ports = [EndpointPort(name="http", port=self._port)]
        return Listing(items=[EndpointSlice(ports=ports, endpoints=[pod])])


def at_service(name: str = "scale", port: int = 80, namespace: str = "play") -> Question:
    service = WebhookService(name=name, namespace=namespace, port=port)
    return Question(
        namespace="play",
        webhook=WebhookPolicy(service=service, path="/scale"),
        game_name="arena",
        current_replicas=3,
    )


async def test_a_service_is_asked_at_one_of_its_pods_and_by_its_name() -> None:
    heard: list[tuple[str, str, Any]] = []

    async def handle(request: web.Request) -> web.Response:
        heard.append((request.headers["Host"], request.path, await request.json()))
        return web.json_response({"scale": True, "desired_replicas": 5})

    async with serving(handle) as url:
        client: Any = Behind(URL(url).port or 0)
        for namespace in ("", "play"):
            answer = await Webhooks(client, local=True).ask(at_service(namespace=namespace))
            assert answer == Said(5)
    asked = {"game_name": "arena", "current_replicas": 3}
    assert heard == [("scale.play.svc", "/scale", asked)] * 2


@pytest.mark.parametrize(
    ("question", "ready", "reason"),
    [
        (at_service("other"), True, "NoSuchService"),
        (at_service(port=81), True, "NoSuchService"),
        (at_service(), False, "Unreachable"),
    ],
    ids=["no such Service", "no such port", "no pod is ready"],
)
async def test_a_service_that_cannot_be_asked(question: Question, ready: bool, reason: str) -> None:
    client: Any = Behind(1, ready=ready)
    answer = await Webhooks(client, local=True).ask(question)
    assert isinstance(answer, Trouble)
    assert answer.reason == reason


async def test_a_pod_at_the_operators_own_machine_is_not_asked() -> None:
    client: Any = Behind(1)
    answer = await Webhooks(client).ask(at_service())
    assert isinstance(answer, Trouble)
    assert answer.reason == "Forbidden"


def test_the_pods_behind_a_service() -> None:
    service = Service(spec=ServiceSpec(ports=[ServicePort(port=80, name="http")]))
    assert port_name(service, 80) == "http"
    assert port_name(service, 81) is None
    pod = TargetRef(kind="Pod", name="p")
    slices = EndpointSlice(
        ports=[EndpointPort(name="http", port=8080)],
        endpoints=[
            Endpoint(addresses=["10.0.0.1"], target_ref=pod),
            Endpoint(
                addresses=["10.0.0.2"], target_ref=pod, conditions=EndpointConditions(ready=False)
            ),
            Endpoint(addresses=["10.0.0.3"]),
        ],
    )
    assert ready_endpoints([slices], "http") == [("10.0.0.1", 8080)]
    assert ready_endpoints([slices], "other") == []


@pytest.mark.parametrize(
    ("url", "path", "whole"),
    [
        ("http://a", "/scale", "http://a/scale"),
        ("http://a/", "/scale", "http://a/scale"),
        ("http://a/x/", "scale", "http://a/x/scale"),
        ("http://a/x", "", "http://a/x"),
        ("http://a/x?k=1", "/scale", "http://a/x/scale?k=1"),
    ],
)
def test_there_is_one_slash_between_url_and_path(url: str, path: str, whole: str) -> None:
    assert str(with_path(URL(url), path)) == whole


@given(st.binary(max_size=200))
def test_no_bytes_are_a_number_by_accident(body: bytes) -> None:
    answer = read_answer(body)
    if isinstance(answer, Said) and answer.desired is not None:
        assert b"desired_replicas" in body


async def test_a_namespace_has_so_many_questions_open_and_no_more() -> None:
    """Each has a socket of the operator, without which it reaches not even the API server."""
    free, held = asyncio.Event(), 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal held
        if request.path == "/slow":
            held += 1
            await free.wait()
        return web.json_response({"scale": False})

    async with serving(handle) as url:
        hooks = Webhooks(NOBODY, local=True, patience=20.0)
        slow = [
            asyncio.create_task(hooks.ask(question(url, "/slow"))) for _ in range(MOST_AT_ONCE + 8)
        ]
        try:
            await eventually(lambda: held >= MOST_AT_ONCE, within=10)
            other = msgspec.structs.replace(question(url), namespace="other")
            assert await hooks.ask(other) == Said(None)
            assert held == MOST_AT_ONCE
        finally:
            free.set()
        assert await asyncio.gather(*slow) == [Said(None)] * len(slow)
    del slow
    assert not hooks._turns


async def test_one_that_gets_no_turn_says_who_holds_it_up() -> None:
    hooks = Webhooks(NOBODY, local=True, patience=0.05)
    turn = hooks._turns["play"] = asyncio.Semaphore(0)
    answer = await hooks.ask(question("http://127.0.0.1:1"))
    assert isinstance(answer, Trouble)
    assert answer.reason == "Busy"
    assert "other webhooks of the namespace" in answer.message
    assert turn.locked()


class Gate:
    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked = 0

    async def ask(self, _: Question) -> Said | Trouble:
        self.asked += 1
        await self.open.wait()
        if self.asked > 1:
            raise RuntimeError("boom")
        return Said(1)


async def test_one_question_at_a_time_and_an_answer_once() -> None:
    gate, woken = Gate(), asyncio.Queue[Key]()
    asking, key = Asking(gate, woken.put_nowait), Key("play", "scaler")
    for _ in range(3):
        asking.start("u1", key, question("http://a"))
    await asyncio.sleep(0)
    assert (gate.asked, asking.is_asking("u1"), asking.take("u1")) == (1, True, None)
    gate.open.set()
    assert await asyncio.wait_for(woken.get(), 5) == key
    assert not asking.is_asking("u1")
    assert (asking.take("u1"), asking.take("u1")) == (Said(1), None)
    asking.start("u1", key, question("http://a"))
    await asyncio.wait_for(woken.get(), 5)
    answer = asking.take("u1")
    assert isinstance(answer, Trouble), "whatever goes wrong is no number"
    asking.forget("u1")


@pytest.mark.parametrize(("namespaces", "names"), [(1, 100), (100, 4)])
async def test_names_that_are_never_answered_hold_up_nobody_else(
    monkeypatch: pytest.MonkeyPatch, namespaces: int, names: int
) -> None:
    """Neither the names of another namespace, nor what else waits for a thread."""
    answered, found = threading.Event(), socket.getaddrinfo("127.0.0.1", 80)

    def slow(host: str, *_: Any, **__: Any) -> Any:
        if host.startswith("tarpit"):
            answered.wait(20)
        return found

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    lookups = Lookups()
    bad = [
        asyncio.create_task(lookups.look_up(f"bad{where}", f"tarpit{name}", 80, socket.AF_INET))
        for where in range(namespaces)
        for name in range(names)
    ]
    await asyncio.sleep(0)  # so that they are first
    try:
        async with asyncio.timeout(5):
            (first, *_) = await lookups.look_up("good", "webhook.example", 80, socket.AF_INET)
            assert first["host"] == "127.0.0.1"
            await asyncio.to_thread(bool)
        # Who stops waiting does not free the thread.
        for task in bad:
            task.cancel()
        await asyncio.wait(bad)
        again = asyncio.create_task(lookups.look_up("bad0", "other.example", 80, socket.AF_INET))
        await asyncio.sleep(0.05)
        assert not again.done()
    finally:
        answered.set()
    async with asyncio.timeout(5):
        await again
    await eventually(lambda: not lookups._turns and not lookups._asking, within=5)
