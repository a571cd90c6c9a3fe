"""`edgewise bench server`: what going through the server costs."""

import asyncio
import secrets
import sys
from typing import Annotated, Any

import typer

from edgewise.bench.sessions.objects import NAMESPACE
from edgewise.bench.sessions.server import Amount, ServerBench
from edgewise.cli.bench.storing import finish
from edgewise.cli.numbers import countable
from edgewise.domain import all_kinds, install_domains
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.local.clusters import LocalCluster
from edgewise.local.platform import Program, free_ports, running_platform
from edgewise.server.identity.api_tokens import make_token, secret_of
from edgewise.server.identity.principal import Role
from edgewise.sessions.domain import SESSIONS
from edgewise.sessions.hub.enrolment import enrol_location
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

NODES = 4


@app.command()
def server(
    rounds: Annotated[int, typer.Option(min=1, help="Joins of each kind, each way.")] = 40,
    clients: Annotated[int, typer.Option(min=1, help="In the session that is read.")] = 10,
    seconds: Annotated[
        float, typer.Option(min=1, callback=countable, help="How long to read.")
    ] = 10.0,
    rate: Annotated[
        float, typer.Option(min=1, callback=countable, help="Reads a second, for their latency.")
    ] = 200.0,
) -> None:
    """Joins through the server beside joins by PATCH, and reads, on a simulated cluster."""
    amount = Amount(rounds=rounds, clients=clients, seconds=seconds, rate=rate)
    with temporary_cluster("bench", simulated_nodes=NODES) as cluster:
        figures = asyncio.run(measure(cluster, amount))
    finish("server", figures)


async def measure(cluster: LocalCluster, amount: Amount) -> dict[str, Any]:
    async with cluster.client() as client:
        await install_domains(client, [SESSIONS], all_kinds([SESSIONS]))
        await client.create(Namespace.named(NAMESPACE))
        token = await set_up(client)
        async with running_platform(cluster, gateway=False):
            url = f"http://127.0.0.1:{free_ports(1)[0]}"
            program = Program(
                cluster,
                "server",
                [
                    "server",
                    f"--kubeconfig={cluster.kubeconfig}",
                    f"--namespace={NAMESPACE}",
                    f"--listen={url.removeprefix('http://')}",
                    "--metrics=",
                    "--quiet",
                    "--application-rate=100000",
                ],
                f"{url}/readyz",
            )
            await program.start()
            try:
                bench = ServerBench(
                    client, amount, url=url, token=token, pid=program.pid, tell=tell
                )
                return await bench.run()
            finally:
                await program.stop()


async def set_up(client: Client) -> str:
    """The cluster is its own hub and only member."""
    await enrol_location(client, NAMESPACE, "here")
    token, kept = make_token(Role.ADMIN, f"bench-{secrets.token_hex(3)}")
    await client.create(secret_of(kept, NAMESPACE))
    return token


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
