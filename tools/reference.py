"""The reference pages that are written from the code: commands, HTTP API, metrics.

`reference.py` writes them into docs/reference, `reference.py --check` fails if one is stale.
The page of the custom resources is written with the CRDs, by `edgewise crds generate`.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import typer
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from typer.main import get_command

from edgewise.agents.gateway.metrics import GatewayMetrics
from edgewise.agents.ping import udp
from edgewise.agents.reports.program import ReportsCollector
from edgewise.api.schema import field_descriptions
from edgewise.cli.lazy import LazyGroup, load
from edgewise.cli.main import COMMANDS, app
from edgewise.gameservers.hub import metrics as game_hub_metrics
from edgewise.gameservers.metrics import GameMetrics
from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.placement.metrics import PlacementMetrics
from edgewise.placement.reports import Reports
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.webhooks.serving import AdmissionMetrics
from edgewise.server.halves import HALVES
from edgewise.server.http import request_ids
from edgewise.server.http.app import create_app
from edgewise.server.http.openapi import schema_of
from edgewise.server.identity.authenticator import Authenticator
from edgewise.server.replica import Replica, Settings
from edgewise.sessions.hub import metrics as server_metrics
from edgewise.sessions.metrics import SessionMetrics
from edgewise.tenancy.metrics import TenancyMetrics

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
WRITTEN = "<!-- Written by tools/reference.py; run `make reference`. -->\n"
ANGLES = re.compile(r"<(\w[^<>]*)>")


def main(check: bool) -> int:
    pages = {
        "cli.md": cli_page(),
        "http-api.md": asyncio.run(http_page()),
        "metrics.md": asyncio.run(metrics_page()),
    }
    stale = []
    for name, text in pages.items():
        path = FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text)
    if check and stale:
        typer.echo(f"{', '.join(stale)}: not what the code says; run `make reference`", err=True)
        return 1
    typer.echo(f"{len(pages)} reference pages are up to date")
    return 0


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell(text) for text in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# Commands


def cli_page() -> str:
    parts = [
        WRITTEN,
        "# Commands\n",
        "Every command has `--help`. `edgewise --install-completion` sets up completion for your "
        "shell. Errors are one sentence on stderr, with exit code 1, or 2 if the command was not "
        "written right; Ctrl-C ends with 130.\n",
    ]
    parts += sections(["edgewise"], get_command(app))
    for name, entry in COMMANDS.items():
        parts += sections(["edgewise", name], load(name, entry))
    return "\n".join(parts)


def sections(path: list[str], command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=" ".join(path), max_content_width=100)
    inner: dict[str, Any] = {}
    if isinstance(command, LazyGroup):
        inner = {
            name: load(name, entry) for name, entry in vars(command).get("entries", {}).items()
        }
    inner = {**getattr(command, "commands", {}), **inner}
    if len(path) > 1 or not inner:
        yield f"{'#' * min(max(len(path), 2), 3)} `{' '.join(path)}`\n"
        yield help_text(command.help or "")
    yield usage(path, command, context)
    rows = [option_row(param, context) for param in params(command, context)]
    if any(rows):
        yield table(["Option", ""], [row for row in rows if row])
    if len(path) > 1:
        for name, sub in inner.items():
            if not sub.hidden:
                yield from sections([*path, name], sub)


def params(command: Any, context: typer.Context) -> list[Any]:
    return [param for param in command.get_params(context) if not getattr(param, "hidden", False)]


def help_text(text: str) -> str:
    """The paragraphs of a help; what Typer keeps as written (\\b) is kept as written here."""
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("\b"):
            body = paragraph.lstrip("\b").strip("\n")
            paragraphs.append(f"```text\n{body}\n```\n")
        else:
            paragraphs.append(ANGLES.sub(r"`<\1>`", paragraph) + "\n")
    return "\n".join(paragraphs)


def usage(path: list[str], command: Any, context: typer.Context) -> str:
    return f"```text\n{' '.join([*path, *command.collect_usage_pieces(context)])}\n```\n"


def option_row(param: Any, context: typer.Context) -> list[str] | None:
    record = param.get_help_record(context)
    if record is None or "--help" in param.opts:
        return None
    name, said = record
    return [f"`{name.replace(' <bool>', '')}`", ANGLES.sub(r"`<\1>`", said)]


# HTTP API


async def http_page() -> str:
    async with Client(Access(server="http://unused.invalid")) as client:
        replica = Replica(client, Settings(), HALVES)
        schema = schema_of(create_app(replica, Authenticator(replica.credentials)).app)
    parts = [
        WRITTEN,
        "# HTTP API\n",
        "What `edgewise server` answers. The same as OpenAPI is at `/v1/openapi.json`. Send "
        "`Authorization: Bearer …` with an API token, a token of your OIDC issuer, or a client's "
        "token; [who may do what](../design/server.md) depends on it. An error is "
        "`application/problem+json`, a [Problem](#problem). Every answer has an `X-Request-Id`.\n",
    ]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            parts += operation_section(method.upper(), path, operation)
    parts.append("## What is sent and answered\n")
    for name, definition in sorted(schema["components"]["schemas"].items()):
        parts += schema_section(name, definition)
    return "\n".join(parts)


def operation_section(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"## {operation['summary']}\n"
    yield f"`{method} {path}`\n"
    if operation.get("description"):
        yield operation["description"] + "\n"
    given = [
        [
            f"`{param['name']}`",
            param["in"],
            bounded(param["schema"]),
            param.get("description", "") + ("" if param.get("required") else " May be left out."),
        ]
        for param in operation.get("parameters", [])
    ]
    if given:
        yield table(["Parameter", "In", "Kind", ""], given)
    body = operation.get("requestBody")
    if body is not None:
        content = body["content"]["application/json"]["schema"]
        may = "" if body.get("required") else ", which may be left out"
        yield f"Body: {kind_of(content)}{may}.\n"
    answers = [
        [code, said_of(code, answer), ", ".join(map(kind_of, bodies_of(answer)))]
        for code, answer in sorted(operation["responses"].items())
    ]
    yield table(["Status", "", "Answer"], answers)


def said_of(code: str, answer: dict[str, Any]) -> str:
    """What is said of an answer, unless it is only what the framework says of every such one."""
    said = str(answer["description"])
    return "" if said == HTTPStatus(int(code)).description else said


def bodies_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [content["schema"] for content in answer.get("content", {}).values()]


def schema_section(name: str, definition: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    fields = definition.get("properties", {})
    declared = declared_as(name, fields)
    said = definition.get("description") or (vars(declared).get("__doc__") if declared else "")
    if said:
        yield help_text(said)
    if "enum" in definition:
        default = f", `{definition['default']}` by default" if "default" in definition else ""
        yield f"{kind_of(definition)}{default}.\n"
    if not fields:
        return
    required = definition.get("required", [])
    meanings = meanings_of(declared) if declared else {}
    rows = [
        [
            f"`{field}`",
            bounded(inner, optional=field not in required),
            inner.get("description") or meanings.get(field, ""),
        ]
        for field, inner in fields.items()
    ]
    yield table(["Field", "Kind", ""], rows)


def declared_as(name: str, fields: dict[str, Any]) -> type[msgspec.Struct] | None:
    """The type of the server that a schema was made from: the framework reads no docstrings."""
    todo: list[type[msgspec.Struct]] = [msgspec.Struct]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        ours = cls.__name__ == name and cls.__module__.startswith(
            ("edgewise.server.", "edgewise.sessions.hub.")
        )
        if ours and set(cls.__struct_encode_fields__) == set(fields):
            return cls
    return None


def meanings_of(cls: type[msgspec.Struct]) -> dict[str, str]:
    said = field_descriptions(cls)
    names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    return {sent: said[name] for name, sent in names if name in said}


def bounded(schema: dict[str, Any], *, optional: bool = False) -> str:
    """The kind, what it must keep to, and what it is when it is left out."""
    words = kind_of(schema)
    if "minimum" in schema or "maximum" in schema:
        words += between(schema.get("minimum"), schema.get("maximum"), "")
    for word, unit in (("Length", " characters"), ("Items", " items"), ("Properties", " entries")):
        if f"min{word}" in schema or f"max{word}" in schema:
            words += between(schema.get(f"min{word}"), schema.get(f"max{word}"), unit)
    if "pattern" in schema:
        end = schema["pattern"].replace(r"(?![\s\S])", "$")  # which also refuses a line break
        words += f", matching `{end}`"
    if schema.get("default") not in (None, ""):
        return f"{words}, default `{json.dumps(schema['default']).removesuffix('.0')}`"
    return f"{words}, optional" if optional else words


def between(low: float | None, high: float | None, unit: str) -> str:
    if low is None:
        return f", at most {high:.0f}{unit}"
    return f", at least {low:.0f}{unit}" if high is None else f", {low:.0f} to {high:.0f}{unit}"


def kind_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "oneOf" in schema:
        kinds = [kind_of(inner) for inner in schema["oneOf"] if inner != {"type": "null"}]
        return " or ".join(kinds)
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {kind_of(schema['additionalProperties'])}"
    return str(schema.get("format", kind) if kind == "string" else kind)


# Metrics


# What the runtime counts in the server too, which has caches but no controllers.
OF_MIRRORS = (
    "`edgewise_api_requests",
    "`edgewise_cache_",
    "`edgewise_leading",
    "`edgewise_list",
    "`edgewise_watch_",
)


async def metrics_page() -> str:
    operator = CollectorRegistry()
    Metrics(operator)
    SessionMetrics(operator)
    GameMetrics(operator)
    PlacementMetrics(operator)
    TenancyMetrics(operator)
    AdmissionMetrics(operator)
    reports = CollectorRegistry()
    reports.register(ReportsCollector(Reports(b"")))
    gateway = CollectorRegistry()
    GatewayMetrics(gateway)
    Metrics(gateway)
    hub = CollectorRegistry()
    async with Client(Access(server="http://unused.invalid")) as client:
        Replica(client, Settings(), HALVES).show_metrics(hub)
        mirrored = [each for each in registered(gateway) if each[0].startswith(OF_MIRRORS)]
        server = [
            *mirrored,
            *own_of(server_metrics),
            *own_of(game_hub_metrics),
            *own_of(request_ids),
            *registered(hub),
        ]
    parts = [
        WRITTEN,
        "# Metrics\n",
        "For Prometheus, at `/metrics` of each program's `--metrics` or health address, beside "
        "the usual `process_…` of a process. A counter ends in `_total`, a histogram in "
        "`_bucket`, `_sum` and `_count`.\n",
    ]
    for title, found in (
        ("`edgewise operator`", registered(operator)),
        ("`edgewise gateway`", registered(gateway)),
        ("`edgewise server`", server),
        ("`edgewise ping`", own_of(udp)),
        ("`edgewise reports`", [*mirrored, *registered(reports)]),
    ):
        parts += [f"## {title}\n", table(["Metric", "Kind", "Labels", ""], found)]
    return "\n".join(parts)


def registered(registry: CollectorRegistry) -> list[list[str]]:
    rows = []
    collectors: list[Any] = list(registry._collector_to_names)
    for collector in collectors:
        labels = getattr(collector, "_labelnames", None)
        if labels is None:  # a collector that reads when it is asked: its families know
            for family in collector.collect():
                rows.append(row(family.name, family.type, family._labelnames, family.documentation))
        else:
            (family,) = collector.describe()
            rows.append(row(family.name, family.type, labels, family.documentation))
    return sorted(rows)


def own_of(module: Any) -> list[list[str]]:
    """The metrics that a module keeps in the process's own registry."""
    kept = [value for value in vars(module).values() if isinstance(value, MetricWrapperBase)]
    found = []
    for metric in kept:
        (family,) = metric.describe()
        found.append(row(family.name, family.type, metric._labelnames, family.documentation))
    return sorted(found)


def row(name: str, kind: str, labels: Any, said: str) -> list[str]:
    shown = f"{name}_total" if kind == "counter" else name
    return [f"`{shown}`", kind, ", ".join(f"`{label}`" for label in labels), said]


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
