"""The rights that the how-to names are enough: for the server, and for who adds clusters."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from edgewise.api.clusters import Cluster, ClusterSpec
from edgewise.api.exposure import Turn
from edgewise.api.global_sessions import Location, LocationSpec
from edgewise.kube.client import Client
from edgewise.runtime.errors import NotThere
from edgewise.server.replica import Settings
from edgewise.sessions.hub.enrolment import (
    dismiss_location,
    enrol_location,
    known_location,
    set_cordoned,
)
from edgewise.sessions.hub.joining import JoinRequest
from edgewise.sessions.hub.lifecycle import NewSession
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import QUICK, HubRig
from edgewise.testing.sessions_replica import SessionsReplica

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "clusters.md"
ROW = re.compile(r"^\| (`[a-z.0-9]+`|core) \| (.+?) \| `([a-z, ]+)` \| .* \|$", re.MULTILINE)
COMMANDS = [
    {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    for group, resource, verbs in (
        ("federation.edgewise.dev", "clusters", ["get", "list", "create", "patch", "delete"]),
        ("sessions.edgewise.dev", "locations", ["get", "list", "create", "patch", "delete"]),
        ("", "secrets", ["list", "create", "patch", "delete"]),
    )
]


def rules_of_the_page() -> list[dict[str, list[str]]]:
    text = PAGE.read_text()
    table = text[: text.index("## 2. Add clusters")]
    return [
        {
            "apiGroups": ["" if group == "core" else group.strip("`")],
            "resources": re.findall(r"`([^`]+)`", resources),
            "verbs": verbs.split(", "),
        }
        for group, resources, verbs in ROW.findall(table)
    ]


async def somebody(rig: HubRig, name: str, rules: list[dict[str, list[str]]]) -> Client:
    """A user who may do this in the hub's namespace, and nothing else anywhere."""
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{rig.namespace}"
    role = {"metadata": {"name": name}, "rules": rules}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }
    await rig.direct.request("POST", f"{base}/roles", body=msgspec.json.encode(role))
    await rig.direct.request("POST", f"{base}/rolebindings", body=msgspec.json.encode(binding))
    access = msgspec.structs.replace(rig.direct.access, impersonation=(("Impersonate-User", name),))
    return Client(access, timeout=5.0)


async def test_the_server_needs_no_more_than_the_page_says(rig: HubRig) -> None:
    rules = rules_of_the_page()
    assert {"locations", "locations/status", "clusters"} <= {
        each for rule in rules for each in rule["resources"]
    }
    async with await somebody(rig, "server", rules) as client:
        replica = SessionsReplica(client, Settings(namespace=rig.namespace, patience=QUICK))
        async with replica.running():
            await eventually(lambda: rig.settled(replica), within=20)
            new = NewSession(template="demo", name="room-1")
            session, _ = await replica.lifecycle.create(new, owner="arena")
            joined = await replica.joining.join(session, "alice", JoinRequest(location="porto"))
            assert joined.new

            async def healthy() -> bool:
                return (await rig.direct.get(Cluster, "porto", rig.namespace)).status.health == (
                    "Ready"
                )

            await eventually(healthy, within=20)
            # As the routes and the duties of the leader do.
            for subresource, body in (
                ("", {"spec": {"cordoned": True}}),
                ("status", {"status": {"degraded": {}}}),
            ):
                await client.patch(
                    Location, "porto", rig.namespace, body=body, subresource=subresource
                )
            await replica.joining.leave(session, "alice")
            await replica.lifecycle.delete(session)

            async def gone() -> bool:
                return not (await rig.sessions_in("porto"))

            await eventually(gone, within=20)


async def test_who_adds_clusters_needs_no_more_than_the_page_says(rig: HubRig) -> None:
    said = " ".join(PAGE.read_text().split())
    for rule in COMMANDS:
        verbs = ", ".join(rule["verbs"])
        assert verbs in said
        assert f"`{rule['resources'][0]}`" in said
    async with await somebody(rig, "admin", COMMANDS) as client:
        await enrol_location(
            client,
            rig.namespace,
            "rome",
            cluster=ClusterSpec(region="eu"),
            location=LocationSpec(
                cluster="rome", capacity=2, turn=Turn(urls=["turn:192.0.2.7:3478"])
            ),
            turn_secret=b"0123456789abcdef0123456789abcdef",
        )
        await set_cordoned(client, rig.namespace, "rome", True)
        known = await known_location(client, rig.namespace, "rome")
        assert (known.cordoned, known.capacity) == (True, 2)
        await dismiss_location(client, rig.namespace, "rome")
        with pytest.raises(NotThere, match="there is no cluster 'rome'"):
            await dismiss_location(client, rig.namespace, "rome")
