"""Who a command about tenants acts as, and where."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from edgewise.cli.missing_kinds import known_kinds
from edgewise.kube.client import Client
from edgewise.kube.config import load_access

ActAs = Annotated[
    str | None, typer.Option("--as", help="Act as this user, if you may, like kubectl --as.")
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="A namespace of a tenant.")
]


def act_as(
    kubeconfig: Path | None,
    context: str | None,
    who: str | None,
    do: Callable[[Client], Awaitable[None]],
) -> None:
    async def run() -> None:
        access = load_access(kubeconfig, context)
        if who is not None:
            named = (("Impersonate-User", who),)
            access = msgspec.structs.replace(access, impersonation=named)
        async with Client(access) as client:
            with known_kinds("tenants", access.server):
                await do(client)

    asyncio.run(run())
