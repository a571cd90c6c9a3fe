"""Objects of games over HTTP, also by the routes of the first implementation."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from edgewise.api.games import Server
from edgewise.gameservers import names
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod
from edgewise.server.http.app import create_app
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.identity.principal import Role
from tests.integration.gameservers.allocating import POD, Stage, stage
from tests.integration.server.http_client import Caller

SCHEMATHESIS = """
[parameters]
"path.game" = "chess"
"path.match" = "m1"
"path.name" = "one"
"query.wait" = 0
"""
# What exists cannot be said by a schema, and numbers may be sent as strings.
EXCLUDED = "positive_data_acceptance,negative_data_rejection"


@pytest.fixture
async def rig(client: Client) -> AsyncIterator[Stage]:
    async with stage(client) as rig:
        await rig.add_replica()
        await rig.add_fleet()
        yield rig


@pytest.fixture
async def admin(rig: Stage) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as http:
        yield Caller(http, rig.replicas[0].url, await rig.add_token(Role.ADMIN, "ops"))


async def test_all_kinds_are_made_and_deleted(rig: Stage, admin: Caller) -> None:
    server = {"pod": POD}
    fleet = {"spec": server, "scaling": {"replicas": 2}}
    specs = {
        "servers": server,
        "fleets": fleet,
        "gametypes": {"fleetSpec": fleet},
        "gameautoscalers": {
            "gameName": "go",
            "policy": {"type": "webhook", "webhook": {"url": "http://scaler/scale"}},
        },
    }
    for plural, spec in specs.items():
        made = await admin("POST", f"/v1/{plural}", {"metadata": {"name": "go"}, "spec": spec})
        assert made.status == 201, made
        again = await admin("POST", f"/v1/{plural}", {"metadata": {"name": "go"}, "spec": spec})
        assert again.status == 409
        assert "already" in again.body["detail"]
        gone = await admin("DELETE", f"/v1/{plural}/go")
        assert (gone.status, gone.body["state"]) == (202, "deleting")
        assert (await admin("DELETE", f"/v1/{plural}/nobody")).status == 404
    wrong = await admin("POST", "/v1/servers", {"metadata": {"name": "x"}, "spec": {"pod": {}}})
    assert wrong.status == 422
    assert "at least one container" in wrong.body["detail"]


async def test_force_is_a_permission_of_its_own_and_ends_the_game(
    rig: Stage, admin: Caller
) -> None:
    made = await rig.add_server("one")
    await rig.direct.patch(
        Server, "one", rig.namespace, body={"metadata": {"finalizers": [names.SERVER_FINALIZER]}}
    )
    app = Caller(admin.http, admin.url, await rig.add_token(Role.APP, "arena"))
    assert (await app("DELETE", "/v1/servers/one?force=true")).status == 403
    answer = await admin("DELETE", "/v1/servers/one?force=true")
    assert answer.body["uid"] == made.metadata.uid
    left = await rig.direct.get(Server, "one", rig.namespace)
    assert left.metadata.deleting
    assert left.spec.operation == "Kill"


async def test_the_routes_of_the_first_implementation_are_aliases(
    rig: Stage, admin: Caller
) -> None:
    meta = {"name": "server", "namespace": rig.namespace}
    manifest = {
        "apiVersion": "games.edgewise.dev/v1alpha1",
        "kind": "Server",
        "metadata": {**meta, "labels": {"label1": "value1"}},
        "spec": {"pod": POD, "timeout": "5m0s"},
    }
    assert (await admin("POST", "/server", manifest)).status == 201
    pod = Pod.named("server-pod", rig.namespace, spec=POD)
    pod.metadata.labels = {"server": "server", names.PROTECTED: "server"}
    await rig.direct.create(pod)
    labels = {"label1": "val1", "label2": "val2"}
    path = "/server/pod/labels"
    answer = await admin("POST", path, {"metadata": {**meta, "labels": labels}})
    assert answer.status == 200, answer
    assert answer.body["labels"].items() >= labels.items()
    answer = await admin("DELETE", path, {"metadata": meta, "label": "label1"})
    assert answer.status == 200, answer
    found = await rig.direct.get(Pod, "server-pod", rig.namespace)
    assert found.metadata.labels == {
        "label2": "val2",
        "server": "server",
        names.PROTECTED: "server",
    }
    for own in ("server", names.PROTECTED, "fleet"):
        refused = await admin("DELETE", path, {"metadata": meta, "label": own})
        assert refused.status == 422
        assert "Edgewise's own" in refused.body["detail"]
    other = await admin("DELETE", "/server", {"metadata": {"name": "server", "namespace": "x"}})
    assert other.status == 422
    assert (await admin("DELETE", "/server", {"metadata": meta})).status == 202


WRITERS = ("admin",)
EXPECTED: dict[tuple[str, str], tuple[str, ...]] = {
    ("POST", "/v1/games/{game}/allocations"): ("admin", "app"),
    ("GET", "/v1/games/{game}/allocations"): ("admin", "app", "reader"),
    ("GET", "/v1/games/{game}/allocations/{match}"): ("admin", "app", "reader"),
    ("POST", "/v1/games/{game}/allocations/{match}/heartbeat"): ("admin", "app"),
    ("DELETE", "/v1/games/{game}/allocations/{match}"): ("admin", "app"),
    ("POST", "/v1/servers/{name}/pod/labels"): WRITERS,
    ("POST", "/server/pod/labels"): WRITERS,
    ("DELETE", "/server/pod/labels"): WRITERS,
}
for _plural, _word in (
    ("servers", "server"),
    ("fleets", "fleet"),
    ("gametypes", "gametype"),
    ("gameautoscalers", "gameautoscaler"),
):
    EXPECTED[("POST", f"/v1/{_plural}")] = WRITERS
    EXPECTED[("DELETE", f"/v1/{_plural}/{{name}}")] = WRITERS
    EXPECTED[("POST", f"/{_word}")] = WRITERS
    EXPECTED[("DELETE", f"/{_word}")] = WRITERS


async def test_who_may_do_what_is_written_down_for_every_route(rig: Stage, admin: Caller) -> None:
    replica = rig.replicas[0].replica
    app = create_app(replica, Authenticator(replica.credentials)).app
    routes = {
        (method, route.path_format)
        for route in app.routes
        for method, (handler, _) in getattr(route, "route_handler_map", {}).items()
        if method not in ("OPTIONS", "HEAD")
        and not handler.opt.get("open")
        and not route.path.startswith("/schema")
    }
    assert routes == set(EXPECTED)
    callers = {
        "app": Caller(admin.http, admin.url, await rig.add_token(Role.APP, "arena")),
        "reader": Caller(admin.http, admin.url, await rig.add_token(Role.READER, "eyes")),
        "nobody": Caller(admin.http, admin.url),
    }
    for (method, pattern), allowed in EXPECTED.items():
        path = pattern.format(game="chess", match="m1", name="one")
        for name, caller in callers.items():
            if name not in allowed:
                status = (await caller(method, path, {} if method == "POST" else None)).status
                assert status == (401 if name == "nobody" else 403), (method, path, name)


async def test_no_call_finds_a_mistake_of_ours(rig: Stage, admin: Caller, tmp_path: Path) -> None:
    await rig.add_server("one")
    await rig.seen(1)
    assert (await admin("POST", "/v1/games/chess/allocations", {"match": "m1"})).status == 201
    config = tmp_path / "schemathesis.toml"
    config.write_text(SCHEMATHESIS)
    token = admin.headers["Authorization"]
    done = await asyncio.to_thread(
        subprocess.run,
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
            *(f"{admin.url}/v1/openapi.json", "--checks", "all", "--exclude-checks", EXCLUDED),
            *("--phases", "coverage,fuzzing", "--max-examples", "15", "--seed", "7"),
            *("--header", f"Authorization: {token}", "--request-timeout", "30"),
            *("--continue-on-failure", "--no-color"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    tried = re.search(r"(\d+) generated", done.stdout)
    assert tried is not None
    assert int(tried[1]) > 200
    assert token not in done.stdout
