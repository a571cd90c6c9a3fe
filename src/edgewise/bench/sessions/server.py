"""What the server costs: joins through it beside the same joins by PATCH, and reads.

Both ways of joining take turns, in sessions of the same template on the same cluster, so
that a machine that gets slower gets slower for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from edgewise.api.sessions import Session, SessionTemplate
from edgewise.bench.http_reads import Connection, at_a_rate, flat_out
from edgewise.bench.process_cost import cpu_seconds, rss_mb
from edgewise.bench.sessions.objects import NAMESPACE, session, template
from edgewise.bench.sessions.scale import IMAGE
from edgewise.bench.summary import ratio, summary
from edgewise.kube.client import Client
from edgewise.kube.objects import Key
from edgewise.runtime.awaiting import Waiting, watching

Tell = Callable[[str], None]

READERS = 16
PATIENCE = 120.0


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    rounds: int
    clients: int  # in the session that is read
    seconds: float
    rate: float  # reads a second, for their latency


class ServerBench:
    def __init__(
        self, client: Client, amount: Amount, *, url: str, token: str, pid: int, tell: Tell
    ) -> None:
        self._client = client
        self._url = url
        self._token = token
        self._pid = pid
        self._amount = amount
        self._tell = tell

    async def run(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as self._http,
            watching(self._client, Session, SessionTemplate) as waits,
        ):
            self._sessions: Waiting[Session] = waits[0]
            self._templates: Waiting[SessionTemplate] = waits[1]
            figures = await self._joins("cold", warm=0)
            figures |= await self._joins("warm", warm=4)
            figures |= await self._reads()
        figures["rss_mb"] = round(rss_mb(self._pid), 1)
        return figures

    # Joins --------------------------------------------------------------------------

    async def _joins(self, name: str, *, warm: int) -> dict[str, Any]:
        spec = template(name, IMAGE, seats=1, warm=warm, pod=_pod())
        await self._client.apply(spec)
        await self._client.apply(session(f"{name}-direct", name))
        await self._create(f"{name}-server", name)
        direct: list[float] = []
        through: list[float] = []
        for number in range(self._amount.rounds):
            for times, way, which in (
                (direct, self._join_directly, f"{name}-direct"),
                (through, self._join_through, f"{name}-server"),
            ):
                await self._until_warm(name, warm)
                began = time.perf_counter()
                await way(which, f"c{number}")
                times.append(time.perf_counter() - began)
        await self._clear(name)
        found = {f"direct_{name}_s": summary(direct), f"server_{name}_s": summary(through)}
        value = ratio(found[f"server_{name}_s"].get("p50"), found[f"direct_{name}_s"].get("p50"))
        self._tell(f"{name}: a join through the server takes {value} × one by PATCH")
        key = "join_ratio_p50" if name == "cold" else f"join_{name}_ratio_p50"
        return {**found, key: value}

    async def _until_warm(self, name: str, warm: int) -> None:
        if warm:
            await self._templates.until(
                Key(NAMESPACE, name),
                lambda seen: seen is not None and (seen.status.warm or 0) >= warm,
                f"{warm} warm pods of {name}",
                within=PATIENCE,
            )

    async def _join_directly(self, name: str, client: str) -> None:
        body = {"spec": {"clients": {client: {"connected": True}}}}
        await self._client.patch(Session, name, NAMESPACE, body=body)

        def ready(seen: Session | None) -> bool:
            has = seen.status.clients.get(client) if seen is not None else None
            return has is not None and has.ready

        key = Key(NAMESPACE, name)
        await self._sessions.until(key, ready, f"{client} ready in {name}", within=PATIENCE)

    async def _join_through(self, name: str, client: str) -> None:
        url = f"{self._url}/v1/sessions/{name}/clients/{client}?wait=60"
        async with self._http.put(url, json={"leaseSeconds": 0}) as answer:
            view = await answer.json()
            if not view.get("ready"):
                raise RuntimeError(f"{client} did not become ready in {name}: {view}")

    async def _create(self, name: str, template_name: str) -> None:
        url = f"{self._url}/v1/sessions"
        # The template has to reach the server's cache first.
        for _ in range(100):
            async with self._http.post(
                url, json={"name": name, "template": template_name}
            ) as answer:
                if answer.status in (200, 201):
                    break
                problem = await answer.json()
        else:
            raise RuntimeError(f"the session {name} was not made: {problem}")
        key = Key(NAMESPACE, name)
        await self._sessions.until(key, lambda seen: seen is not None, f"{name} made")

    async def _clear(self, name: str) -> None:
        await self._client.delete(Session, f"{name}-direct", NAMESPACE)
        async with self._http.delete(f"{self._url}/v1/sessions/{name}-server"):
            pass
        for which in (f"{name}-direct", f"{name}-server"):
            await self._sessions.until(
                Key(NAMESPACE, which), lambda seen: seen is None, f"{which} gone", within=PATIENCE
            )

    # Reads --------------------------------------------------------------------------

    async def _reads(self) -> dict[str, Any]:
        amount = self._amount
        await self._client.apply(template("read", IMAGE, seats=0, pod=_pod()))
        await self._create("read", "read")
        for number in range(amount.clients):
            await self._join_through("read", f"c{number}")
        connections = [
            Connection(self._url, "/v1/sessions/read", self._token) for _ in range(READERS)
        ]
        for connection in connections:
            await connection.open()
        size = await connections[0].read()
        paced = await at_a_rate(connections, amount.rate, amount.seconds)
        before = cpu_seconds(self._pid)
        reads, seconds = await flat_out(connections, amount.seconds)
        used = cpu_seconds(self._pid) - before
        for connection in connections:
            connection.close()
        latency = summary([each * 1000 for each in paced], digits=2)
        return {
            "read_bytes": size,
            "read_clients": amount.clients,
            "reads_per_s": round(reads / seconds, 1),
            "reads_per_cpu_s": round(reads / used, 1) if used else None,
            "read_ms": latency,
            "read_p99_ms": latency.get("p99"),
        }


def _pod() -> dict[str, Any]:
    return {"containers": [{"name": "server", "image": IMAGE}], "terminationGracePeriodSeconds": 0}
