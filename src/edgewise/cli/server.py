"""`edgewise server`: the HTTP API over many clusters."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from edgewise.cli.numbers import countable
from edgewise.kube.config import load_access
from edgewise.runtime.errors import ServiceError
from edgewise.runtime.logs import set_up_logs

app = typer.Typer()


class BadOptions(ServiceError):
    """Options that do not go together, with what to do about it."""


@app.command()
def server(
    listen: Annotated[str, typer.Option(help="HOST:PORT of the API.")] = "127.0.0.1:8443",
    namespace: Annotated[
        str, typer.Option(help="Where the hub's objects are, in the hub cluster.")
    ] = "default",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The kubeconfig of the hub, if not the usual one.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in it.")] = None,
    metrics: Annotated[
        str, typer.Option(help="HOST:PORT for Prometheus; empty for none.")
    ] = "127.0.0.1:8444",
    tls_cert: Annotated[Path | None, typer.Option(help="PEM file; turns TLS on.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file that goes with it.")] = None,
    oidc_issuer: Annotated[str, typer.Option(help="https:// address of an OIDC issuer.")] = "",
    oidc_audience: Annotated[str, typer.Option(help="Whom its tokens must be for.")] = "",
    oidc_role_claim: Annotated[
        str, typer.Option(help="The claim with admin, app or reader.")
    ] = "edgewise_role",
    oidc_application_claim: Annotated[
        str, typer.Option(help="The claim that names the application.")
    ] = "sub",
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="An origin whose pages may call the API.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None, typer.Option(help="A proxy whose X-Forwarded-For is believed.")
    ] = None,
    suspect_after: Annotated[
        float,
        typer.Option(
            min=1, callback=countable, help="Seconds of silence until a cluster gets nobody new."
        ),
    ] = 3.0,
    lost_after: Annotated[
        float,
        typer.Option(
            min=2, callback=countable, help="Seconds of silence until its clients are moved."
        ),
    ] = 15.0,
    client_rate: Annotated[
        float, typer.Option(min=0.1, callback=countable, help="Requests a second of one client.")
    ] = 10.0,
    application_rate: Annotated[
        float, typer.Option(min=1, callback=countable, help="Requests a second of one application.")
    ] = 1000.0,
    connections: Annotated[
        int, typer.Option(min=16, help="Connections that may be open in all.")
    ] = 2048,
    connections_per_address: Annotated[
        int,
        typer.Option(
            min=1, help="Connections that one address may have open, unless it is a trusted proxy."
        ),
    ] = 512,
    json_logs: Annotated[bool, typer.Option(help="Log as JSON.")] = False,
    quiet: Annotated[bool, typer.Option(help="Do not log every request.")] = False,
) -> None:
    """Run the API until told to end. Run as many of it as you like."""
    # Imported only here: the framework takes a while, and `--help` should not.
    from edgewise.runtime.connected_cluster import Patience  # noqa: PLC0415
    from edgewise.server.http.app import HttpSettings  # noqa: PLC0415
    from edgewise.server.http.guard import Rates  # noqa: PLC0415
    from edgewise.server.http.serving import Listen, Tls  # noqa: PLC0415
    from edgewise.server.identity.oidc import OidcSettings  # noqa: PLC0415
    from edgewise.server.main import Options, run  # noqa: PLC0415
    from edgewise.server.replica import Settings  # noqa: PLC0415

    if (tls_cert is None) != (tls_key is None):
        raise BadOptions("TLS needs both --tls-cert and --tls-key")
    for file in (tls_cert, tls_key):
        if file is not None and not os.access(file, os.R_OK):
            raise BadOptions(f"the file {file} cannot be read")
    if bool(oidc_issuer) != bool(oidc_audience):
        raise BadOptions("OIDC needs both --oidc-issuer and --oidc-audience")
    if lost_after <= suspect_after:
        raise BadOptions("--lost-after must be longer than --suspect-after")
    host, port = parse_listen(listen, "--listen")
    oidc = None
    if oidc_issuer:
        oidc = OidcSettings(
            issuer=oidc_issuer,
            audience=oidc_audience,
            role_claim=oidc_role_claim,
            application_claim=oidc_application_claim,
        )
    options = Options(
        settings=Settings(
            namespace=namespace,
            patience=Patience(suspect_after=suspect_after, lost_after=lost_after),
        ),
        listen=Listen(
            host=host,
            port=port,
            tls=Tls(tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None,
            proxies=tuple(trusted_proxy or ()),
            connections=connections,
            connections_per_address=connections_per_address,
        ),
        http=HttpSettings(
            rates=Rates(client=client_rate, application=application_rate),
            origins=tuple(allow_origin or ()),
        ),
        metrics=parse_listen(metrics, "--metrics") if metrics else None,
        oidc=oidc,
    )
    access = load_access(kubeconfig, context)
    set_up_logs(json=json_logs)
    if quiet:
        logging.getLogger("edgewise.server.access").setLevel(logging.WARNING)
    asyncio.run(run(access, options))


def parse_listen(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadOptions(f"{option} must be HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)
