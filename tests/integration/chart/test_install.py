"""The chart, installed, upgraded and removed by real Helm on a real API server."""

import pytest

from edgewise.agents.gateway.watch import RoutedSession
from edgewise.kube.admission import ValidatingWebhookConfiguration
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.core import Namespace, Pod, Secret
from edgewise.kube.errors import Forbidden, NotFound
from edgewise.kube.extensions import CustomResourceDefinition
from tests.integration.chart.conftest import CHART


async def token(client, namespace):
    return (await client.get(Secret, "edgewise-control-token", namespace)).data["token"]


async def test_an_upgrade_keeps_the_token_and_a_removal_keeps_the_sessions(client, helm, installed):
    before = await token(client, installed)
    helm("upgrade", "edge", CHART, "--namespace", installed, "--set", "gateway.replicas=3")
    assert await token(client, installed) == before
    await client.get(ValidatingWebhookConfiguration, "edgewise")

    helm("uninstall", "edge", "--namespace", installed)
    assert await token(client, installed) == before
    await client.get(CustomResourceDefinition, "sessions.sessions.edgewise.dev")
    # Left behind, it would refuse every session for ever.
    with pytest.raises(NotFound):
        await client.get(ValidatingWebhookConfiguration, "edgewise")


async def test_the_gateway_may_watch_sessions_and_nothing_else(account, installed):
    async with Client(load_access(await account("edgewise-gateway"))) as limited:
        await limited.list(RoutedSession)
        for kind in (Pod, Secret):
            with pytest.raises(Forbidden):
                await limited.list(kind)
        with pytest.raises(Forbidden):
            await limited.get(Secret, "edgewise-control-token", installed)
        with pytest.raises(Forbidden):
            await limited.delete(RoutedSession, "any", installed)


async def test_the_operator_reads_only_its_own_secrets(account, installed):
    async with Client(load_access(await account("edgewise-operator"))) as limited:
        await limited.list(Pod)
        with pytest.raises(NotFound):
            await limited.get(Secret, "edgewise-seat-key", installed)
        with pytest.raises(Forbidden):
            await limited.list(Secret)
        with pytest.raises(Forbidden):
            await limited.get(Secret, "edgewise-control-token", installed)
        with pytest.raises(Forbidden):
            await limited.delete(Namespace, "default")
