"""The checker of sessions finds what is wrong; a world that is well has nothing for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgewise.api.exposure import PortClaim
from edgewise.api.sessions import Session
from edgewise.kube.kinds.coordination import Lease
from edgewise.kube.kinds.core import Pod
from edgewise.kube.objects import Key
from edgewise.testing.session_checker import violations
from edgewise.workloads.deadlines import stamp
from tests.unit.sessions.world import World, pod_template

PORTS = [{"name": "http", "port": 8080}, {"name": "game", "port": 7777, "protocol": "UDP"}]


async def a_settled_world() -> World:
    world = World()
    world.template(podTemplates=[pod_template(maxClients=1, warmPods=1, ports=PORTS)])
    world.session("s", ann=True, bob=True)
    await world.rest(world.operator())
    assert violations(world.seen(), world.now) == []
    return world


def status(world: World, **body: object) -> None:
    world.store.patch(Session.KIND, Key(world.namespace, "s"), {"status": body}, "status")


def pod_of(world: World, client: str) -> str:
    return world.pod_of(client)


def two_in_one_pod(world: World) -> None:
    status(world, clients={"ann": {"pods": {"main": pod_of(world, "bob")}}})


def overlooked(world: World) -> None:
    status(world, clients={"ann": None})


def not_ready(world: World) -> None:
    status(world, clients={"ann": {"ready": None}})


def unready_pod(world: World) -> None:
    world.set_pod(pod_of(world, "ann"), ready=False)


def pod_gone(world: World) -> None:
    world.delete(Pod, pod_of(world, "ann"), force=True)


def still_there(world: World) -> None:
    world.clients("s", ann=None)


def deadline(world: World) -> None:
    status(world, clients={"ann": {"until": stamp(world.now - 60)}})


def pod_left(world: World) -> None:
    name, namespace = "stray", world.namespace
    world.store.create(Pod.KIND, {"metadata": {"name": name, "namespace": namespace}, "spec": {}})


def lease_left(world: World) -> None:
    name, namespace = "stray", world.namespace
    world.store.create(Lease.KIND, {"metadata": {"name": name, "namespace": namespace}, "spec": {}})


def claim_gone(world: World) -> None:
    for claim in world.store.all(PortClaim):
        world.store.finish(PortClaim.KIND, claim.key)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    {
        "two clients in a pod for one": (two_in_one_pod, "has 2 clients, and may have 1"),
        "a client without a status": (overlooked, "ann of s was overlooked"),
        "a client that is not ready": (not_ready, "ann of s is not ready"),
        "a pod that is not ready": (unready_pod, "which is not ready"),
        "a pod that is gone": (pod_gone, "recorded, but not there"),
        "who left": (still_there, "still in s: {'ann'}"),
        "a deadline": (deadline, "a deadline was missed: ann"),
        "a pod of nobody": (pod_left, "pods left over: {'stray'}"),
        "a lease of nobody": (lease_left, "leases left over: {'stray'}"),
        "a port that nobody claims": (claim_gone, "ports in use that nobody claims"),
    }.values(),
)
async def test_what_is_wrong_is_found(harm: Callable[[World], None], sentence: str) -> None:
    world = await a_settled_world()
    harm(world)
    found = violations(world.seen(), world.now)
    assert any(sentence in each for each in found), found
