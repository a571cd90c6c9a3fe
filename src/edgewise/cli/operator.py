"""`edgewise operator`: the controllers, for one cluster."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from edgewise.cli.flags import flags_of, with_flags
from edgewise.domain import Domain, Flag, check_domains
from edgewise.exposure.port_range import PortRange
from edgewise.kube.client import Client
from edgewise.kube.config import Access, load_access
from edgewise.kube.kinds.admission import ServiceReference
from edgewise.operator import DOMAINS, NAMESPACE, OperatorError, Options, chosen, run_operator
from edgewise.runtime.garbage import collect_when_told, put_old_objects_aside
from edgewise.runtime.logs import set_up_logs
from edgewise.runtime.manager import Listen
from edgewise.runtime.webhooks.serving import Target


def command(known: Sequence[Domain] = DOMAINS) -> typer.Typer:
    """The command for these domains, with a flag for each of their options."""
    app = typer.Typer()
    check_domains(known, flags_of(operator))
    flags = list(dict.fromkeys(option for domain in known for option in domain.options))
    app.command("operator")(with_flags(partial(operator, known=known), flags))
    return app


def operator(
    *,
    known: Sequence[Domain],
    flags: Mapping[str, Flag],
    namespace: Annotated[
        str, typer.Option(help="Where the operator keeps its lease and its secrets.")
    ] = NAMESPACE,
    listen: Annotated[
        str, typer.Option(help="HOST:PORT for health, readiness and metrics.")
    ] = "127.0.0.1:8081",
    domains: Annotated[
        str,
        typer.Option(
            help="Domains to serve, separated by commas, each of which waits for its CRDs; "
            "empty: all whose CRDs are there."
        ),
    ] = "",
    leader_election: Annotated[bool, typer.Option(help="Act only while holding the lease.")] = True,
    public_url: Annotated[
        str,
        typer.Option(help="Where clients find the gateway's HTTP; empty: they wait to be told."),
    ] = "http://127.0.0.1:8080",
    public_host: Annotated[
        str,
        typer.Option(help="Where they find its TCP and UDP ports; empty: the host of the URL."),
    ] = "",
    domain: Annotated[str, typer.Option(help="Wildcard domain of the gateway.")] = "",
    domain_port: Annotated[int, typer.Option(help="Its port, if not the scheme's own.")] = 0,
    ports: Annotated[str, typer.Option(help="TCP and UDP ports for seats.")] = "20000-32767",
    node_host: Annotated[
        str, typer.Option(help="Host in the addresses of NodePorts, if not a node's own.")
    ] = "",
    gateway_api: Annotated[
        str, typer.Option(help="NAMESPACE/NAME of the Gateway for exposure GatewayAPI.")
    ] = "",
    gateway: Annotated[
        list[str] | None,
        typer.Option(help="URL of a gateway's control port, beside those in the cluster."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token for the gateways; without it nobody is told of routes.",
            envvar="EDGEWISE_TOKEN_FILE",
        ),
    ] = None,
    webhook_service: Annotated[
        str, typer.Option(help="Service in that namespace that leads to our webhooks.")
    ] = "",
    webhook_url: Annotated[
        str, typer.Option(help="Or the https URL at which the API server finds them.")
    ] = "",
    webhook_port: Annotated[int, typer.Option(help="Where the webhooks listen.")] = 9443,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The kubeconfig to use instead of the usual one.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The context in it.")] = None,
    json_logs: Annotated[bool, typer.Option(help="Log as JSON.")] = False,
) -> None:
    """Run the controllers until told to end."""
    entry = host_in(public_url)
    options = Options(
        namespace=namespace,
        domains=parse_domains(domains, known),
        listen=parse_listen(listen),
        leader_election=leader_election,
        public_url=public_url.rstrip("/"),
        public_host=public_host or entry,
        domain=domain,
        domain_port=domain_port,
        ports=parse_ports(ports),
        node_host=node_host,
        gateway_api=gateway_api,
        gateways=tuple(gateway or ()),
        token_file=token_file,
        webhooks=webhook_target(webhook_service, webhook_url, namespace),
        webhook_port=webhook_port,
        flags=flags,
    )
    if token_file is not None and not token_file.is_file():
        raise OperatorError(f"the token file {token_file} does not exist")
    if options.gateways and token_file is None:
        raise OperatorError("--gateway needs --token-file: gateways take routes from nobody else")
    access = load_access(kubeconfig, context)
    set_up_logs(json=json_logs)
    put_old_objects_aside()
    collect_when_told()
    asyncio.run(serve(access, options, known))


async def serve(access: Access, options: Options, domains: Sequence[Domain]) -> None:
    async with Client(access, user_agent="edgewise-operator") as client:
        await run_operator(client, options, domains)


def parse_domains(text: str, known: Sequence[Domain]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    chosen(known, names)
    return names


def webhook_target(service: str, url: str, namespace: str) -> Target | None:
    if service and url:
        raise OperatorError("say either --webhook-service or --webhook-url, not both")
    if service:
        return Target(service=ServiceReference(namespace=namespace, name=service))
    if url and not url.startswith("https://"):
        raise OperatorError(f"--webhook-url must begin with https://, not {url!r}")
    return Target(url=url) if url else None


def host_in(public_url: str) -> str:
    """The host of the gateway's URL, which has to be one that a client can use."""
    try:
        parts = urlsplit(public_url)
        host = parts.hostname if parts.scheme in ("http", "https") else None
    except ValueError:
        host = None
    if public_url and not host:
        raise OperatorError(f"--public-url must be http(s)://HOST[:PORT], not {public_url!r}")
    return host or ""


def parse_listen(text: str) -> Listen:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise OperatorError(f"--listen must be HOST:PORT, not {text!r}")
    return Listen(host=host.strip("[]"), port=int(port))


def parse_ports(text: str) -> PortRange:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) <= 65535):
        raise OperatorError(f"--ports must be FIRST-LAST, such as 20000-32767, not {text!r}")
    return PortRange(int(first), int(last))


app = command()
