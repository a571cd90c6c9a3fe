"""`edgewise reports`: counts what clients measured, for the placements of one cluster."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from edgewise.agents.reports.broker import BrokerError
from edgewise.agents.reports.program import Options, run_reports
from edgewise.kube.config import Access, load_access
from edgewise.operator import NAMESPACE
from edgewise.placement.broker_url import BadBrokerUrl, BrokerUrl
from edgewise.placement.reports_secret import PING_PORT
from edgewise.runtime.logs import set_up_logs

app = typer.Typer()


@app.command()
def reports(
    run_broker: Annotated[
        bool, typer.Option("--run-broker", help="Run a mosquitto of its own.")
    ] = False,
    broker: Annotated[
        str,
        typer.Option(
            help="The broker to listen at: mqtt://HOST:PORT or mqtts://HOST:PORT, with "
            "USER:PASSWORD@ in front of the host if it asks for that.",
            envvar="EDGEWISE_BROKER",
        ),
    ] = "",
    public_broker: Annotated[
        str, typer.Option(help="Where clients find it, if not at the same address.")
    ] = "",
    broker_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of its own mosquitto, for clients; 0: any.")
    ] = 0,
    bind: Annotated[
        str,
        typer.Option(help="Address to listen at; empty: the one that leads to the API server."),
    ] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="For the operator, health and metrics; 0: any.")
    ] = 0,
    advertise: Annotated[
        str, typer.Option(help="URL at which the operator finds it, if not that address.")
    ] = "",
    ping_port: Annotated[
        int,
        typer.Option(min=1, max=65535, help="Of the nodes, at which their ping agents answer."),
    ] = PING_PORT,
    namespace: Annotated[
        str, typer.Option(help="The operator's namespace, where its Secret is.")
    ] = NAMESPACE,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The kubeconfig to use instead of the usual one.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in it.")] = None,
    json_logs: Annotated[bool, typer.Option(help="Log as JSON.")] = False,
) -> None:
    """Count what clients report, and tell the operator."""
    if run_broker == bool(broker):
        raise BrokerError("say either --run-broker or --broker mqtt://HOST:PORT")
    options = Options(
        namespace=namespace,
        bind=bind,
        port=port,
        broker=_parsed(broker, "--broker") if broker else None,
        broker_port=broker_port,
        advertise=advertise,
        public_broker=public_broker and repr(_parsed(public_broker, "--public-broker")),
        ping_port=ping_port,
    )
    access = load_access(kubeconfig, context)
    set_up_logs(json=json_logs)
    asyncio.run(serve(access, options))


def _parsed(text: str, option: str) -> BrokerUrl:
    try:
        return BrokerUrl.parse(text)
    except BadBrokerUrl as error:
        raise BadBrokerUrl(f"{option}: {error}") from None


async def serve(access: Access, options: Options) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    await run_reports(access, options, ended)
