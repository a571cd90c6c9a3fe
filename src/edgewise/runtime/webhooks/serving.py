"""Admission webhooks: reviewers declared as data, served over HTTPS, made known to the API server.

    async def refuse_grapes(request: AdmissionRequest[Basket]) -> Verdict:
        if request.object and "grape" in request.object.spec.fruits:
            return Denied("grapes are out of season: choose another fruit")
        return Allowed()

    baskets = Webhook(name="baskets.fruit.example", kind=Basket, review=refuse_grapes)

A webhook is fail-closed unless it says otherwise: while nobody answers, the requests that it
guards are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import logging
import ssl
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from edgewise.kube.errors import UNREADABLE_JSON
from edgewise.kube.kinds.admission import (
    LabelSelector,
    MatchCondition,
    MutatingWebhookConfiguration,
    ServiceReference,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
    WebhookRule,
)
from edgewise.kube.kinds.admission import Webhook as WebhookEntry
from edgewise.kube.objects import Object
from edgewise.runtime.listening.listener import ConnectionLimits, Limits, PortInUse
from edgewise.runtime.listening.web_app import listening
from edgewise.runtime.webhooks.admission import (
    Denied,
    Operation,
    Reviewer,
    Unreviewable,
    Verdict,
    read_review,
    write_refusal,
    write_review,
)

T = TypeVar("T", bound=Object)

# An update of an object of etcd's largest size carries it twice.
MAX_BODY = 8 << 20
# API servers call here, each over a few connections that it keeps; through a Service, all of
# them may come from the address of one node.
LIMITS = Limits(
    connections=ConnectionLimits(
        connections=512, per_address=256, waiting=128, body_bytes=2 * MAX_BODY
    )
)

_log = logging.getLogger(__name__)


class Webhook(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One reviewer and the requests it is asked about."""

    name: str
    kind: type[T]
    review: Reviewer[T]
    mutates: bool = False
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    # "" is the object itself.
    subresources: tuple[str, ...] = ("",)
    fail_closed: bool = True
    timeout_seconds: int = 5
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    match_conditions: tuple[MatchCondition, ...] = ()

    @property
    def path(self) -> str:
        return f"/{self.name}"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where the API server finds the webhook server: a Service in the cluster, or a URL."""

    service: ServiceReference | None = None
    url: str = ""

    def client_config(self, path: str) -> WebhookClientConfig:
        if self.service is not None:
            return WebhookClientConfig(service=msgspec.structs.replace(self.service, path=path))
        return WebhookClientConfig(url=self.url.rstrip("/") + path)

    def host_names(self) -> tuple[str, ...]:
        """The names that the serving certificate must have."""
        if self.service is not None:
            short = f"{self.service.name}.{self.service.namespace}.svc"
            return (short, f"{short}.cluster.local")
        return (self.url.split("://")[-1].split("/")[0].rsplit(":", 1)[0].strip("[]"),)


def configurations(
    name: str, webhooks: Sequence[Webhook[Any]], target: Target
) -> list[ValidatingWebhookConfiguration | MutatingWebhookConfiguration]:
    """The objects that make the API server ask; the keeper of the certificates adds the CA."""
    made: list[ValidatingWebhookConfiguration | MutatingWebhookConfiguration] = []
    validating = [_entry(webhook, target) for webhook in webhooks if not webhook.mutates]
    if validating:
        made.append(ValidatingWebhookConfiguration.named(name, webhooks=validating))
    mutating = [_entry(webhook, target) for webhook in webhooks if webhook.mutates]
    if mutating:
        made.append(MutatingWebhookConfiguration.named(name, webhooks=mutating))
    return made


def _entry(webhook: Webhook[Any], target: Target) -> WebhookEntry:
    kind = webhook.kind.KIND
    resources = [f"{kind.plural}/{part}" if part else kind.plural for part in webhook.subresources]
    return WebhookEntry(
        name=webhook.name,
        client_config=target.client_config(webhook.path),
        rules=[
            WebhookRule(
                operations=list(webhook.operations),
                api_groups=[kind.group],
                api_versions=[kind.version],
                resources=resources,
                scope="Namespaced" if kind.namespaced else "Cluster",
            )
        ],
        failure_policy="Fail" if webhook.fail_closed else "Ignore",
        match_policy="Equivalent",
        side_effects="None",
        timeout_seconds=webhook.timeout_seconds,
        admission_review_versions=["v1"],
        namespace_selector=webhook.namespace_selector,
        object_selector=webhook.object_selector,
        match_conditions=list(webhook.match_conditions),
    )


class AdmissionMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.requests = Counter(
            "edgewise_admission_requests",
            "Admission requests by webhook and verdict.",
            ["webhook", "verdict"],
            registry=registry,
        )
        self.seconds = Histogram(
            "edgewise_admission_seconds",
            "Duration of an admission review.",
            ["webhook"],
            registry=registry,
        )


class WebhookServer:
    """Serves the reviewers over HTTPS while it is entered."""

    def __init__(
        self,
        webhooks: Sequence[Webhook[Any]],
        context: ssl.SSLContext,
        *,
        host: str = "0.0.0.0",  # noqa: S104 - the API server calls from elsewhere
        port: int = 9443,
        metrics: AdmissionMetrics | None = None,
        drain_seconds: float = 10.0,
    ) -> None:
        self._webhooks = {webhook.path: webhook for webhook in webhooks}
        if len(self._webhooks) != len(webhooks):
            raise ValueError("two webhooks have the same name")
        self._context = context
        self._host = host
        self._port = port
        self._metrics = metrics or AdmissionMetrics()
        self._drain_seconds = drain_seconds
        self._running: contextlib.AsyncExitStack | None = None
        self._listening_at = 0

    @property
    def port(self) -> int:
        """The port that is listened on; with port 0, the one that the system chose."""
        if self._running is None:
            raise RuntimeError("the webhook server is not running")
        return self._listening_at

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_get("/healthz", _healthy)
        app.router.add_post("/{name}", self._answer)
        stack = contextlib.AsyncExitStack()
        try:
            self._listening_at = await stack.enter_async_context(
                listening(
                    app,
                    self._host,
                    self._port,
                    LIMITS,
                    tls=self._context,
                    drain_seconds=self._drain_seconds,
                )
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(
                    f"port {self._port} for the webhooks is in use: "
                    "end the program that has it, or choose another port"
                ) from error
            raise
        self._running = stack
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running is not None:
            await self._running.aclose()
            self._running = None

    async def _answer(self, http: web.Request) -> web.Response:
        webhook = self._webhooks.get(http.path)
        if webhook is None:
            return web.Response(status=404, text=f"there is no webhook at {http.path}")
        began = time.perf_counter()
        response, outcome = await _review(webhook, await http.read())
        self._metrics.requests.labels(webhook.name, outcome).inc()
        self._metrics.seconds.labels(webhook.name).observe(time.perf_counter() - began)
        return response


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _review(webhook: Webhook[Any], body: bytes) -> tuple[web.Response, str]:
    """The answer. Where there is no verdict, an HTTP error leaves it to the failure policy."""
    try:
        request = read_review(body, webhook.kind)
    except Unreviewable as error:
        refusal = write_refusal(error.uid, Denied(error.sentence, code=422))
        return web.Response(body=refusal, content_type="application/json"), "denied"
    except UNREADABLE_JSON as error:
        return web.Response(status=400, text=f"not an admission review: {error}"), "unreadable"
    try:
        async with asyncio.timeout(webhook.timeout_seconds):
            answer = webhook.review(request)
            verdict: Verdict = await answer if inspect.isawaitable(answer) else answer
        content = write_review(request, verdict)
    except TimeoutError:
        _log.warning("the webhook %s took too long", webhook.name)
        return web.Response(status=504, text="the reviewer took too long"), "timeout"
    except Exception:
        _log.exception("the webhook %s failed", webhook.name)
        return web.Response(status=500, text="the reviewer failed; see its log"), "failure"
    outcome = "denied" if isinstance(verdict, Denied) else "allowed"
    return web.Response(body=content, content_type="application/json"), outcome
