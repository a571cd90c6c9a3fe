"""Short histories of sessions. Each can be played with an operator that dies at any write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.kube.kinds.core import Pod
from tests.unit.sessions.world import CutOff, Operator, World, pod_template

UDP = {"name": "game", "port": 7777, "protocol": "UDP"}
HTTP = {"name": "http", "port": 8080}


class Crew:
    """One operator at a time; when it is killed, another takes over."""

    def __init__(self, world: World, cut_at: int | None = None, *, after: bool = False) -> None:
        self.world = world
        self.operator = world.operator()
        self.operator.cut_at = cut_at
        self.operator.cut_after = after
        self.cut = False

    async def _through(self, work: Callable[[Operator], Awaitable[None]]) -> None:
        try:
            await work(self.operator)
        except CutOff:
            self.cut = True
            self.operator = self.world.operator()
            await work(self.operator)

    async def settle(self) -> None:
        await self._through(self.world.settle)

    async def advance(self, seconds: float) -> None:
        end = self.world.now + seconds

        async def work(operator: Operator) -> None:
            await self.world.advance(max(0.0, end - self.world.now), operator)

        await self._through(work)


Scenario = Callable[[World, Crew], Awaitable[None]]


async def join_and_leave(world: World, crew: Crew) -> None:
    world.template(podTemplates=[pod_template(maxClients=2), pod_template("chat", maxClients=0)])
    world.session(ann=True)
    await crew.settle()
    world.clients(bob=True, cat=True)
    await crew.settle()
    world.clients(ann=None, bob=None)
    await crew.settle()
    world.clients(cat=None)
    await crew.settle()


async def lost_and_back(world: World, crew: Crew) -> None:
    world.template(timeoutSeconds=10, reutilizeTimeoutSeconds=20)
    world.session(ann=True, bob=True)
    await crew.settle()
    world.clients(ann=False, bob=False)
    await crew.advance(5)
    world.clients(ann=True)
    await crew.advance(6)
    assert world.phase_of("bob") == "Expired"
    world.clients(cat=True)
    await crew.settle()
    world.clients(ann=None, cat=None)
    await crew.advance(25)
    assert not world.pods()


async def ports(world: World, crew: Crew) -> None:
    world.template(podTemplates=[pod_template(maxClients=2, ports=[HTTP, UDP])])
    world.session(ann=True, bob=True)
    await crew.settle()
    before = world.get().status.clients["bob"].endpoints
    world.clients(ann=None, cat=True)
    await crew.settle()
    world.delete(Pod, world.pod_of("bob"))
    await crew.settle()
    # Only a client that was ready has an address that must stay.
    if before:
        assert world.get().status.clients["bob"].endpoints == before
    world.clients(bob=None, cat=None)
    await crew.settle()


async def warm(world: World, crew: Crew) -> None:
    world.template(podTemplates=[pod_template(warmPods=2)])
    await crew.advance(1)
    world.session(ann=True)
    world.session("t", bob=True, cat=True)
    await crew.advance(2)
    world.clients(ann=None)
    await crew.advance(2)
    world.edit_template(podTemplates=[pod_template(warmPods=1)])
    await crew.advance(2)


async def shared(world: World, crew: Crew) -> None:
    world.template(
        podTemplates=[pod_template(reset={"httpPath": "/reset"}, warmPods=1)],
        reuse="Template",
        reutilizeTimeoutSeconds=20,
    )
    await crew.advance(1)
    world.session(ann=True, bob=True)
    await crew.advance(1)
    world.clients(ann=None)
    await crew.advance(1)
    world.session("t", cat=True)
    await crew.advance(1)
    world.delete(Session, "s")
    await crew.advance(1)
    world.clients("t", dan=True)
    await crew.advance(1)
    world.clients("t", cat=None, dan=None)
    await crew.advance(30)


async def recovery(world: World, crew: Crew) -> None:
    world.template(podTemplates=[pod_template(maxClients=2)], nodeLossSeconds=5)
    world.session(ann=True, bob=True, cat=True)
    await crew.settle()
    world.delete(Pod, world.pod_of("ann"), force=True)
    await crew.settle()
    world.fail_pod(world.pod_of("cat"))
    await crew.settle()
    world.set_node(world.node, lost=True)
    for pod in world.pods():
        world.set_pod(pod, ready=False)
    world.node = f"{world.node}-b"
    await crew.advance(8)


async def objects(world: World, crew: Crew) -> None:
    world.template(
        podTemplates=[pod_template(service=True)],
        resources=[
            {"name": "look", "manifest": {"kind": "ConfigMap", "data": {"a": "b"}}},
            {
                "name": "all",
                "scope": "Template",
                "manifest": {"kind": "ConfigMap", "data": {"a": "b"}},
            },
        ],
    )
    world.session(ann=True, bob=True)
    await crew.advance(1)
    world.delete(Pod, world.pod_of("ann"))
    await crew.settle()
    world.clients(ann=None)
    await crew.settle()
    world.clients(bob=None)
    await crew.advance(1)
    world.delete(Session, "s")
    await crew.advance(1)
    world.delete(SessionTemplate, "room")
    await crew.advance(40)
    assert not world.store.all(SessionTemplate)


async def successors(world: World, crew: Crew) -> None:
    world.template(podTemplates=[pod_template(ports=[UDP])])
    world.session(ann=True)
    await crew.settle()
    world.delete(Session, "s")
    world.session(ann=True)
    await crew.settle()
    world.delete(Session, "s")
    await crew.settle()
    world.session(bob=True)
    await crew.settle()


SCENARIOS: dict[str, Scenario] = {
    each.__name__: each
    for each in (
        join_and_leave,
        lost_and_back,
        ports,
        warm,
        shared,
        recovery,
        objects,
        successors,
    )
}


async def play(
    scenario: Scenario,
    cut_at: int | None = None,
    *,
    after: bool = False,
    world: World | None = None,
) -> Crew:
    """Play it to its end, and look whether all is well."""
    world = world or World()
    crew = Crew(world, cut_at, after=after)
    await scenario(world, crew)
    await crew.advance(3)
    world.check()
    return crew
