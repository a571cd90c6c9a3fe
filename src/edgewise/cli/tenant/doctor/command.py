"""`edgewise tenant doctor`."""

import asyncio
import json
import sys
from typing import Annotated

import msgspec
import typer

from edgewise.cli.numbers import countable
from edgewise.cli.options import Context, Kubeconfig
from edgewise.cli.tenant.doctor.finding import Finding
from edgewise.cli.tenant.doctor.pieces import examine
from edgewise.cli.tenant.doctor.trial import NOT_TRIED, image_for, try_out
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.operator import NAMESPACE

app = typer.Typer()

# Without these a tenant cannot even be made.
NEEDED = ("kinds", "parameters", "operator")


@app.command()
def doctor(
    image: Annotated[
        str,
        typer.Option(help="An image with python3 for the pods. [default: the operator's]"),
    ] = "",
    packets: Annotated[
        bool, typer.Option(help="Make two tenants for a moment, and send packets between them.")
    ] = True,
    namespace: Annotated[str, typer.Option(help="Where the operator runs.")] = NAMESPACE,
    timeout: Annotated[
        float,
        typer.Option(help="How many seconds to wait for pods.", min=0.1, callback=countable),
    ] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Find out what a cluster lacks to keep tenants apart, and say what to do about it.

    It makes two tenants with three pods, sends packets, and deletes them again.
    """

    def say(what: str) -> None:
        if not as_json:
            print(f"... {what}", file=sys.stderr, flush=True)

    async def run() -> list[Finding]:
        async with Client(load_access(kubeconfig, context)) as client:
            found = await examine(client, namespace)
            if not packets:
                return found
            lacks = [each.check for each in found if each.check in NEEDED and not each.good]
            if lacks:
                skipped = f"no tenant can be made without: {', '.join(lacks)}"
                advice = "mend those first"
                return [
                    *found,
                    Finding(
                        check="network", good=False, found=skipped, reason=NOT_TRIED, advice=advice
                    ),
                ]
            made_of = image or await image_for(client, namespace)
            return [*found, *await try_out(client, made_of, timeout, say)]

    findings = asyncio.run(run())
    if as_json:
        print(json.dumps([msgspec.to_builtins(each) for each in findings], indent=2))
    else:
        for each in findings:
            print("\n".join(lines(each)))
        good = all(each.good for each in findings)
        print("this cluster keeps tenants apart" if good else "tenants are not safe here yet")
    if not all(each.good for each in findings):
        raise typer.Exit(1)


def lines(finding: Finding) -> list[str]:
    reason = f" ({finding.reason})" if finding.reason else ""
    said = [f"{'ok ' if finding.good else 'NO '} {finding.check}: {finding.found}{reason}"]
    return [*said, f"      {finding.advice}"] if finding.advice else said
