"""`edgewise session`: sessions and their clients, as a person at a shell works with them."""

import asyncio
import contextlib
import dataclasses
import re
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from edgewise.api.sessions import ClientPhase
from edgewise.cli.numbers import countable
from edgewise.cli.options import AsJson, InNamespace, with_options
from edgewise.cli.session.cluster import cluster_sessions
from edgewise.cli.session.file import session_file
from edgewise.cli.session.server import server_sessions
from edgewise.cli.session.source import SessionError, Sessions
from edgewise.cli.session.text import (
    clock,
    endpoint_lines,
    json_of,
    sessions_table,
    shown_session,
    summary,
    table,
    templates_table,
)
from edgewise.cli.session.views import ClientView, SessionView
from edgewise.cli.session.watch import watch as show_changes
from edgewise.sessions.steps.presence import CLIENT_ID, CLIENT_ID_RULE

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

PATIENCE = 60.0
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
# Phases from which no waiting helps.
HOPELESS = (ClientPhase.REFUSED, ClientPhase.EXPIRED)

Server = Annotated[
    str | None,
    typer.Option(
        help="Ask the server at this URL instead of a cluster; the token is in EDGEWISE_TOKEN.",
        envvar="EDGEWISE_SERVER",
    ),
]
Everywhere = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Those of all namespaces.")
]
Session = Annotated[str, typer.Argument(help="The name of the session.")]
Client = Annotated[str, typer.Argument(help="The id of the client.")]
Timeout = Annotated[
    float, typer.Option(help="How many seconds to wait.", min=0.1, callback=countable)
]

Opened = AbstractAsyncContextManager[Sessions]


@dataclasses.dataclass(frozen=True)
class Where(InNamespace):
    """Whose sessions are meant: the server that is named, else the cluster of the kubeconfig."""

    server: Server = None

    def act(self, do: Callable[[Sessions], Awaitable[None]]) -> None:
        async def run() -> None:
            async with self._sessions() as sessions:
                await do(sessions)

        asyncio.run(run())

    def _sessions(self) -> Opened:
        if self.server is None:
            return cluster_sessions(self.kubeconfig, self.context, self.namespace)
        if self.kubeconfig is not None or self.context is not None:
            raise SessionError("say either --server or --kubeconfig and --context, not both")
        return server_sessions(self.server, self.namespace)


somewhere = with_options("where", Where)


def say(text: str, as_json: bool, shown: object) -> None:
    print(json_of(shown) if as_json else text)


def checked(what: str, given: str, rule: re.Pattern[str], says: str) -> str:
    if not rule.fullmatch(given):
        raise SessionError(f"{given!r} cannot be {what}: it {says}")
    return given


def session_name(given: str) -> str:
    says = (
        "must have 1 to 63 lower-case letters, digits, - or . and begin and end with a letter or a "
        "digit"
    )
    return checked("the name of a session", given, NAME, says)


def client_id(given: str) -> str:
    return checked("the id of a client", given, CLIENT_ID, CLIENT_ID_RULE)


@app.command()
@somewhere
def create(
    name: Annotated[str | None, typer.Argument(help="The name of the session.")] = None,
    template: Annotated[
        str | None, typer.Option("--template", "-t", help="The SessionTemplate that it follows.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="A file with a Session instead; - is stdin."),
    ] = None,
    *,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Make a session. The same once more is fine."""
    if (template is None) == (file is None):
        raise SessionError("say either --template NAME or --file FILE")
    spec: dict[str, Any] = {"templateRef": {"name": template}}
    if file is not None:
        written = session_file(file)
        asked = where.namespace
        if asked and written.namespace not in ("", asked):
            raise SessionError(f"{file} is about namespace {written.namespace}, not {asked}")
        spec, name = written.spec, name or written.name
        where = dataclasses.replace(where, namespace=asked or written.namespace)
    if not name:
        raise SessionError("the session needs a name: say `edgewise session create NAME ...`")
    called = session_name(name)

    async def do(sessions: Sessions) -> None:
        new = await sessions.create(called, spec)
        shown = {"name": called, "created": new}
        say(f"session {called} " + ("created" if new else "is there already"), as_json, shown)

    where.act(do)


@app.command("list")
@somewhere
def list_sessions(everywhere: Everywhere = False, *, where: Where, as_json: AsJson = False) -> None:
    """The sessions, one on a line."""

    async def do(sessions: Sessions) -> None:
        found = await sessions.all(everywhere=everywhere)
        if as_json:
            print(json_of([summary(each) for each in found]))
        elif found:
            print(table(*sessions_table(found, clock(), everywhere=everywhere)))
        else:
            print("There are no sessions here.", file=sys.stderr)

    where.act(do)


@app.command()
@somewhere
def templates(everywhere: Everywhere = False, *, where: Where, as_json: AsJson = False) -> None:
    """The templates that sessions can follow."""

    async def do(sessions: Sessions) -> None:
        found = await sessions.templates(everywhere=everywhere)
        if as_json:
            print(json_of(found))
        elif found:
            print(table(*templates_table(found, clock(), everywhere=everywhere)))
            for each in found:
                if each.message:
                    print(f"{each.name} is being deleted; {each.message}")
        else:
            print("There are no templates here.", file=sys.stderr)

    where.act(do)


@app.command()
@somewhere
def show(session: Session, *, where: Where, as_json: AsJson = False) -> None:
    """One session: clients, endpoints, pods, deadlines, conditions."""

    async def do(sessions: Sessions) -> None:
        found = await sessions.one(session)
        if as_json:
            print(json_of(found))
            return
        print(shown_session(found, clock()))
        if missing := await sessions.without_operator():
            print(f"\nThis is what the last operator wrote: {missing}")

    where.act(do)


@app.command()
@somewhere
def join(
    session: Session,
    client: Client,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it can connect, and print its endpoints.")
    ] = False,
    url: Annotated[
        bool, typer.Option("--url", help="Wait, and print nothing but the addresses.")
    ] = False,
    timeout: Timeout = PATIENCE,
    *,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Let a client join, or come back. Twice is fine."""
    who = client_id(client)

    async def do(sessions: Sessions) -> None:
        began = time.monotonic()
        new = await sessions.join(session, who)
        if not (wait or url):
            text = f"{who} joined session {session}" if new else f"{who} is in {session} already"
            say(text, as_json, {"session": session, "client": who, "joined": new})
            return
        has = await until_ready(sessions, session, who, timeout)
        has.tokens = await sessions.tokens(has)
        if as_json:
            print(json_of(has))
        elif url:
            print("\n".join(address for _, address in has.urls))
        else:
            took = time.monotonic() - began
            print(f"{who} is ready in session {session} after {took:.1f} s")
            print("\n".join(endpoint_lines(has)))

    where.act(do)


async def until_ready(sessions: Sessions, session: str, client: str, within: float) -> ClientView:
    last: SessionView | None = None
    try:
        async with (
            asyncio.timeout(within),
            contextlib.aclosing(sessions.follow(session)) as snapshots,
        ):
            async for now in snapshots:
                last = next(iter(now.values()), None)
                if last is None:
                    raise SessionError(f"session {session} was deleted meanwhile")
                has = last.clients_by_id.get(client)
                if has is None:
                    raise SessionError(f"{client} has left session {session} meanwhile")
                if has.ready:
                    return has
                if last.seen and has.phase in HOPELESS:
                    why = has.message or f"it is {has.phase}"
                    raise SessionError(f"{client} cannot be in session {session}: {why}")
    except TimeoutError:
        pass
    why = await sessions.why_not_ready(last or await sessions.one(session), client)
    raise SessionError(
        f"{client} joined session {session}, but is not ready after {within:.0f} s: {why}"
    )


@app.command()
@somewhere
def leave(session: Session, client: Client, *, where: Where, as_json: AsJson = False) -> None:
    """Let a client leave for good. Twice is fine."""
    who = client_id(client)

    async def do(sessions: Sessions) -> None:
        was = await sessions.leave(session, who)
        text = f"{who} left session {session}" if was else f"{who} is not in session {session}"
        say(text, as_json, {"session": session, "client": who, "left": was})

    where.act(do)


@app.command()
@somewhere
def disconnect(session: Session, client: Client, *, where: Where, as_json: AsJson = False) -> None:
    """Say that a client is disconnected. Its pods are kept for a while."""
    who = client_id(client)

    async def do(sessions: Sessions) -> None:
        await sessions.disconnect(session, who)
        text = f"{who} is disconnected from session {session}, which keeps its pods for a while"
        say(text, as_json, {"session": session, "client": who, "disconnected": True})

    where.act(do)


@app.command()
@somewhere
def watch(
    session: Annotated[str | None, typer.Argument(help="One session; else all of them.")] = None,
    everywhere: Everywhere = False,
    *,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Follow what happens, until Ctrl-C. A table at a terminal, a line per change elsewhere."""
    if session is not None and everywhere:
        raise SessionError("a session is in one namespace: leave out --all-namespaces")

    async def do(sessions: Sessions) -> None:
        snapshots = sessions.follow(session, everywhere=everywhere)
        await show_changes(
            snapshots, one=session is not None, everywhere=everywhere, as_json=as_json
        )

    where.act(do)


@app.command()
@somewhere
def delete(
    session: Session,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing is left of it.")] = False,
    timeout: Timeout = PATIENCE,
    *,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Delete a session, and with it everything that was made for it."""

    async def do(sessions: Sessions) -> None:
        began = time.monotonic()
        found = await sessions.one(session)
        await sessions.delete(session)
        text = f"session {session} deleted"
        if wait:
            await sessions.until_gone(found, timeout)
            text += f"; nothing is left of it after {time.monotonic() - began:.1f} s"
        say(text, as_json, {"session": session, "deleted": True})

    where.act(do)
