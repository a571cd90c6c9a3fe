"""The delta ADS service: carries messages between Envoy and its subscriber."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import grpc
from envoy.service.discovery.v3 import discovery_pb2

from edgewise.agents.gateway.resource import ResourceType
from edgewise.agents.gateway.settings import SettingsError
from edgewise.agents.gateway.streams import Stream, Streams
from edgewise.agents.gateway.subscriber import Push, Said

log = logging.getLogger(__name__)

SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"
KEEPALIVE = (
    # A connection over TCP that is half open must not count as an Envoy for long.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Envoy asks just as often; taken for an attack, that would cost it the connection.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", -1),
)


class AdsServer:
    """Serves every Envoy that connects, once the routes are known."""

    def __init__(self, streams: Streams, known: asyncio.Event) -> None:
        self._streams = streams
        # An agent that has just started and knows nothing must not tell a running
        # Envoy that there is nothing.
        self._known = known
        self._server = grpc.aio.server(options=KEEPALIVE)
        handler = grpc.stream_stream_rpc_method_handler(
            self._serve,
            discovery_pb2.DeltaDiscoveryRequest.FromString,
            discovery_pb2.DeltaDiscoveryResponse.SerializeToString,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"DeltaAggregatedResources": handler}),)
        )

    async def start(self, addresses: list[str]) -> None:
        for address in addresses:
            try:
                self._server.add_insecure_port(address)
            except RuntimeError as error:
                raise SettingsError(f"cannot serve Envoy at {address}: {error}") from None
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0.2)

    async def _serve(
        self,
        requests: AsyncIterator[discovery_pb2.DeltaDiscoveryRequest],
        context: grpc.aio.ServicerContext,
    ) -> None:
        said = aiter(requests)
        # A connection that breaks before its Envoy has said a word may never be seen to
        # end: it must not count, or everybody would wait for its answers.
        first = await anext(said, None)
        if first is None:
            return
        stream = self._streams.join()
        self._take(stream, first)
        jobs = {
            asyncio.ensure_future(self._listen(stream, said)),
            asyncio.ensure_future(self._talk(stream, context)),
            asyncio.ensure_future(stream.replaced.wait()),
        }
        try:
            done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            for job in done:
                job.result()
        finally:
            # At once: the end of a connection is told twice, by its requests running out and
            # by a cancellation, and one that comes while the jobs are waited for cuts that short.
            self._streams.leave(stream)
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)

    async def _listen(
        self,
        stream: Stream,
        requests: AsyncIterator[discovery_pb2.DeltaDiscoveryRequest],
    ) -> None:
        async for request in requests:
            self._take(stream, request)

    def _take(self, stream: Stream, request: discovery_pb2.DeltaDiscoveryRequest) -> None:
        if request.HasField("node") and not stream.node:
            self._streams.name(stream, request.node.id)
            log.info("envoy %s is connected", request.node.id)
        with contextlib.suppress(ValueError):  # a type that we do not serve
            said = heard(request)
            if said.error:
                log.warning("envoy %s refused: %s", stream.node, said.error)
            self._streams.hear(stream, said)

    async def _talk(self, stream: Stream, context: grpc.aio.ServicerContext) -> None:
        await self._known.wait()
        while True:
            for push in stream.subscriber.pushes():
                await context.write(response(push))
            await stream.wake.wait()
            stream.wake.clear()


def heard(request: discovery_pb2.DeltaDiscoveryRequest) -> Said:
    return Said(
        type=ResourceType(request.type_url),
        nonce=request.response_nonce,
        error=reason(request),
        subscribe=tuple(request.resource_names_subscribe),
        unsubscribe=tuple(request.resource_names_unsubscribe),
        has=dict(request.initial_resource_versions),
    )


def reason(request: discovery_pb2.DeltaDiscoveryRequest) -> str:
    if not request.HasField("error_detail"):
        return ""
    return " ".join(request.error_detail.message.split())[:1000] or "Envoy gave no reason"


def response(push: Push) -> discovery_pb2.DeltaDiscoveryResponse:
    message = discovery_pb2.DeltaDiscoveryResponse(
        type_url=push.type.value, nonce=push.nonce, removed_resources=push.removed
    )
    for resource in push.resources:
        item = message.resources.add(name=resource.name, version=resource.version)
        item.resource.type_url = push.type.value
        item.resource.value = resource.body
    return message
