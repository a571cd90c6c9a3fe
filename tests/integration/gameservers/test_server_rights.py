"""The rights that the how-to names are enough for games in the server, and its account passes the
policy that keeps Allocations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from edgewise.api.games import Server
from edgewise.gameservers import names
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod
from edgewise.server.identity.principal import Role
from tests.integration.gameservers.allocating import POD, Stage, stage
from tests.integration.server.http_client import Caller
from tests.integration.server.test_rights import rules_of_the_page

RBAC = "rbac.authorization.k8s.io"
# What the policy knows the account by, in all namespaces.
KNOWN_BY = {
    "apiGroups": ["games.edgewise.dev"],
    "resources": ["servers/status"],
    "verbs": ["patch"],
}
MATCHES = "/v1/games/chess/allocations"


async def grant(rig: Stage, kind: str, account: str, rules: list[dict[str, Any]]) -> None:
    name = f"server-of-{rig.namespace}"
    where = {"namespace": rig.namespace} if kind == "Role" else {}
    made = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name, **where}}
    await rig.direct.apply({**made, "kind": kind, "rules": rules})
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": account}]
    role = {"apiGroup": RBAC, "kind": kind, "name": name}
    binding = {**made, "kind": f"{kind}Binding", "roleRef": role, "subjects": subjects}
    await rig.direct.apply(binding)


@pytest.fixture
async def rig(client: Client) -> AsyncIterator[Stage]:
    async with stage(client) as rig:
        account = f"system:serviceaccount:{rig.namespace}:{names.SERVER_ACCOUNT}"
        await grant(rig, "Role", account, rules_of_the_page())
        await grant(rig, "ClusterRole", account, [KNOWN_BY])
        await rig.add_replica(account)
        await rig.add_fleet()
        yield rig


async def test_the_server_needs_no_more_for_games_than_the_page_says(rig: Stage) -> None:
    await rig.add_server("one")
    await rig.seen(1)
    async with aiohttp.ClientSession() as http:
        app = Caller(http, rig.replicas[0].url, await rig.add_token(Role.APP, "arena"))
        admin = Caller(http, rig.replicas[0].url, await rig.add_token(Role.ADMIN, "ops"))
        first = await app("POST", MATCHES, {"match": "m1"})
        assert first.status == 201, first
        assert (await app("POST", MATCHES, {"match": "m1"})).status == 200, "made sure of"
        assert (await app("POST", MATCHES, {"match": "m2", "wait": 60})).status == 202
        assert (await app("DELETE", f"{MATCHES}/m1")).status == 204
        served = await app("GET", f"{MATCHES}/m2?wait=20")
        assert (served.status, served.body["server"]) == (200, "one")

        made = await admin(
            "POST", "/v1/servers", {"metadata": {"name": "two"}, "spec": {"pod": POD}}
        )
        assert made.status == 201, made
        pod = Pod.named("two-pod", rig.namespace, spec=POD)
        pod.metadata.labels = {names.PROTECTED: "two"}
        await rig.direct.create(pod)
        labelled = await admin("POST", "/v1/servers/two/pod/labels", {"labels": {"team": "red"}})
        assert labelled.status == 200, labelled
        body = {"metadata": {"finalizers": [names.SERVER_FINALIZER]}}
        await rig.direct.patch(Server, "two", rig.namespace, body=body)
        assert (await admin("DELETE", "/v1/servers/two?force=true")).status == 202
        assert (await rig.direct.get(Server, "two", rig.namespace)).spec.operation == "Kill"
