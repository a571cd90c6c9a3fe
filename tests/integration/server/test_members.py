"""One member that cannot be had is that member's trouble."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from edgewise.api.clusters import KUBECONFIG_KEY, Cluster, ClusterSpec
from edgewise.api.global_sessions import Location, LocationSpec
from edgewise.api.secrets import SECRET_LABEL
from edgewise.api.sessions import Session, SessionSpec, TemplateRef
from edgewise.clusters import connections as members
from edgewise.kube.kinds.core import Secret
from edgewise.kube.paths import object_path
from edgewise.sessions.hub.joining import JoinRequest
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import HubRig
from edgewise.testing.sessions_replica import SessionsReplica


async def add_member(rig: HubRig, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    server = rig.members["porto"].proxy.access.server
    kubeconfig = {
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "x", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    content = yaml.safe_dump(kubeconfig, allow_unicode=True).encode()
    secret = Secret.named("odd", rig.namespace, data={KUBECONFIG_KEY: content})
    secret.metadata.labels = {SECRET_LABEL: "kubeconfig"}
    await rig.direct.create(secret)
    spec = ClusterSpec(kubeconfig_secret="odd")
    await rig.direct.create(Cluster.named("odd", rig.namespace, spec=spec))
    location = LocationSpec(cluster="odd")
    await rig.direct.create(Location.named("odd", rig.namespace, spec=location))


async def assert_the_others_serve(replica: SessionsReplica) -> None:
    session, _ = await replica.lifecycle.create(
        NewSession(template="demo", name="room-1"), owner="arena"
    )
    assert (await replica.joining.join(session, "alice", JoinRequest())).new


@pytest.mark.parametrize(
    ("cluster", "user", "trouble"),
    [
        ({"certificate-authority-data": "é"}, {}, "is not valid base64"),
        ({"proxy-url": "http://[x"}, {}, "proxy-url in the kubeconfig"),
        ({}, {"token": "a\nb"}, "has a line end or another control character"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used(
    rig: HubRig, cluster: dict[str, Any], user: dict[str, Any], trouble: str
) -> None:
    await add_member(rig, cluster, user)
    replica = await rig.add_replica()
    await eventually(lambda: trouble in replica.members.trouble("odd"))
    await assert_the_others_serve(replica)


async def test_a_failure_that_nobody_thought_of(
    rig: HubRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = members.access_in

    def fails(secret: Secret) -> Any:
        if secret.metadata.name == "odd":
            raise ZeroDivisionError("with a password in it")
        return real(secret)

    monkeypatch.setattr(members, "access_in", fails)
    await add_member(rig, {}, {})
    replica = await rig.add_replica()
    await eventually(lambda: "(ZeroDivisionError)" in replica.members.trouble("odd"))
    assert "password" not in replica.members.trouble("odd")
    await assert_the_others_serve(replica)


async def test_a_session_of_2000_clients_is_within_all_bounds(rig: HubRig) -> None:
    replica = await rig.add_replica()
    member = rig.members["porto"]
    member.stand_in.holding_back = True
    clients = [f"client-{number:04}" for number in range(2000)]
    await rig.direct.create(
        Session.named(
            "big",
            member.namespace,
            spec=SessionSpec(
                template_ref=TemplateRef(name="demo"),
                clients={client: {"connected": True} for client in clients},
            ),
        )
    )
    url = "wss://edge.example.org/s/0123456789abcdef/web/"
    status = {
        "phase": "Ready",
        "ready": True,
        "pods": {"demo": "big-demo-0123456789", "turn": "big-turn-0123456789"},
        "endpoints": {"demo": {"web": url, "media": url}, "turn": {"web": url}},
        "tokens": {"demo": "a" * 64},
    }
    body = {"status": {"clients": dict.fromkeys(clients, status)}}
    await rig.direct.patch(Session, "big", member.namespace, body=body, subresource="status")

    def shown() -> bool:
        mirrored = replica.members.get("porto")
        assert mirrored is not None
        big = mirrored.session("big")
        return mirrored.ready and big is not None and len(big.status.clients) == 2000

    await eventually(shown, within=20)
    raw = await rig.direct.request("GET", object_path(Session.KIND, member.namespace, "big"))
    bounds = members.BOUNDS
    assert (len(raw) < bounds.object / 1.5, raw.count(b",") < bounds.values / 1.5) == (True, True)


async def test_a_location_comes_and_goes_while_its_cluster_stays_connected(rig: HubRig) -> None:
    replica = await rig.add_replica()
    new = NewSession(template="demo", name="room-1")
    session, _ = await replica.lifecycle.create(new, owner="arena")
    await replica.joining.join(session, "alice", JoinRequest(location="porto"))
    connection = replica.connections.get("porto")
    location = await rig.direct.get(Location, "porto", rig.namespace)
    await rig.direct.delete(Location, "porto", rig.namespace)

    async def moved() -> bool:
        return (await rig.bindings())["alice"].spec.location == "paris"

    async def ready() -> bool:
        return (await rig.direct.get(Cluster, "porto", rig.namespace)).status.health == "Ready"

    await eventually(moved, within=15)
    await eventually(ready, within=15)
    assert [each.name for each in replica.hub_view.locations()] == ["paris"]
    assert replica.connections.get("porto") is connection
    await rig.direct.create(Location.named("porto", rig.namespace, spec=location.spec))
    await eventually(lambda: rig.settled(replica), within=15)
    await replica.joining.join(session, "bob", JoinRequest(location="porto"))

    async def exactly_one() -> bool:
        seats = await rig.seats("room-1")
        return (set(seats["porto"]), set(seats["paris"])) == ({"bob"}, {"alice"})

    await eventually(exactly_one, within=15)
    assert replica.connections.get("porto") is connection
    assert connection is not None
    assert connection.ready
