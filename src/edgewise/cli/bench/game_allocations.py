"""`edgewise bench allocate`: servers given to matches, by two replicas of the server."""

import asyncio
import contextlib
import secrets
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer

from edgewise.api.clusters import Cluster
from edgewise.api.games import Fleet, FleetSpec, Scaling, ServerSpec
from edgewise.bench.gameservers.acknowledged import AcknowledgedBench
from edgewise.bench.gameservers.allocate import AllocateBench, Amount
from edgewise.cli.bench.storing import finish
from edgewise.cli.numbers import countable
from edgewise.domain import all_kinds, install_domains
from edgewise.gameservers.domain import GAMESERVERS
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import Program, free_ports, running_platform
from edgewise.server.identity.api_tokens import make_token, secret_of
from edgewise.server.identity.principal import Role
from edgewise.sessions.domain import SESSIONS
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

NAMESPACE = "bench"
GAME = "bench"
REPLICAS = 2
REAL_SERVERS = 20
REAL_ALLOCATIONS = 200
PODS_OF_A_NODE = 100
POD = {
    "containers": [{"name": "game", "image": "game:1"}],
    "terminationGracePeriodSeconds": 0,
}


@app.command()
def allocate(
    servers: Annotated[int, typer.Option(min=10, help="Servers of the fleet.")] = 500,
    allocations: Annotated[int, typer.Option(min=1, help="Matches that get a server.")] = 10_000,
    callers: Annotated[int, typer.Option(min=1, help="Callers at once.")] = 50,
    rate: Annotated[
        float, typer.Option(min=1, callback=countable, help="Calls a second, for their latency.")
    ] = 50.0,
    acknowledge: Annotated[
        bool,
        typer.Option(
            "--acknowledge",
            help="Answered when the game has acknowledged it instead, on 20 real pods at 20/s.",
        ),
    ] = False,
) -> None:
    """Allocations through two replicas, beside patches of the same servers, on simulated nodes."""
    if acknowledge:
        tell("starting a cluster with a real node")
        with temporary_cluster("bench", nodes=1) as cluster:
            figures = asyncio.run(measure_acknowledged(cluster))
        finish("allocate", figures)
        return
    amount = Amount(servers=servers, allocations=allocations, callers=callers, rate=rate)
    nodes = -(-servers // PODS_OF_A_NODE) + 1
    tell("starting a simulated cluster")
    with temporary_cluster("bench", simulated_nodes=nodes) as cluster:
        figures = asyncio.run(measure(cluster, amount))
    finish("allocate", figures)


@contextlib.asynccontextmanager
async def with_servers(cluster: LocalCluster) -> AsyncIterator[tuple[Client, list[str], str]]:
    """An operator and two replicas of the server: a client, their addresses, and a token."""
    domains = [SESSIONS, GAMESERVERS]
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(cluster.client())
        await install_domains(client, domains, {*all_kinds(domains), Cluster})
        await client.create(Namespace.named(NAMESPACE))
        token, kept = make_token(Role.APP, f"bench-{secrets.token_hex(3)}")
        await client.create(secret_of(kept, NAMESPACE))
        await stack.enter_async_context(running_platform(cluster, gateway=False))
        urls = [await start_server(cluster, number, stack) for number in range(REPLICAS)]
        yield client, urls, token


async def measure_acknowledged(cluster: LocalCluster) -> dict[str, Any]:
    async with with_servers(cluster) as (client, urls, token):
        bench = AcknowledgedBench(
            client,
            servers=REAL_SERVERS,
            allocations=REAL_ALLOCATIONS,
            namespace=NAMESPACE,
            game=GAME,
            urls=urls,
            token=token,
            tell=tell,
        )
        return await bench.run()


async def measure(cluster: LocalCluster, amount: Amount) -> dict[str, Any]:
    async with with_servers(cluster) as (client, urls, token):
        tell(f"making {amount.servers} servers")
        spec = FleetSpec(scaling=Scaling(replicas=amount.servers), spec=ServerSpec(pod=POD))
        await client.create(Fleet.named(GAME, NAMESPACE, spec=spec))
        bench = AllocateBench(
            client, amount, namespace=NAMESPACE, game=GAME, urls=urls, token=token, tell=tell
        )
        return await bench.run()


async def start_server(cluster: LocalCluster, number: int, stack: contextlib.AsyncExitStack) -> str:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    program = Program(
        cluster,
        f"server-{number}",
        [
            "server",
            f"--kubeconfig={cluster.home.component_kubeconfig('server')}",
            f"--namespace={NAMESPACE}",
            f"--listen={url.removeprefix('http://')}",
            "--metrics=",
            "--quiet",
            "--application-rate=100000",
        ],
        f"{url}/readyz",
    )
    await program.start()
    stack.push_async_callback(program.stop)
    return url


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
