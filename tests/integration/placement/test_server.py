"""Report keys and reports through the HTTP API: real API server, real broker."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import aiomqtt
import pytest

from edgewise.agents.reports.broker import running_broker
from edgewise.api.installation import install
from edgewise.api.placement import LatencyPlacement, LatencyPlacementSpec, Target
from edgewise.client import ApiError, Edgewise, NotFound
from edgewise.client.placement import sign
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Namespace
from edgewise.placement.report_keys import report_key
from edgewise.placement.reports_secret import NAMESPACE, announce
from edgewise.server.identity.principal import Role
from edgewise.server.routes.placement.half import PLACEMENT
from edgewise.server.routes.sessions.half import SESSIONS
from edgewise.testing.hub_rig import KINDS, HubRig, hub_rig

SHARES = "api-server"


@pytest.fixture
async def rig(client: Client) -> AsyncIterator[HubRig]:
    await install(client, (*KINDS, LatencyPlacement))
    async with hub_rig(client) as made:
        yield made


async def test_keys_and_reports_for_an_applications_own_placements(
    rig: HubRig,
) -> None:
    member = await rig.add_member("rome")
    spec = LatencyPlacementSpec(target=Target(name="web"), application="shop")
    placed = await rig.direct.create(LatencyPlacement.named("web", member.namespace, spec=spec))
    url = await rig.add_server(await rig.add_replica(halves=(SESSIONS, PLACEMENT)))
    shop = await rig.add_token(Role.APP, "shop")
    other = await rig.add_token(Role.APP, "other")
    reader = await rig.add_token(Role.READER, "desk")
    async with running_broker("127.0.0.1") as broker:
        at = f"mqtt://127.0.0.1:{broker.public}"
        access = await announce(rig.direct, NAMESPACE, url="http://127.0.0.1:1", broker=at)
        async with Edgewise(url, shop, patience=1) as edgewise:
            key = await edgewise.report_key("rome", member.namespace, "web", "ann")
            derived = report_key(access.key, placed.metadata.uid, "ann", "", key.expires)
            assert key.key == derived.hex()
            assert (key.broker, key.observation_ms) == (at, 1000)
            assert key.topic == f"edgewise/latency/rome/{member.namespace}/web"
            async with aiomqtt.Client("127.0.0.1", broker.private) as listening:
                await listening.subscribe("edgewise/latency/#")
                said = sign(key, 5.0, pod="web-1")
                await edgewise.report("rome", member.namespace, "web", [said.decode()])
                async with asyncio.timeout(10):
                    message = await anext(aiter(listening.messages))
                assert message.payload == said
            for cluster, name in (("rome", "nothing"), ("paris", "web")):
                with pytest.raises(NotFound):
                    await edgewise.report_key(cluster, member.namespace, name, "ann")
            for bad in ("a b", "a\nb", "", "x" * 64):
                with pytest.raises(ApiError):
                    await edgewise.report_key("rome", member.namespace, "web", bad)
            with pytest.raises(ApiError):
                await edgewise.report("rome", member.namespace, "web", ["x" * 1025])
        for token in (other, reader):
            async with Edgewise(url, token, patience=1) as stranger:
                with pytest.raises(ApiError) as refused:
                    await stranger.report_key("rome", member.namespace, "web", "ann")
                assert refused.value.status in (403, 404)


async def test_rights_on_placements_alone_make_no_pods(client: Client) -> None:
    """The author's rights are asked of the API server; nothing is known of this one."""
    from edgewise.placement.admission import Admission
    from edgewise.runtime.caching.shared_caches import SharedCaches
    from edgewise.runtime.webhooks.admission import AdmissionRequest, Denied, UserInfo

    namespace = f"ns-{secrets.token_hex(3)}"
    with contextlib.suppress(ApiError):
        await client.create(Namespace.named(namespace))
    admission = Admission(client, SharedCaches(client))
    placed = LatencyPlacement.named(
        "web", namespace, spec=LatencyPlacementSpec(target=Target(name="web"))
    )
    asked: AdmissionRequest[LatencyPlacement] = AdmissionRequest(
        uid="1",
        operation="CREATE",
        name="web",
        namespace=namespace,
        subresource="",
        user=UserInfo(username="mallory", groups=["system:authenticated"]),
        object=placed,
        old_object=None,
        dry_run=False,
        raw_object=b"",
    )
    verdict = await admission.review(asked)
    assert isinstance(verdict, Denied)
    assert "mallory may not create pods" in verdict.sentence
