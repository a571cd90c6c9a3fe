"""`edgewise session` without a cluster: what it shows, what it refuses, what it explains."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from edgewise.api.sessions import Session
from edgewise.cli.session import commands as command
from edgewise.cli.session.cluster import ClusterSessions, explained
from edgewise.cli.session.file import session_file
from edgewise.cli.session.source import SessionError, Shown
from edgewise.cli.session.text import (
    clients_table,
    counted,
    endpoint_lines,
    happenings,
    pods_table,
    sessions_table,
    shown_session,
    span,
    summary,
    table,
)
from edgewise.cli.session.views import SessionView, view_session
from edgewise.cli.session.watch import drawn
from edgewise.kube.errors import error_from_response

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
URL = "http://gate/s/abc/http/"


def session(*, clients: Any = None, status: Any = None, **meta: Any) -> Session:
    return msgspec.convert(
        {
            "metadata": {
                "name": "room",
                "namespace": "ns",
                "uid": "1",
                "generation": 3,
                "creationTimestamp": "2030-01-01T11:55:00Z",
                **meta,
            },
            "spec": {"templateRef": {"name": "hello"}, "clients": clients or {}},
            "status": {"observedGeneration": 3, **(status or {})},
        },
        Session,
    )


def ready(pod: str = "room-server-0") -> dict[str, Any]:
    return {
        "phase": "Ready",
        "ready": True,
        "pods": {"server": pod},
        "endpoints": {"server": {"http": URL, "game": "udp://gate:20000"}},
    }


def full() -> SessionView:
    lost = {**ready("room-server-1"), "phase": "Disconnected", "ready": False}
    return view_session(
        session(
            clients={"ann": {"connected": True}, "bob": {"connected": False}, "new": {}},
            status={
                "clients": {"ann": ready(), "bob": {**lost, "until": "2030-01-01T12:00:30Z"}},
                "pods": {
                    "r1": {"room-server-0": "10.0.0.1", "room-server-1": "10.0.0.2"},
                    "r2": {"x": ""},
                },
                "revisions": {"r1": {"podTemplate": "server", "exposure": "Gateway"}},
                "idle": {"x": {"phase": "Resetting", "until": "2030-01-01T12:05:00Z"}},
                "recoveries": 2,
            },
        )
    )


def test_a_session_is_counted_by_what_is_asked_for() -> None:
    seen = full()
    assert (seen.clients, seen.ready, seen.disconnected, seen.pods, seen.recoveries) == (
        3,
        1,
        1,
        3,
        2,
    )
    assert seen.clients_by_id["new"].phase == "Asked", "the operator has not seen it yet"
    assert seen.seen
    assert not view_session(session(generation=4)).seen
    left = view_session(session(status={"clients": {"ann": ready()}}))
    assert left.clients_by_id["ann"].phase == "Leaving"
    assert not left.clients_by_id["ann"].ready


def test_tables() -> None:
    seen = full()
    assert table(*sessions_table([seen], NOW)).splitlines() == [
        "NAME   TEMPLATE   CLIENTS   READY   DISCONNECTED   PODS   AGE",
        "room   hello      3         1       1              3      5m",
    ]
    assert table(*sessions_table([seen], NOW, everywhere=True)).startswith("NAMESPACE   NAME")
    assert table(*clients_table(seen, NOW)).splitlines() == [
        "CLIENT   PHASE                     POD             ENDPOINT",
        "ann      Ready                     room-server-0   server/game udp://gate:20000",
        f"                                                   server/http {URL}",
        "bob      Disconnected (30s left)   room-server-1   server/game udp://gate:20000",
        f"                                                   server/http {URL}",
        "new      Asked                     -",
    ]
    assert table(*pods_table(seen, NOW)).splitlines()[-1] == (
        "x               Resetting (5m left)   -          -"
    )


def test_the_summary_leaves_out_what_grows_with_the_clients() -> None:
    assert summary(full()).keys() >= {"name", "namespace", "template", "clients", "ready"}
    assert not {"clientsById", "podsByName"} & summary(full()).keys()


def test_what_is_not_usual_is_said() -> None:
    refused = {"phase": "Refused", "message": "the session is full: maxClients is 1"}
    text = shown_session(
        view_session(
            session(
                clients={"ann": {"connected": True}},
                status={"clients": {"ann": refused}},
                generation=9,
                deletionTimestamp="2030-01-01T12:00:00Z",
            )
        ),
        NOW,
    )
    assert "It is being deleted." in text
    assert "The operator has not seen its last change yet." in text
    assert "ann: the session is full: maxClients is 1" in text


def test_endpoints_and_tokens() -> None:
    ann = full().clients_by_id["ann"]
    assert endpoint_lines(ann) == ["  server/game  udp://gate:20000", f"  server/http  {URL}"]
    ann.needs_token = True
    assert "not allowed to see" in endpoint_lines(ann)[-1]
    ann.tokens = {"server": "secret"}
    assert endpoint_lines(ann)[-1] == "  server needs the token secret"


def test_one_of_a_thing_is_said_as_one() -> None:
    assert [counted(number, "recovery") for number in (0, 1, 2)] == [
        "0 recoveries",
        "1 recovery",
        "2 recoveries",
    ]
    assert (counted(1, "pod"), counted(3, "pod")) == ("1 pod", "3 pods")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119.9, "119s"), (120, "2m"), (10799, "179m"), (10800, "3h"), (200000, "2d")],
)
def test_spans_are_as_short_as_those_of_kubectl(seconds: float, text: str) -> None:
    assert span(seconds) == text


# What happened between two looks


def shown(*found: Session) -> Shown:
    views = [view_session(each) for each in found]
    return {(each.namespace, each.name): each for each in views}


def lines(before: Shown, after: Shown) -> list[str]:
    return [each.line for each in happenings(before, after)]


def test_each_change_is_one_line() -> None:
    empty = shown(session())
    asked = shown(session(clients={"ann": {"connected": True}}))
    there = shown(
        session(clients={"ann": {"connected": True}}, status={"clients": {"ann": ready()}})
    )
    degraded = {
        "type": "Degraded",
        "status": "True",
        "reason": "x",
        "message": "no gateway",
        "lastTransitionTime": "",
    }
    troubled = shown(
        session(
            clients={"ann": {"connected": True}},
            status={"clients": {"ann": ready("room-server-1")}, "conditions": [degraded]},
        )
    )
    assert lines({}, empty) == ["room: 0 clients, 0 ready"]
    assert lines(empty, asked) == ["room/ann: Asked"]
    assert lines(asked, there) == [f"room/ann: Ready in room-server-0 udp://gate:20000 {URL}"]
    assert lines(there, there) == []
    assert lines(there, troubled) == [
        f"room/ann: Ready in room-server-1 udp://gate:20000 {URL}",
        "room: trouble: no gateway",
    ]
    assert lines(troubled, there)[-1] == "room: no more trouble"
    assert lines(there, empty) == ["room/ann: left"]
    assert lines(there, {}) == ["room: deleted"]
    assert lines(there, shown(session(uid="2"))) == ["room: deleted", "room: 0 clients, 0 ready"]


def on_screen(now: Shown, *, one: bool) -> list[str]:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(drawn(now, NOW, one=one, everywhere=False))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_live_table_says_what_is_waited_for() -> None:
    why = "pods of server are refused: exceeded quota: q"
    degraded = {"type": "Degraded", "status": "True", "reason": "x", "message": why}
    degraded["lastTransitionTime"] = ""
    waits = {"ann": {"phase": "Starting", "message": why}}
    status = {"clients": waits, "conditions": [degraded]}
    troubled = shown(session(clients={"ann": {"connected": True}}, status=status))
    lines = on_screen(troubled, one=True)
    assert lines[0].startswith("Session room in namespace ns: template hello, 0 of 1 clients ready")
    assert lines[-1] == f"ann: {why}"
    assert on_screen(troubled, one=False)[-1] == f"room: {why}"
    assert on_screen({}, one=False) == ["There are no sessions."]
    assert on_screen({}, one=True) == ["The session is gone."]


# Waiting


class Played:
    """Sessions that play a sequence of looks, and then nothing more."""

    def __init__(self, *looks: Shown) -> None:
        self.looks = looks

    async def follow(
        self, name: str | None = None, *, everywhere: bool = False
    ) -> AsyncGenerator[Shown, None]:
        for look in self.looks:
            yield look
        await asyncio.Event().wait()

    async def why_not_ready(self, seen: SessionView, client: str) -> str:
        return f"{client} is {seen.clients_by_id[client].phase}"


async def wait(*looks: Shown) -> Any:
    sessions: Any = Played(*looks)
    return await command.until_ready(sessions, "room", "ann", 0.2)


ASKED = session(clients={"ann": {"connected": True}})
THERE = session(clients={"ann": {"connected": True}}, status={"clients": {"ann": ready()}})


async def test_a_wait_ends_when_the_client_is_ready() -> None:
    assert (await wait(shown(ASKED), shown(THERE))).urls[1] == ("server/http", URL)


async def test_a_refusal_of_the_past_does_not_end_a_wait() -> None:
    old = {"clients": {"ann": {"phase": "Refused", "message": "full"}}}
    before = session(clients={"ann": {"connected": True}}, status=old, generation=4)
    assert (await wait(shown(before), shown(THERE))).ready
    refused = session(clients={"ann": {"connected": True}}, status=old)
    with pytest.raises(SessionError, match="ann cannot be in session room: full"):
        await wait(shown(refused))


@pytest.mark.parametrize(
    ("looks", "why"),
    [
        ([shown(ASKED), {}], "session room was deleted meanwhile"),
        ([shown(ASKED), shown(session())], "ann has left session room meanwhile"),
        ([shown(ASKED)], "not ready after 0 s: ann is Asked"),
    ],
)
async def test_a_wait_in_vain_says_why(looks: list[Shown], why: str) -> None:
    with pytest.raises(SessionError, match=why):
        await wait(*looks)


# Explaining


async def test_a_client_is_told_its_own_reason_and_not_that_of_another() -> None:
    others = {"type": "Degraded", "status": "True", "reason": "x", "message": "of ann alone"}
    others["lastTransitionTime"] = ""
    waits = {"phase": "Starting", "reason": "PodsRefused", "message": "exceeded quota"}
    seen = view_session(
        session(
            clients={"ann": {"connected": True}, "bob": {"connected": True}},
            status={"clients": {"bob": waits}, "conditions": [others]},
        )
    )
    cluster = ClusterSessions(cast("Any", None), "default")
    assert await cluster.why_not_ready(seen, "bob") == "exceeded quota"
    assert await cluster.why_not_ready(seen, "ann") == "of ann alone"
    assert msgspec.to_builtins(seen)["clientsById"]["bob"]["reason"] == "PodsRefused"


def test_a_cluster_without_the_kinds_is_told_from_one_without_the_session() -> None:
    # As an API server answers for a group that nobody has installed.
    missing = error_from_response(404, b"404 page not found\n")
    assert "`edgewise crds install`" in str(explained(missing, "https://x"))
    details = {"name": "a", "kind": "sessions"}
    body = msgspec.json.encode({"kind": "Status", "reason": "NotFound", "details": details})
    unknown = error_from_response(404, body)
    assert explained(unknown, "https://x") is unknown
    body = body.replace(b"sessions", b"namespaces")
    assert "kubectl create namespace a" in str(explained(error_from_response(404, body), "x"))


class Nothing:
    """A cluster in which no operator is at work: nobody holds its Lease."""

    async def get(self, *_: object) -> Any:
        raise error_from_response(404, b"{}")


async def test_where_no_operator_runs_show_says_whose_words_these_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions = ClusterSessions(cast("Any", Nothing()), "default")

    async def one(_: str) -> SessionView:
        return full()

    @contextlib.asynccontextmanager
    async def found(*_: object) -> AsyncGenerator[ClusterSessions, None]:
        yield sessions

    monkeypatch.setattr(sessions, "one", one)
    monkeypatch.setattr(command, "cluster_sessions", found)
    monkeypatch.delenv("EDGEWISE_SERVER", raising=False)
    done = await asyncio.to_thread(CliRunner().invoke, command.app, ["show", "room"])
    assert done.exit_code == 0, repr(done.exception)
    said = done.output.splitlines()[-1]
    assert said.startswith("This is what the last operator wrote: no operator is running: install")
    assert "`edgewise local platform`" in said


# Input


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a" * 64, "a/b", "a\n"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(SessionError, match="cannot be the name of a session"):
        command.session_name(name)


@pytest.mark.parametrize("client", ["", "a b", "a/b", "ä", "a" * 64, "~"])
def test_clients_that_cannot_be(client: str) -> None:
    with pytest.raises(SessionError, match="cannot be the id of a client"):
        command.client_id(client)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must hold one Session, but holds 0 objects"),
        ("a: [", "is not YAML"),
        ("- 1", "must hold a Session, but holds a list"),
        ("kind: Pod", "must hold a Session, but holds a Pod"),
        (
            "kind: Session\napiVersion: v1",
            "apiVersion in .* must be sessions.edgewise.dev/v1alpha1",
        ),
        (
            "kind: Session\napiVersion: sessions.edgewise.dev/v1alpha1\nspec: 1",
            "must have a metadata and a spec",
        ),
        ("kind: Session\n---\nkind: Session", "holds 2 objects"),
    ],
)
def test_files_that_hold_no_session(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "session.yaml"
    file.write_text(text)
    with pytest.raises(SessionError, match=why):
        session_file(file)


def test_a_file_with_a_session(tmp_path: Path) -> None:
    file = tmp_path / "session.yaml"
    file.write_text(
        "apiVersion: sessions.edgewise.dev/v1alpha1\nkind: Session\n"
        "metadata: {name: room}\nspec: {templateRef: {name: hello}}\n"
    )
    read = session_file(file)
    assert (read.name, read.namespace, read.spec) == (
        "room",
        "",
        {"templateRef": {"name": "hello"}},
    )


def test_commands_that_only_ask_do_not_load_what_keeps_caches() -> None:
    """Each module that is loaded makes every call slower."""
    check = (
        "import sys, edgewise.cli.session.cluster; "
        "print(*({'prometheus_client', 'edgewise.operator'} & sys.modules.keys()))"
    )
    assert subprocess.check_output([sys.executable, "-c", check], text=True, timeout=60) == "\n"
