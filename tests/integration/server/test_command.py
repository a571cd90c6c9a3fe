"""The commands as people type them: a hub of one cluster, its server, a session by its URL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from edgewise.api.clusters import Cluster, Ping
from edgewise.api.global_sessions import Location
from edgewise.api.installation import install
from edgewise.api.sessions import PodTemplate, SessionTemplate, SessionTemplateSpec
from edgewise.client import Edgewise, EdgewiseError
from edgewise.exposure.turn import password
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Secret
from edgewise.testing.eventually import eventually
from edgewise.testing.hub_rig import KINDS, StandIn
from edgewise.testing.ports import free_port
from tests.integration.conftest import ApiServer, Authority


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgewise.cli", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def do(*arguments: str, **environment: str) -> str:
    done = await asyncio.to_thread(run, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edgewise.cli", *arguments, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(20):
            assert process.stderr is not None
            log = (await process.stderr.read()).decode()
            assert await process.wait() == 0, log


async def test_clusters_by_their_commands(
    api_server: ApiServer, client: Client, namespace: str, tmp_path: Path
) -> None:
    await install(client, KINDS)
    spec = SessionTemplateSpec(pod_templates=[PodTemplate(name="demo")])
    await client.create(SessionTemplate.named("demo", namespace, spec=spec))
    stand_in = asyncio.create_task(StandIn(client, namespace, "here").run())
    hub = ("--kubeconfig", str(api_server.kubeconfig), "--namespace", namespace)

    shared = tmp_path / "turn-secret"
    shared.write_text("a secret that coturn knows, too\n")
    turn = ("--turn-url", "turn:192.0.2.7:3478", "--turn-secret-file", str(shared))
    await do("cluster", "add", "here", "--region", "home", "--capacity", "5", *turn, *hub)
    await do("cluster", "add", "there", *turn, *hub)
    await client.get(Secret, "edgewise-turn-there", namespace)
    await do("cluster", "add", "there", "--member", str(api_server.kubeconfig), *hub)
    before = (await client.get(Cluster, "there", namespace)).spec
    taking = (await client.get(Location, "there", namespace)).spec
    assert taking.turn.urls == ["turn:192.0.2.7:3478"]
    await do("cluster", "add", "there", "--capacity", "3", "--ping-udp", "192.0.2.8:7", *hub)
    after = (await client.get(Cluster, "there", namespace)).spec
    assert after == msgspec.structs.replace(
        before, ping=Ping(http=before.ping.http, udp="192.0.2.8:7")
    )
    wanted = msgspec.structs.replace(taking, capacity=3)
    assert (await client.get(Location, "there", namespace)).spec == wanted
    assert after.kubeconfig_secret == "edgewise-member-there"
    await client.get(Secret, "edgewise-turn-there", namespace)
    listed = await do("cluster", "list", *hub)
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [
        ["here", "home"],
        ["there", "-"],
    ]
    await do("cluster", "cordon", "there", *hub)
    wrong = ("--kubeconfig", str(api_server.kubeconfig), "--namespace", "wrong")
    listed = await do("cluster", "list", *wrong)
    assert listed.startswith("There are no clusters in the hub of namespace wrong: there is one")
    for command in (["token", "create", "arena"], ["token", "list"]):
        refused = await asyncio.to_thread(run, *command, *wrong)
        assert refused.returncode == 1, "it would look as if it worked"
        assert "there is no hub in namespace wrong, but there is one in" in refused.stderr
    token = (await do("token", "create", "arena", *hub)).strip()
    reader = (await do("token", "create", "page", "--role", "reader", *hub)).strip()
    tokens = await do("token", "list", *hub)
    assert token not in tokens
    assert {line.split()[1] for line in tokens.splitlines()[1:]} == {"arena", "page"}

    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "127.0.0.1", server=True)
    port, metrics = free_port(), free_port()
    url = f"https://127.0.0.1:{port}"
    tls = ssl.create_default_context(cafile=str(authority.certificate_file))
    tls.check_hostname = False
    async with started(
        *("server", *hub, "--listen", f"127.0.0.1:{port}", "--metrics", f"127.0.0.1:{metrics}"),
        *("--tls-cert", str(certificate), "--tls-key", str(key)),
    ):
        async with aiohttp.ClientSession() as http:

            async def up() -> bool:
                async with http.get(f"{url}/readyz", ssl=tls) as answer:
                    return answer.status == 200

            await eventually(up, within=60, every=0.2, not_yet=(aiohttp.ClientError,))
            async with Edgewise(url, token, tls=tls) as edgewise:

                async def connected() -> bool:
                    places = {each.name: each for each in await edgewise.locations()}
                    return places["here"].state == "ready"

                await eventually(connected, within=20, every=0.2)
                await edgewise.create_session("demo", "room-1", locations=["here"])
                async with edgewise.join("room-1", client="alice") as seat:
                    assert seat.location == "here"
                    assert seat.ready
                    (server,) = seat.ice_servers
                    expected = password("a secret that coturn knows, too", server.username)
                    assert server.credential == expected

            async with http.get(f"http://127.0.0.1:{metrics}/metrics") as answer:
                text = await answer.text()
            assert 'edgewise_hub_location_ready{location="here"} 1.0' in text
            assert "edgewise_hub_hub_ready 1.0" in text
            for sample in (
                f'edgewise_cache_objects{{cache="hub/globalsessions[{namespace}]"}} 1.0',
                f'edgewise_lists_total{{cache="member/here/sessions[{namespace}]"}} 1.0',
                f'edgewise_watch_events_total{{cache="member/here/sessions[{namespace}]"}}',
                f'edgewise_list_seconds_count{{cache="hub/secrets[{namespace} ',
                'edgewise_api_requests_total{code="200",kind="Session",verb="list"}',
                "edgewise_leading 1.0",
            ):
                assert sample in text
            assert token not in text

        id = reader.split("_")[1]
        await do("token", "revoke", id, *hub)
        await do("cluster", "remove", "there", *hub)
        await do("cluster", "remove", "here", *hub)
        listing = await client.list(Secret, namespace)
        assert not [each for each in listing.items if "turn" in each.metadata.name]
    stand_in.cancel()
    await asyncio.wait({stand_in})


async def test_sessions_by_a_servers_url(
    api_server: ApiServer, client: Client, namespace: str
) -> None:
    await install(client, KINDS)
    spec = SessionTemplateSpec(pod_templates=[PodTemplate(name="demo")])
    await client.create(SessionTemplate.named("demo", namespace, spec=spec))
    stand_in = asyncio.create_task(StandIn(client, namespace, "here").run())
    hub = ("--kubeconfig", str(api_server.kubeconfig), "--namespace", namespace)
    ping = f"127.0.0.1:{free_port()}"
    await do("cluster", "add", "here", "--ping-udp", ping, *hub)
    token = (await do("token", "create", "arena", *hub)).strip()
    port = free_port()
    here = {"EDGEWISE_SERVER": f"http://127.0.0.1:{port}", "EDGEWISE_TOKEN": token}
    async with (
        started("ping", "--udp", ping, "--http", ping),
        started("server", *hub, "--listen", f"127.0.0.1:{port}", "--metrics", ""),
    ):

        async def connected() -> bool:
            async with Edgewise(here["EDGEWISE_SERVER"], token) as edgewise:
                return [each.state for each in await edgewise.locations()] == ["ready"]

        await eventually(connected, within=60, every=0.2, not_yet=(EdgewiseError,))
        assert await do("session", "create", "room-1", "--template", "demo", **here) == (
            "session room-1 created\n"
        )
        again = await do("session", "create", "room-1", "--template", "demo", **here)
        assert again == "session room-1 is there already\n"
        joined = await do("session", "join", "room-1", "alice", "--url", **here)
        assert joined == "http://here.test/s/room-1-alice/web/\n"
        shown = json.loads(await do("session", "show", "room-1", "--json", **here))
        alice = shown["clientsById"]["alice"]
        assert (alice["phase"], alice["location"]) == ("Ready", "here")
        assert " ms away" in alice["message"], "it was not measured"
        text = await do("session", "show", "room-1", **here)
        assert text.startswith("Session room-1: template demo, 1 of 1 clients ready, ")
        assert "alice    Ready in here   demo/web http://here.test/s/room-1-alice/web/" in text
        header, row = (await do("session", "list", **here)).splitlines()
        assert header.split() == ["NAME", "TEMPLATE", "CLIENTS", "READY", "DISCONNECTED", "AGE"]
        assert row.split()[:-1] == ["room-1", "demo", "1", "1", "0"]
        assert "demo" in await do("session", "templates", **here)
        await do("session", "disconnect", "room-1", "alice", **here)
        await do("session", "leave", "room-1", "alice", **here)
        await do("session", "delete", "room-1", "--wait", **here)
        assert await do("session", "list", **here) == ""
    stand_in.cancel()
    await asyncio.wait({stand_in})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["server", "--listen", "nowhere"], "--listen must be HOST:PORT"),
        (["server", "--tls-cert", "/nonexistent"], "both --tls-cert and --tls-key"),
        (["server", "--oidc-issuer", "https://x"], "both --oidc-issuer and --oidc-audience"),
        (["server", "--lost-after", "2", "--suspect-after", "5"], "--lost-after must be longer"),
        (["server", "--kubeconfig", "/nonexistent"], "cannot read the kubeconfig"),
        (["cluster", "add", "Bad Name"], "cannot name a cluster"),
        (["cluster", "add", "a", "--member", "/nonexistent"], "cannot read the kubeconfig"),
        (["cluster", "add", "a", "--ping-http", "ftp://x"], "--ping-http must be a URL"),
        (["cluster", "add", "a", "--turn-url", "turn:x"], "--turn-secret-file belong together"),
        (
            ["cluster", "add", "a", "--turn-url", "turn:x", "--turn-secret-file", "/nonexistent"],
            "cannot read /nonexistent",
        ),
        (["token", "create", "arena", "--role", "root"], "--role must be one of"),
        (["token", "create", "Arena!"], "cannot name an application"),
        (["session", "list", "--server", "http://x"], "put an API token into EDGEWISE_TOKEN"),
        (["session", "list", "--server", "http://x", "-n", "y"], "has no namespaces"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments: list[str], said: str) -> None:
    done = run(*arguments, EDGEWISE_TOKEN="", EDGEWISE_SERVER="")
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
