"""The program for reports beside a real API server: who is answered, and when it has to end."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from edgewise.agents.reports import program
from edgewise.agents.reports.program import Options, SecretReplaced, run_reports
from edgewise.api.installation import install
from edgewise.api.placement import LatencyPlacement
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.kinds.core import Namespace, Secret
from edgewise.placement.listening import PATH
from edgewise.placement.reports_secret import NAME, ReportsAccess, read_access
from edgewise.testing.eventually import eventually
from tests.integration.conftest import ApiServer

SHARES = "api-server"


@pytest.fixture
async def namespace(client: Client) -> str:
    await install(client, (LatencyPlacement,))
    name = f"reports-{secrets.token_hex(3)}"
    await client.create(Namespace.named(name))
    return name


@contextlib.asynccontextmanager
async def running(
    api_server: ApiServer, client: Client, namespace: str
) -> AsyncIterator[tuple[asyncio.Task[None], ReportsAccess]]:
    ended = asyncio.Event()
    access = load_access(api_server.kubeconfig)
    task = asyncio.create_task(run_reports(access, Options(namespace=namespace), ended))
    try:

        async def announced() -> bool:
            known = await read_access(client, namespace)
            return known is not None and bool(known.url)

        await eventually(announced, within=30)
        known = await read_access(client, namespace)
        assert known is not None
        yield task, known
    finally:
        ended.set()
        await asyncio.wait({task}, timeout=30)


@pytest.mark.parametrize("change", ["deleted", "another key", "another token", "no token"])
async def test_it_ends_with_a_sentence_when_its_secret_is_replaced(
    change: str,
    api_server: ApiServer,
    client: Client,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It could not check a report, and would not know the operator: started again it can."""
    monkeypatch.setattr(program, "SECRET_SECONDS", 0.2)
    async with running(api_server, client, namespace) as (task, _):
        if change == "deleted":
            await client.delete(Secret, NAME, namespace)
        else:
            field = "key" if "key" in change else "token"
            value = "" if change == "no token" else "x" * 32
            body = {"stringData": {field: value}}
            await client.patch(Secret, NAME, namespace, body=body)
        with pytest.raises(SecretReplaced, match=f"the Secret {namespace}/{NAME} was"):
            await asyncio.wait_for(asyncio.shield(task), 20)


async def test_addresses_that_another_one_wrote_do_not_end_it(
    api_server: ApiServer, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while one follows the other: the newest is asked."""
    monkeypatch.setattr(program, "SECRET_SECONDS", 0.1)
    async with running(api_server, client, namespace) as (task, _):
        body = {"stringData": {"url": "http://127.0.0.1:1", "broker": ""}}
        await client.patch(Secret, NAME, namespace, body=body)
        await asyncio.sleep(1)
        assert not task.done()


@pytest.mark.parametrize("token", [b"", b"Bearer x", b"Bearer \xff\xfe", "Bearer é".encode()])
async def test_who_has_no_token_is_told_nothing(
    token: bytes, api_server: ApiServer, client: Client, namespace: str
) -> None:
    async with running(api_server, client, namespace) as (_, access):
        at = urlsplit(access.url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        head = f"GET {PATH}?after=0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: "
        writer.write(head.encode() + token + b"\r\n\r\n")
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 401 "), answer[:200]
