"""One member that cannot be had is that member's trouble."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from edgewise.api.fleet import KUBECONFIG_KEY, SECRET_LABEL, MemberCluster, MemberClusterSpec
from edgewise.kube.core import Secret
from edgewise.server import members
from edgewise.server.joining import Wish
from edgewise.server.lifecycle import NewSession
from edgewise.server.replica import Replica
from edgewise.testing.eventually import eventually
from edgewise.testing.fleet_rig import FleetRig


async def add_member(rig: FleetRig, cluster: dict[str, Any], user: dict[str, Any]) -> None:
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
    spec = MemberClusterSpec(kubeconfig_secret="odd")
    await rig.direct.create(MemberCluster.named("odd", rig.namespace, spec=spec))


async def assert_the_others_serve(replica: Replica) -> None:
    session, _ = await replica.lifecycle.create(
        NewSession(template="demo", name="room-1"), owner="arena"
    )
    assert (await replica.joining.join(session, "alice", Wish())).new


@pytest.mark.parametrize(
    ("cluster", "user", "trouble"),
    [
        ({"certificate-authority-data": "é"}, {}, "is not valid base64"),
        ({"proxy-url": "http://[x"}, {}, "proxy-url in the kubeconfig"),
        ({}, {"token": "a\nb"}, "has a line end or another control character"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used(
    rig: FleetRig, cluster: dict[str, Any], user: dict[str, Any], trouble: str
) -> None:
    await add_member(rig, cluster, user)
    replica = await rig.add_replica()
    await eventually(lambda: trouble in replica.members.trouble("odd"), within=10)
    await assert_the_others_serve(replica)


async def test_a_failure_that_nobody_thought_of(
    rig: FleetRig, monkeypatch: pytest.MonkeyPatch
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
