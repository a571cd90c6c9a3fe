"""`edgewise bench server`: what going through the server costs."""

import asyncio
import json
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from edgewise.api.fleet import ClientBinding, FleetSession, MemberCluster, MemberClusterSpec
from edgewise.api.installation import install
from edgewise.api.sessions import PortClaim, Session, SessionTemplate
from edgewise.bench.join_objects import NAMESPACE
from edgewise.bench.server import Amount, ServerBench
from edgewise.cli.numbers import countable
from edgewise.kube.client import Client
from edgewise.kube.core import Namespace
from edgewise.local.clusters import Cluster
from edgewise.local.platform import Program, free_ports, running_platform
from edgewise.server.enrolment import enrol
from edgewise.server.identity.api_tokens import make_token, secret_of
from edgewise.server.identity.principal import Role
from edgewise.testing.clusters import temporary_cluster

app = typer.Typer()

KINDS = (SessionTemplate, Session, PortClaim, FleetSession, ClientBinding, MemberCluster)
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
    print(json.dumps(figures))


async def measure(cluster: Cluster, amount: Amount) -> dict[str, Any]:
    async with cluster.client() as client:
        await install(client, KINDS)
        await client.create(Namespace.named(NAMESPACE))
        token = await set_up(client)
        with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
            async with running_platform(cluster, gateway=False):
                url = f"http://127.0.0.1:{free_ports(1)[0]}"
                program = Program(
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
                    Path(folder) / "server.log",
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
    await enrol(client, NAMESPACE, "here", MemberClusterSpec(), None)
    token, kept = make_token(Role.ADMIN, f"bench-{secrets.token_hex(3)}")
    await client.create(secret_of(kept, NAMESPACE))
    return token


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
