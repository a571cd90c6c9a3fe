"""Adding a cluster takes several writes; whatever is cut short, a repetition finishes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from edgewise.api.clusters import Cluster, ClusterSpec
from edgewise.api.exposure import Turn
from edgewise.api.global_sessions import Location, LocationSpec
from edgewise.kube.client import Client, Listing
from edgewise.kube.errors import NotFound, Unreachable
from edgewise.kube.objects import Object
from edgewise.runtime.errors import NotThere, Refused
from edgewise.sessions.hub.enrolment import (
    dismiss_location,
    enrol_location,
    known_location,
    set_cordoned,
)

KUBECONFIG = b"""
current-context: x
clusters: [{name: x, cluster: {server: "http://192.0.2.1:8080"}}]
users: []
contexts: [{name: x, context: {cluster: x}}]
"""
TURN = Turn(urls=["turn:192.0.2.7:3478"])
EVERYTHING = {
    ("Cluster", "porto"),
    ("Location", "porto"),
    ("Secret", "edgewise-member-porto"),
    ("Secret", "edgewise-turn-porto"),
}


class Cut(Unreachable):
    """The command ends here, and what it wrote last may or may not have been heard."""


class Hub(Client):
    """A hub in memory that is cut off after so many writes."""

    def __init__(self, *held: Object, writes: int = 1000) -> None:
        self.held = {(type(each).KIND.kind, each.metadata.name): each for each in held}
        self.writes = writes

    def _write(self) -> None:
        if self.writes == 0:
            raise Cut("cut off")
        self.writes -= 1

    async def apply(self, obj: Any, **_: Any) -> Any:
        self._write()
        self.held[type(obj).KIND.kind, obj.metadata.name] = obj
        return obj

    async def delete(self, kind: type[Any], name: str, *_: Any, **__: Any) -> Any:
        self._write()
        if self.held.pop((kind.KIND.kind, name), None) is None:
            raise NotFound(404, "NotFound", f"there is no {name}")

    async def get(self, kind: type[Any], name: str, *_: Any, **__: Any) -> Any:
        try:
            return self.held[kind.KIND.kind, name]
        except KeyError:
            raise NotFound(404, "NotFound", f"there is no {name}") from None

    async def list(self, kind: type[Any], *_: Any, **__: Any) -> Listing[Any]:
        return Listing(items=[each for each in self.held.values() if type(each) is kind])

    async def patch(self, kind: type[Any], name: str, *_: Any, body: Any, **__: Any) -> Any:
        self._write()
        found = await self.get(kind, name)
        spec = {**msgspec.to_builtins(found.spec), **body["spec"]}
        found.spec = msgspec.convert(spec, type(found.spec))
        return found


async def add(hub: Client) -> None:
    await enrol_location(
        hub,
        "edge",
        "porto",
        cluster=ClusterSpec(region="eu"),
        location=LocationSpec(cluster="porto", capacity=5, turn=TURN),
        kubeconfig=KUBECONFIG,
        turn_secret=b"0123456789abcdef0123456789abcdef",
    )


async def remove(hub: Client) -> None:
    await dismiss_location(hub, "edge", "porto")


async def until_done(hub: Hub, command: Callable[[Client], Awaitable[None]], writes: int) -> bool:
    """Whether it was cut off after so many writes; then it is done again, in peace."""
    hub.writes = writes
    try:
        await command(hub)
    except Cut:
        hub.writes = 1000
        await command(hub)
        return True
    hub.writes = 1000
    return False


async def test_adding_is_finished_by_a_repetition_wherever_it_was_cut() -> None:
    cut = 0
    while await until_done(hub := Hub(), add, cut):
        assert set(hub.held) == EVERYTHING, f"after {cut} writes"
        cut += 1
    assert cut == len(EVERYTHING)


async def test_nobody_is_sent_to_a_cluster_before_everything_else_is_there() -> None:
    hub = Hub(writes=len(EVERYTHING) - 1)
    with pytest.raises(Cut):
        await add(hub)
    assert set(hub.held) == EVERYTHING - {("Location", "porto")}


async def test_taking_out_is_finished_by_a_repetition_wherever_it_was_cut() -> None:
    cut = 0
    while True:
        hub = Hub()
        await add(hub)
        if not await until_done(hub, remove, cut):
            break
        assert hub.held == {}, f"after {cut} writes"
        cut += 1
    assert cut == len(EVERYTHING)


async def test_what_is_not_there_cannot_be_taken_out_and_that_is_said() -> None:
    with pytest.raises(NotThere, match="no cluster 'porto' in namespace edge"):
        await remove(Hub())


async def test_a_cluster_is_taken_out_with_all_of_its_locations() -> None:
    others = [
        Location.named("west", "edge", spec=LocationSpec(cluster="porto", namespace="west")),
        Location.named("paris", "edge", spec=LocationSpec(cluster="paris")),
    ]
    hub = Hub(*others)
    await add(hub)
    await remove(hub)
    assert set(hub.held) == {("Location", "paris")}


async def test_a_cluster_without_a_location_can_be_taken_out() -> None:
    hub = Hub(Cluster.named("porto", "edge"))
    await remove(hub)
    assert hub.held == {}


async def test_without_turn_servers_there_is_no_secret_of_them() -> None:
    hub = Hub()
    await add(hub)
    await enrol_location(hub, "edge", "porto")
    assert ("Secret", "edgewise-turn-porto") not in hub.held


async def test_a_location_of_another_cluster_is_not_taken_over() -> None:
    hub = Hub(Location.named("porto", "edge", spec=LocationSpec(cluster="paris")))
    with pytest.raises(Refused, match="porto is a location in the cluster paris"):
        await known_location(hub, "edge", "porto")


async def test_cordoning_is_the_location_s_and_leaves_the_cluster_alone() -> None:
    hub = Hub()
    await add(hub)
    cluster = msgspec.to_builtins(hub.held["Cluster", "porto"])
    await set_cordoned(hub, "edge", "porto", True)
    location = hub.held["Location", "porto"]
    assert isinstance(location, Location)
    assert location.spec.cordoned
    assert msgspec.to_builtins(hub.held["Cluster", "porto"]) == cluster
    with pytest.raises(NotThere, match="no location 'paris'"):
        await set_cordoned(hub, "edge", "paris", True)
