"""`edgewise ping`: the echo server that clients measure their distance to."""

import asyncio
import signal
from typing import Annotated

import typer

from edgewise.agents.ping.agent import BadAddress, parse_address, ping_agent
from edgewise.agents.ping.callers import Limits
from edgewise.cli.numbers import countable

app = typer.Typer()


@app.command()
def ping(
    http: Annotated[str, typer.Option(help="Listen for HTTP here; empty for not at all.")] = (
        "0.0.0.0:7777"
    ),
    udp: Annotated[str, typer.Option(help="Listen for UDP here; empty for not at all.")] = (
        "0.0.0.0:7777"
    ),
    per_caller: Annotated[
        float,
        typer.Option(
            min=0.1, callback=countable, help="Questions a second that one address may ask."
        ),
    ] = Limits().per_caller,
    altogether: Annotated[
        float,
        typer.Option(
            min=1, callback=countable, help="Questions a second that are answered in all."
        ),
    ] = Limits().altogether,
    connections: Annotated[
        int, typer.Option(min=1, help="HTTP connections that may be open in all.")
    ] = Limits().connections,
    connections_per_caller: Annotated[
        int, typer.Option(min=1, help="HTTP connections that one address may have open.")
    ] = Limits().connections_per_caller,
) -> None:
    """Answer latency probes over HTTP (GET /ping) and UDP."""
    if not http and not udp:
        raise BadAddress("nothing to listen on: give --http, --udp or both")
    limits = Limits(
        per_caller=per_caller,
        altogether=altogether,
        connections=connections,
        connections_per_caller=connections_per_caller,
    )
    asyncio.run(serve(http, udp, limits))


async def serve(http: str, udp: str, limits: Limits) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with ping_agent(
        parse_address(http) if http else None, parse_address(udp) if udp else None, limits
    ) as at:
        halves = [("http", at.http), ("udp", at.udp)]
        print(
            "answering probes on "
            + " and ".join(f"{name} {address}" for name, address in halves if address),
            flush=True,
        )
        await ended.wait()
