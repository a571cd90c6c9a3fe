"""`edgewise gateway`: one public entry point, real Envoy, kept in step with the cluster."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from edgewise.agents.gateway.agent import Address, AgentOptions, EnvoyPlace
from edgewise.agents.gateway.route_sources import ROUTE_SOURCES
from edgewise.agents.gateway.serving import serve_envoy, serve_routes
from edgewise.agents.gateway.settings import Ports, Settings, SettingsError
from edgewise.agents.gateway.token_file import TokenFile
from edgewise.cli.numbers import countable
from edgewise.kube.config import load_access
from edgewise.runtime.garbage import collect_when_told
from edgewise.runtime.logs import set_up_logs

app = typer.Typer()


def usual_run_dir() -> Path:
    """Where sockets belong: the user's own, or the machine's, runtime directory."""
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(own) / "edgewise-gateway"
    if os.access("/run", os.W_OK):
        return Path("/run/edgewise-gateway")
    return Path(tempfile.gettempdir()) / f"edgewise-gateway-{os.getuid()}"


@app.command()
def gateway(
    bind: Annotated[str, typer.Option(help="Address for clients.")] = "0.0.0.0",  # noqa: S104 - the entry point is for everybody
    http_port: Annotated[int, typer.Option(help="Port for HTTP by path.")] = 8080,
    domain: Annotated[
        str, typer.Option(help="Wildcard domain: seats are served as NAME-SEAT.domain, too.")
    ] = "",
    host_port: Annotated[int, typer.Option(help="Port for HTTP by host name.")] = 0,
    ports: Annotated[str, typer.Option(help="TCP and UDP ports for seats.")] = "20000-32767",
    trusted_hops: Annotated[
        int, typer.Option(help="Proxies in front whose X-Forwarded-For is believed.")
    ] = 0,
    allow_local_targets: Annotated[
        bool, typer.Option(help="Serve pods at loopback and link-local addresses (for tests).")
    ] = False,
    control: Annotated[
        str, typer.Option(help="Where the operator pushes, and probes and metrics are.")
    ] = "127.0.0.1:8090",
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token for pushes.", envvar="EDGEWISE_TOKEN_FILE"),
    ] = None,
    envoy: Annotated[
        EnvoyPlace,
        typer.Option(
            help="child: run Envoy, too. elsewhere: serve an Envoy that others run. "
            "only: run Envoy and nothing else."
        ),
    ] = EnvoyPlace.CHILD,
    run_dir: Annotated[
        Path | None, typer.Option(help="Directory for sockets; shared by agent and Envoy.")
    ] = None,
    xds: Annotated[
        str, typer.Option(help="HOST:PORT at which agent and Envoy meet, if not in the run-dir.")
    ] = "",
    workers: Annotated[int, typer.Option(min=0, help="Threads of Envoy; 0: one per CPU.")] = 0,
    drain_seconds: Annotated[
        float, typer.Option(min=0, callback=countable, help="How long connections may take to end.")
    ] = 20.0,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The kubeconfig to use instead of the usual one.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in it.")] = None,
    json_logs: Annotated[bool, typer.Option(help="Log as JSON.")] = False,
) -> None:
    """Run the gateway: HTTP, WebSocket, TCP and UDP to the pods of all sessions."""
    settings = Settings(
        bind=bind,
        http_port=http_port,
        domain=domain,
        host_port=host_port,
        ports=Ports.parse(ports),
        trusted_hops=trusted_hops,
        allow_local_targets=allow_local_targets,
    )
    alone = envoy is EnvoyPlace.ONLY
    options = AgentOptions(
        settings=settings,
        run_dir=(run_dir or usual_run_dir()).absolute(),
        control=Address.parse(control),
        token=str if alone else token_of(token_file),
        envoy=envoy,
        xds=Address.parse(xds) if xds else None,
        workers=workers,
        drain_seconds=drain_seconds,
    )
    set_up_logs(json=json_logs)
    collect_when_told()
    if alone:
        asyncio.run(until_told(lambda ended: serve_envoy(options, ended)))
    else:
        access = load_access(kubeconfig, context)
        asyncio.run(until_told(lambda ended: serve_routes(options, access, ROUTE_SOURCES, ended)))


def token_of(file: Path | None) -> Callable[[], str]:
    if file is None:
        raise SettingsError(
            "the control port needs a token: name a file that holds it with --token-file"
        )
    return TokenFile(file).current


async def until_told(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run until the first SIGTERM or interrupt; the second one ends at once, Envoy too."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    serving = asyncio.ensure_future(serve(ended))

    def end() -> None:
        if ended.is_set():
            serving.cancel()
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        await serving
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
