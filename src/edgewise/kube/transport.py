"""HTTP to one API server: connections, credentials, and failures as typed errors."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from edgewise.kube.bounds import (
    LARGEST_HEAD,
    LARGEST_MESSAGE,
    LARGEST_REFUSAL,
    Bounds,
)
from edgewise.kube.config import Access
from edgewise.kube.connections import (
    CONNECT_TIMEOUT_SECONDS,
    Answer,
    AnswerTooLarge,
    ConnectFailed,
    Connections,
)
from edgewise.kube.errors import (
    ApiError,
    KubeError,
    Silent,
    TooLarge,
    Unauthorized,
    Unreachable,
    Untrusted,
    error_from_response,
)
from edgewise.kube.reading import check_plain, drop, read_whole
from edgewise.kube.tls import TlsContexts

# A receive buffer of this size lets a burst of watch events be split in one go.
READ_BUFFER = 1 << 20
# A proxy's tunnel and TLS included, which can hang when the connection itself stands.
STREAM_CONNECT_TIMEOUT_SECONDS = 15.0

# Probe after 15 quiet seconds, then every 5; the third without an answer ends the connection.
KEEPALIVE = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,
}

# Pairs where a name may come more than once.
Params = Mapping[str, str] | Sequence[tuple[str, str]]


class Transport:
    """Sends requests as one user; a refusal or a silence comes out as a typed error.

    Nothing is repeated here, with one exception: an idempotent request is sent again when
    the kept-alive connection it was given turned out to be closed.

    Requests go over connections of our own, which cost half as much as those of aiohttp; what
    is rare (proxies, websockets) or lasts (watches) is left to aiohttp.
    """

    def __init__(
        self,
        access: Access,
        *,
        user_agent: str,
        connections: int,
        timeout: float,
        bounds: Bounds | None = None,
    ) -> None:
        self.access = access
        self.bounds = bounds or Bounds()
        self._user_agent = user_agent
        self._connections = connections
        self._timeout = timeout
        self._tls = TlsContexts(access.trust)
        self._secure = access.server.startswith("https:")
        self._server_name = access.trust.server_name or None
        self._direct: Connections | None = None
        self._through_proxy: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Watches hold their connection for minutes: they must not use up the requests' share.
        if self.access.proxy:
            self._through_proxy = self._session(self._connections)
        else:
            self._direct = Connections(
                self.access.server,
                limit=self._connections,
                headers=self._headers(),
                server_name=self._server_name,
                socket_factory=kept_alive_socket,
                gzip=self.access.compress,
                together=self.bounds.together,
            )
        self._streams = self._session(0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._direct is not None:
            await self._direct.close()
        for session in (self._through_proxy, self._streams):
            if session is not None:
                await session.close()
        self._direct = self._through_proxy = self._streams = None

    def _headers(self) -> list[tuple[str, str]]:
        return [
            ("User-Agent", self._user_agent),
            ("Accept", "application/json"),
            ("Accept-Encoding", "gzip" if self.access.compress else "identity"),
            *self.access.impersonation,
        ]

    def _session(self, connections: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections, ttl_dns_cache=30, socket_factory=kept_alive_socket
            ),
            headers=self._headers(),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=self._timeout, sock_connect=CONNECT_TIMEOUT_SECONDS
            ),
            read_bufsize=READ_BUFFER,
            max_line_size=LARGEST_HEAD,
            max_field_size=LARGEST_HEAD,
            # What is packed is unpacked here, where it is bounded.
            auto_decompress=False,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        largest: int | None = None,
    ) -> bytes:
        """An answer of more than `largest` bytes is `TooLarge`.

        Unless it is given, that is the bound of an object for a write, and of a page for a read.
        """
        tls, sent = await self._prepare(headers)
        where = _where(path, params)
        within = self._timeout if timeout is None else timeout
        if largest is None:
            largest = self.bounds.page if method == "GET" else self.bounds.object
        try:
            ask = self._ask_proxy if self._direct is None else self._direct.request
            answer = await ask(
                method, where, headers=sent, body=body, tls=tls, timeout=within, largest=largest
            )
        except (aiohttp.ClientError, ConnectFailed, OSError) as error:
            raise self._explain(error) from error
        if answer.status >= 300:
            raise self._refusal(answer.status, answer.content, answer.retry_after)
        self.check_values(answer.content)
        return answer.content

    def check_values(self, document: bytes) -> None:
        most = self.bounds.values
        if most and document.count(b",") > most:
            raise TooLarge(f"{self.access.server} sent a document of more than {most:,} values")

    async def _ask_proxy(
        self,
        method: str,
        where: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        tls: ssl.SSLContext | None,
        timeout: float,
        largest: int,
    ) -> Answer:
        async with _opened(self._through_proxy).request(
            method,
            self._url(where),
            data=body,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT_SECONDS),
            allow_redirects=False,
            proxy=self.access.proxy,
            ssl=tls or True,
            server_hostname=self._server_name,
        ) as answer:
            content = await read_whole(answer, gzip=self.access.compress, largest=largest)
        return Answer(answer.status, content, answer.headers.get("Retry-After"))

    async def stream(
        self,
        path: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        idle_timeout: float | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The chunks of an answer that has no end in sight.

        A silence longer than `idle_timeout` is taken for a dead connection.
        """
        # Streams are not packed: nobody could say how much a piece unpacks to.
        tls, sent = await self._prepare({"Accept-Encoding": "identity", **(headers or {})})
        try:
            # Answers in between (1xx) are no silence, and still there must be an end to them.
            async with asyncio.timeout(None if idle_timeout is None else 2 * idle_timeout):
                answer = await _opened(self._streams).request(
                    "GET",
                    self._url(path, params),
                    headers=sent,
                    timeout=aiohttp.ClientTimeout(
                        total=None,
                        connect=min(STREAM_CONNECT_TIMEOUT_SECONDS, idle_timeout or float("inf")),
                        sock_connect=CONNECT_TIMEOUT_SECONDS,
                        sock_read=idle_timeout,
                    ),
                    allow_redirects=False,
                    proxy=self.access.proxy,
                    ssl=tls or True,
                    server_hostname=self._server_name,
                )
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error
        try:
            try:
                check_plain(answer)
                if answer.status >= 300:
                    content = await read_whole(answer, gzip=False, largest=LARGEST_REFUSAL)
                    raise self._refusal(answer.status, content, answer.headers.get("Retry-After"))
            except (aiohttp.ClientError, OSError) as error:
                raise self._explain(error) from error
            while chunk := await self._read(answer):
                yield chunk
        finally:
            drop(answer)

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        try:
            return await answer.content.readany()
        except aiohttp.SocketTimeoutError as error:
            raise Silent(f"{self.access.server} has been silent for too long") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error

    @contextlib.asynccontextmanager
    async def websocket(
        self, path: str, *, params: Params, protocols: tuple[str, ...]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        # Closing a session of its own is what cuts the connection at once, without a TLS farewell.
        async with self._session(1) as session:
            session.trace_configs.append(_no_redirects())
            # What passes is no JSON, and the kubelet is strict about it.
            tls, sent = await self._prepare({"Accept": "*/*"})
            url = self._url(path, params)
            try:
                websocket = await session.ws_connect(
                    url,
                    protocols=protocols,
                    headers=sent,
                    proxy=self.access.proxy,
                    ssl=tls or True,
                    server_hostname=self._server_name,
                    max_msg_size=LARGEST_MESSAGE,
                    heartbeat=30.0,
                    autoclose=False,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise await self._refused_upgrade(path, params, error.status) from error
            except (aiohttp.ClientError, OSError) as error:
                raise self._explain(error) from error
            try:
                yield websocket
            finally:
                await session.close()
                await websocket.close()

    async def _refused_upgrade(self, path: str, params: Params, status: int) -> KubeError:
        """A refused upgrade comes without its reason; a plain GET is refused for the same one."""
        try:
            await self.request("GET", path, params=params)
        except ApiError as error:
            if error.status == status:
                return error
        return error_from_response(status, b"")

    async def _prepare(
        self, headers: Mapping[str, str] | None
    ) -> tuple[ssl.SSLContext | None, dict[str, str]]:
        _opened(self._streams)
        identity = await self.access.credentials.identity()
        sent = dict(headers) if headers else {}
        if identity.authorization:
            sent["Authorization"] = identity.authorization
        return self._tls.context(identity.certificate) if self._secure else None, sent

    def _url(self, path: str, params: Params | None = None) -> URL:
        return URL(f"{self.access.server}{_where(path, params)}", encoded=True)

    def _refusal(self, code: int, text: bytes, retry_after: str | None) -> ApiError:
        error = error_from_response(code, text, retry_after)
        if isinstance(error, Unauthorized):
            self.access.credentials.rejected()
            return Unauthorized(error.status, error.reason, self._unknown_user(), error.details)
        return error

    def _unknown_user(self) -> str:
        certificate = self.access.certificate
        if certificate is not None and (end := certificate.expired_at(time.time())):
            return (
                f"the client certificate of {self.access.origin} expired on {end:%Y-%m-%d %H:%M} "
                "UTC: get a new kubeconfig from whoever runs the cluster"
            )
        origin = f" of {self.access.origin}" if self.access.origin else ""
        return f"{self.access.server} does not accept the credentials{origin}: log in again"

    def _explain(self, error: Exception) -> Unreachable:  # noqa: PLR0911 - one per cause
        """Why there was no answer, in words; the type of failure is aiohttp's."""
        server = self.access.server
        origin = f" ({self.access.origin})" if self.access.origin else ""
        match error:
            case (
                aiohttp.ClientConnectorCertificateError()
                | ConnectFailed(os_error=ssl.SSLCertVerificationError())
            ):
                return Untrusted(
                    f"the certificate that {server} shows is not trusted: "
                    f"{_certificate_problem(error)}; check certificate-authority "
                    f"and the server's address{origin}"
                )
            case aiohttp.ClientConnectorSSLError() | ConnectFailed(os_error=ssl.SSLError()):
                return Unreachable(
                    f"{server} does not answer in TLS as expected: {_reason(error)}{origin}"
                )
            case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
                proxy = URL(self.access.proxy or "").with_user(None)
                return Unreachable(
                    f"the proxy {proxy} does not let through to {server}: {_reason(error)}; "
                    "check proxy-url or HTTPS_PROXY"
                )
            case aiohttp.ClientConnectorDNSError() | ConnectFailed(os_error=socket.gaierror()):
                return Unreachable(
                    f"the name of {server} is not known to the name servers: check the address "
                    f"and the network{origin}"
                )
            case (
                aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError() | ConnectFailed()
            ):
                return Unreachable(
                    f"cannot reach the API server at {server}: {_reason(error)}; is it running, "
                    f"and is this the right address?{origin}"
                )
            case AnswerTooLarge():
                return TooLarge(f"{server} does not answer as an API server does: {error}")
            case TimeoutError():
                return Unreachable(f"{server} did not answer in time{origin}")
            case _:
                return Unreachable(f"the connection to {server} was lost: {_reason(error)}")


def _where(path: str, params: Params | None) -> str:
    return f"{path}?{urlencode(params)}" if params else path


def _opened(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        raise RuntimeError("use the client inside `async with`")
    return session


def kept_alive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket whose kernel asks a silent peer whether it is still there.

    So a watch on a machine that vanished ends within half a minute, however quiet its kind.
    """
    family, kind, protocol = address[0], address[1], address[2]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        if hasattr(socket, option):  # the names differ between systems
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


class Redirected(aiohttp.ClientError):
    """An API server redirects nobody; what does is something else."""


def _no_redirects() -> aiohttp.TraceConfig:
    """For websockets, which aiohttp cannot be told to leave where they are."""

    async def refuse(*_: object) -> None:
        raise Redirected("it redirects to somewhere else")

    traced = aiohttp.TraceConfig()
    traced.on_request_redirect.append(refuse)
    traced.freeze()
    return traced


def _certificate_problem(error: Exception) -> str:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return getattr(cause, "verify_message", "") or _reason(error)


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        return f"HTTP {error.status} {error.message}"  # without its URL: it may hold a password
    cause = getattr(error, "os_error", None) or error
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(cause, TimeoutError | aiohttp.ConnectionTimeoutError):
        return "nobody answers"
    if isinstance(cause, ssl.SSLError):
        return str(cause.reason or cause).replace("_", " ").lower()
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
