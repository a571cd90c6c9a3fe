"""The webhooks of a program: registered, with certificates of their own, and served."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from edgewise.kube.client import Client
from edgewise.kube.objects import Key
from edgewise.runtime.metrics import Metrics
from edgewise.runtime.webhooks.certificates import CertificateKeeper
from edgewise.runtime.webhooks.serving import (
    AdmissionMetrics,
    Target,
    Webhook,
    WebhookServer,
    configurations,
)


class Reviewing(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # of the configurations
    certificates: Key  # the Secret
    target: Target
    port: int = 9443


@contextlib.asynccontextmanager
async def reviewing(
    client: Client, hooks: Sequence[Webhook[Any]], how: Reviewing, metrics: Metrics
) -> AsyncIterator[None]:
    """Serve the webhooks, on every replica, for as long as the block runs.

    They are made known to the API server when they are listened to, and with the authority that
    vouches for them: before that it would refuse every write that they guard.
    """
    wanted = configurations(how.name, hooks, how.target)
    keeper = CertificateKeeper(
        client,
        how.certificates,
        names=how.target.host_names(),
        configurations=[(type(each), how.name) for each in wanted],
    )
    await keeper.ensure()
    server = WebhookServer(
        hooks, keeper.context, port=how.port, metrics=AdmissionMetrics(metrics.registry)
    )
    async with server:
        for configuration in wanted:
            for webhook in configuration.webhooks:
                webhook.client_config.ca_bundle = keeper.bundle
            await client.apply(configuration)
        await keeper.ensure()  # notes since when the authority is known there
        keeping = asyncio.create_task(keeper.run())
        try:
            yield
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
