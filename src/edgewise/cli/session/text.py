"""Sessions as text: tables like kubectl's, and one line for each change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from edgewise.cli.errors import one_line
from edgewise.cli.session.source import Shown
from edgewise.cli.session.views import ClientView, SessionView, TemplateView, View, seconds_until

Row = Sequence[str]

SESSIONS = ("NAME", "TEMPLATE", "CLIENTS", "READY", "DISCONNECTED", "PODS", "AGE")
CLIENTS = ("CLIENT", "PHASE", "POD", "ENDPOINT")
PODS = ("POD", "STATE", "ADDRESS", "CLIENTS")
TEMPLATES = ("NAME", "PODS", "SESSIONS", "WARM", "AGE")
NAMESPACE = "NAMESPACE"
INLINE = "<inline>"
# More clients of one pod than this are counted instead of named.
MOST_CLIENTS = 5


def json_of(shown: object) -> str:
    """Indented, because people read it too; on one line where lines matter."""
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def summary(session: SessionView) -> dict[str, object]:
    """A session without what grows with its clients."""
    whole: dict[str, object] = msgspec.to_builtins(session)
    return {key: value for key, value in whole.items() if not key.endswith(("ById", "ByName"))}


def table(header: Row, rows: Iterable[Row]) -> str:
    """Columns three spaces apart; the last one is as long as it likes."""
    lines = [[one_line(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def without(column: str, header: Row, rows: Iterable[Row]) -> tuple[Row, list[Row]]:
    """A table that would have nothing in this column."""
    at = header.index(column)
    return [*header[:at], *header[at + 1 :]], [[*row[:at], *row[at + 1 :]] for row in rows]


def sessions_table(
    found: Iterable[SessionView], now: datetime, *, everywhere: bool = False
) -> tuple[Row, list[Row]]:
    rows: list[Row] = []
    listed = sorted(found, key=lambda one: (one.namespace, one.name))
    for each in listed:
        counts = (each.clients, each.ready, each.disconnected, each.pods)
        row = [each.name, each.template or INLINE, *map(str, counts), age(each.created, now)]
        rows.append([each.namespace, *row] if everywhere else row)
    header = (NAMESPACE, *SESSIONS) if everywhere else SESSIONS
    knows_pods = any(each.pods is not None for each in listed)
    return (header, rows) if knows_pods else without("PODS", header, rows)


def templates_table(
    found: Iterable[TemplateView], now: datetime, *, everywhere: bool = False
) -> tuple[Row, list[Row]]:
    rows: list[Row] = []
    listed = sorted(found, key=lambda one: (one.namespace, one.name))
    for each in listed:
        pods = ",".join(each.pod_templates)
        row = [each.name, pods, str(each.sessions), str(each.warm), age(each.created, now)]
        rows.append([each.namespace, *row] if everywhere else row)
    header: Row = (NAMESPACE, *TEMPLATES) if everywhere else TEMPLATES
    if all(each.warm is None for each in listed):
        header, rows = without("WARM", header, rows)
    if all(each.created is None for each in listed):
        header, rows = without("AGE", header, rows)
    return header, rows


def clients_table(session: SessionView, now: datetime) -> tuple[Row, list[Row]]:
    """A line for each endpoint; what belongs to the client is on its first one."""
    rows: list[Row] = []
    for client in session.clients_by_id.values():
        phase = client.standing + left(client.until, now)
        places: list[tuple[str, str]] = []
        for pod_template in sorted(client.pods.keys() | client.endpoints.keys()):
            pod = client.pods.get(pod_template, "-")
            urls = [
                f"{pod_template}/{port} {url}"
                for port, url in sorted(client.endpoints.get(pod_template, {}).items())
            ]
            places += [(pod if not number else "", url) for number, url in enumerate(urls or [""])]
        for number, (pod, url) in enumerate(places or [("-", "")]):
            first = number == 0
            rows.append((client.client if first else "", phase if first else "", pod, url))
    return (CLIENTS, rows) if session.pods is not None else without("POD", CLIENTS, rows)


def pods_table(session: SessionView, now: datetime) -> tuple[Row, list[Row]]:
    rows: list[Row] = []
    for pod in session.pods_by_name.values():
        who = ", ".join(pod.clients[:MOST_CLIENTS])
        if len(pod.clients) > MOST_CLIENTS:
            who += f" and {len(pod.clients) - MOST_CLIENTS} more"
        rows.append((pod.pod, pod.phase + left(pod.until, now), pod.address or "-", who or "-"))
    return PODS, rows


def shown_session(session: SessionView, now: datetime) -> str:
    follows = f"template {session.template}" if session.template else "no template"
    where = f" in namespace {session.namespace}" if session.namespace else ""
    facts = [follows, f"{session.ready} of {session.clients} clients ready"]
    if session.pods is not None:
        facts += [counted(session.pods, "pod"), counted(session.recoveries or 0, "recovery")]
    facts.append(f"{age(session.created, now)} old")
    parts = [f"Session {session.name}{where}: {', '.join(facts)}"]
    if session.deleting:
        parts.append("It is being deleted.")
    if not session.seen:
        parts.append("The operator has not seen its last change yet.")
    if session.clients_by_id:
        parts.append("\n" + table(*clients_table(session, now)))
    parts += [one_line(f"{client.client}: {client.message}") for client in session.waiting]
    if session.pods_by_name:
        parts.append("\n" + table(*pods_table(session, now)))
    if session.conditions:
        header = ("CONDITION", "STATUS", "SINCE", "WHY")
        rows = [
            (each.type, each.status, age(each.since, now), each.message or each.reason)
            for each in session.conditions
        ]
        parts.append("\n" + table(header, rows))
    return "\n".join(parts)


def endpoint_lines(client: ClientView) -> list[str]:
    width = max((len(name) for name, _ in client.urls), default=0)
    lines = [f"  {name.ljust(width)}  {url}" for name, url in client.urls]
    for pod_template, token in sorted(client.tokens.items()):
        lines.append(f"  {pod_template} needs the token {token}")
    if client.needs_token and not client.tokens:
        lines.append("  The gateway asks for tokens, which you are not allowed to see.")
    return lines


# Changes -------------------------------------------------------------------------------


class Happening(View, kw_only=True):
    """One thing that happened to a session or to a client of it."""

    namespace: str
    session: str
    client: str | None = None
    what: str
    now: ClientView | None = None

    @property
    def line(self) -> str:
        who = f"{self.session}/{self.client}" if self.client else self.session
        # Of one change one line: a message of others shall not pass for the next one.
        return one_line(f"{who}: {self.what}")


def happenings(before: Shown, after: Shown) -> list[Happening]:
    """What must have happened between two looks."""
    found: list[Happening] = []
    for key in sorted(before.keys() | after.keys()):
        found += of_session(before.get(key), after.get(key))
    return found


def of_session(before: SessionView | None, after: SessionView | None) -> list[Happening]:
    either = after or before
    if either is None:
        return []
    space, name = either.namespace, either.name
    if before is not None and after is not None and before.uid != after.uid:
        return [*of_session(before, None), *of_session(None, after)]
    if after is None:
        return [Happening(namespace=space, session=name, what="deleted")]
    found = []
    if before is None:
        what = f"{counted(after.clients, 'client')}, {after.ready} ready"
        found.append(Happening(namespace=space, session=name, what=what))
    elif after.deleting and not before.deleting:
        found.append(Happening(namespace=space, session=name, what="being deleted"))
    old = before.clients_by_id if before is not None else {}
    for client in sorted(old.keys() | after.clients_by_id.keys()):
        now = after.clients_by_id.get(client)
        what = of_client(old.get(client), now)
        if what:
            happened = Happening(namespace=space, session=name, client=client, what=what, now=now)
            found.append(happened)
    trouble = before.trouble if before is not None else ""
    if after.trouble != trouble:
        what = f"trouble: {after.trouble}" if after.trouble else "no more trouble"
        found.append(Happening(namespace=space, session=name, what=what))
    return found


def of_client(before: ClientView | None, after: ClientView | None) -> str:
    if after is None:
        return "left"
    if before is not None and described(before) == described(after):
        return ""
    return described(after)


def described(client: ClientView) -> str:
    text = client.standing
    if client.pods:
        text += f" in {', '.join(pod for _, pod in sorted(client.pods.items()))}"
    if client.ready:
        text += "".join(f" {url}" for _, url in client.urls)
    if client.until:
        text += f" until {client.until}"
    return text + (f": {client.message}" if client.message else "")


def counted(number: int, thing: str) -> str:
    if number == 1:
        return f"1 {thing}"
    return f"{number} {thing[:-1]}ies" if thing.endswith("y") else f"{number} {thing}s"


# Times ---------------------------------------------------------------------------------


def clock() -> datetime:
    return datetime.now(UTC)


def age(text: str | None, now: datetime) -> str:
    seconds = seconds_until(text, now)
    return "-" if seconds is None else span(max(0.0, -seconds))


def left(until: str | None, now: datetime) -> str:
    seconds = seconds_until(until, now)
    return "" if seconds is None else f" ({span(max(0.0, seconds))} left)"


def span(seconds: float) -> str:
    """As short as kubectl says it."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole}s"
    if whole < 3 * 3600:
        return f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 48 * 3600 else f"{whole // 86400}d"
