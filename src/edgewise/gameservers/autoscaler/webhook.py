"""Asks a webhook how many servers a game should have: one POST, bounded in every way.

    {"game_name": "arena", "current_replicas": 3}  ->  {"scale": true, "desired_replicas": 5}

What comes back is somebody else's: no redirect is followed, nothing of a body is repeated in a
sentence, and whatever is not exactly an answer is a Trouble, never a number.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable
from weakref import WeakValueDictionary

import aiohttp
import msgspec
from yarl import URL

from edgewise.api.games import WebhookPolicy, WebhookService
from edgewise.gameservers.autoscaler.addresses import (
    ForbiddenAddress,
    GuardedResolver,
    Lookups,
    check_address,
)
from edgewise.gameservers.autoscaler.bounds import MOST_REPLICAS
from edgewise.gameservers.autoscaler.observed import Said, Trouble
from edgewise.kube.client import Client
from edgewise.kube.errors import ApiError, KubeError, NotFound
from edgewise.kube.kinds.core import Service
from edgewise.kube.kinds.endpoints import EndpointSlice

# A webhook that has not answered by then is taken for one that does not answer.
PATIENCE = 10.0
# Questions of one namespace that are open at once: each has a socket of the operator, and those
# to Services ask the API server, too.
MOST_AT_ONCE = 32
MOST_BYTES = 4096
MOST_SLICES = 100
SERVICE_LABEL = "kubernetes.io/service-name"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str  # the autoscaler's
    webhook: WebhookPolicy
    game_name: str
    current_replicas: int


class _Answer(msgspec.Struct):
    scale: bool
    desired_replicas: int | None = None


class _Unanswered(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.trouble = Trouble(reason, message)


class Webhooks:
    """Asks for all autoscalers. `local` lets URLs lead to loopback and link-local addresses."""

    def __init__(self, client: Client, *, local: bool = False, patience: float = PATIENCE) -> None:
        self._client = client
        self._local = local
        self._patience = patience
        self._lookups = Lookups()
        # By namespace, for as long as one of its questions has a turn or waits for one.
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def ask(self, question: Question) -> Said | Trouble:
        turn = self._turns.setdefault(question.namespace, asyncio.Semaphore(MOST_AT_ONCE))
        waits = True
        try:
            async with asyncio.timeout(self._patience), turn:
                waits = False
                body = await self._post(question)
        except TimeoutError:
            if waits:
                return Trouble(
                    "Busy", f"{MOST_AT_ONCE} other webhooks of the namespace do not answer either"
                )
            return Trouble("TooLate", f"the webhook did not answer within {self._patience:g} s")
        except _Unanswered as error:
            return error.trouble
        except (aiohttp.ClientError, OSError, KubeError) as error:
            return _trouble_of(error)
        return read_answer(body)

    async def _post(self, question: Question) -> bytes:
        url, host = await self._target(question)
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(self._lookups, question.namespace, local=self._local),
            use_dns_cache=False,
            force_close=True,
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=self._patience),
            ) as session,
            session.post(
                url,
                json={
                    "game_name": question.game_name,
                    "current_replicas": question.current_replicas,
                },
                headers={"Accept-Encoding": "identity", **({"Host": host} if host else {})},
                allow_redirects=False,
            ) as response,
        ):
            return await _body_of(response)

    async def _target(self, question: Question) -> tuple[URL, str]:
        """Where to ask, and under which name if that is not in the URL."""
        webhook = question.webhook
        if webhook.service is None:
            return with_path(self._checked(webhook.url or ""), webhook.path), ""
        service = webhook.service
        if service.namespace not in ("", question.namespace):
            raise _Unanswered(
                "Forbidden",
                "policy.webhook.service.namespace: the operator asks only Services in the "
                f"autoscaler's own namespace {question.namespace}",
            )
        address, port = await self._endpoint(service, question.namespace)
        check_address(address, local=self._local)
        shown = f"[{address}]" if ":" in address else address
        url = with_path(URL(f"http://{shown}:{port}"), webhook.path)
        return url, f"{service.name}.{question.namespace}.svc"

    def _checked(self, text: str) -> URL:
        try:
            url = URL(text)
            port = url.port  # a port that is none is found out when it is asked for
        except ValueError:
            url, port = URL(), None
        if url.scheme not in ("http", "https") or not url.host or port is None:
            raise _Unanswered(
                "BadUrl", "policy.webhook.url must begin with http:// or https:// and name a host"
            )
        if url.user is not None or url.password is not None:
            raise _Unanswered("BadUrl", "policy.webhook.url must not hold a user or password")
        # Names are checked when they are looked up, addresses are not looked up.
        try:
            ipaddress.ip_address(url.host.partition("%")[0])
        except ValueError:
            return url
        check_address(url.host, local=self._local)
        return url

    async def _endpoint(self, service: WebhookService, namespace: str) -> tuple[str, int]:
        """A ready pod behind the Service, so that the operator needs no DNS of the cluster."""
        try:
            found = await self._client.get(Service, service.name, namespace)
        except NotFound:
            raise _Unanswered(
                "NoSuchService", f"policy.webhook.service: there is no Service {service.name}"
            ) from None
        except ApiError as error:
            raise _Unanswered("Unreachable", f"the Service cannot be read: {error}") from error
        name = port_name(found, service.port)
        if name is None:
            words = f"policy.webhook.service.port: {service.name} has no TCP port {service.port}"
            raise _Unanswered("NoSuchService", words)
        label = f"{SERVICE_LABEL}={service.name}"
        slices = await self._client.list(EndpointSlice, namespace, labels=label)
        ready = sorted(ready_endpoints(slices.items[:MOST_SLICES], name))
        if not ready:
            raise _Unanswered("Unreachable", f"no pod behind Service {service.name} is ready")
        return ready[0]


def port_name(service: Service, port: int) -> str | None:
    """What EndpointSlices call a port of a Service; None if it has no such port."""
    for each in service.spec.ports:
        if each.port == port and each.protocol == "TCP":
            return each.name
    return None


def ready_endpoints(slices: Iterable[EndpointSlice], port: str) -> list[tuple[str, int]]:
    found = []
    for each in slices:
        numbers = [p.port for p in each.ports or () if p.name == port and p.port is not None]
        for endpoint in each.endpoints or ():
            # An author may write an EndpointSlice by hand; a pod is at least in this cluster.
            of_pod = endpoint.target_ref is not None and endpoint.target_ref.kind == "Pod"
            if numbers and of_pod and endpoint.addresses and endpoint.conditions.ready is not False:
                found.append((endpoint.addresses[0], numbers[0]))
    return found


def with_path(url: URL, path: str) -> URL:
    """The path behind that of the URL, with exactly one slash between them."""
    if not path:
        return url
    joined = f"{url.raw_path.rstrip('/')}/{path.lstrip('/')}"
    return url.with_path(joined, encoded="%" in joined).with_query(url.query or None)


async def _body_of(response: aiohttp.ClientResponse) -> bytes:
    if 300 <= response.status < 400:
        raise _Unanswered("Redirected", "the webhook sends us elsewhere, where nobody follows")
    if not 200 <= response.status < 300:
        raise _Unanswered("Refused", f"the webhook answered with status {response.status}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _Unanswered("Senseless", "the webhook's answer is compressed")
    body = bytearray()
    async for chunk in response.content.iter_chunked(MOST_BYTES):
        body += chunk
        if len(body) > MOST_BYTES:
            raise _Unanswered("Senseless", f"the webhook's answer is above {MOST_BYTES} bytes")
    return bytes(body)


def read_answer(body: bytes) -> Said | Trouble:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Trouble(
            "Senseless",
            'the webhook\'s answer is not {"scale": true or false, "desired_replicas": number}',
        )
    if not answer.scale:
        return Said(None)
    desired = answer.desired_replicas
    if desired is None:
        return Trouble("Senseless", "the webhook wants to scale, but not to which number")
    if not 0 <= desired <= MOST_REPLICAS:
        return Trouble("Senseless", f"desired_replicas is not between 0 and {MOST_REPLICAS}")
    return Said(desired)


def _trouble_of(error: Exception) -> Trouble:
    # A name that is looked up is refused inside of the connection.
    refused = error if isinstance(error, ForbiddenAddress) else error.__cause__
    if isinstance(refused, ForbiddenAddress):
        return Trouble("Forbidden", f"the operator does not call this webhook: {refused}")
    if isinstance(error, aiohttp.InvalidURL):
        return Trouble("BadUrl", "policy.webhook.url names no host that could be called")
    return Trouble("Unreachable", f"the webhook cannot be reached ({_kind_of(error)})")


def _kind_of(error: Exception) -> str:
    """Only what kind of trouble: the text may hold what an author should not see."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its certificate is not accepted"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not known"
    if isinstance(error, aiohttp.ClientConnectorError | OSError):
        return "no connection"
    return "the connection broke"
