"""A WebRTC client of a hub, on a real cluster: one answer tells it all that it needs.

It joins by the SDK with a token of its own, sends its offer through the gateway to the address
of its seat, and its video through coturn with the credentials that it was given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec
import pytest
from webrtc_detector.ice import Turn, answer_lost_packets_quickly
from webrtc_detector.measure import Filming, Report, Target, measure

from edgewise.bench.sessions.webrtc_sample import TURN_NAMESPACE, sample_template
from edgewise.bench.sessions.webrtc_stage import NAMESPACE, Stage, webrtc_stage
from edgewise.client import Edgewise, Seat
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod, Secret
from edgewise.local.clusters import LocalCluster
from edgewise.testing.clusters import temporary_cluster

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

# Small and slow: what is shown does not need more, and other tests share the machine.
FILMING = Filming(seconds=1.5, width=320, height=180, rate=10, connect_deadline=60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with temporary_cluster("webrtc", nodes=1) as cluster:
        yield cluster


@pytest.fixture(autouse=True, scope="module")
def quick_retries() -> None:
    answer_lost_packets_quickly()


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


async def stream(seat: Seat, turn: list[Turn]) -> Report:
    return await measure(Target(seat.endpoint("signal"), seat.client, turn), FILMING)


def turn_of(seat: Seat) -> list[Turn]:
    return msgspec.convert(msgspec.to_builtins(seat.ice_servers), list[Turn])


async def test_clients_join_stream_and_get_boxes_back(cluster: LocalCluster) -> None:
    template = sample_template()
    template["metadata"]["namespace"] = NAMESPACE
    async with webrtc_stage(cluster, template, tell) as stage:
        async with Edgewise(stage.url, stage.token) as application:
            await application.create_session("webrtc-detector", "room-1")
            tokens = {
                client: (await application.client_token("room-1", client)).token
                for client in ("alice", "bob")
            }
        await a_client_gets_boxes(stage, "alice", tokens["alice"])
        # The pod that alice leaves behind is reset, and serves whoever comes next.
        await a_client_gets_boxes(stage, "bob", tokens["bob"])
        await the_relay_shows_its_secret_to_nobody(stage.client)


async def a_client_gets_boxes(stage: Stage, client: str, token: str) -> None:
    async with Edgewise(stage.url, token).join("room-1", client=client, ready_within=120) as seat:
        (server,) = seat.ice_servers
        assert server.urls[0].startswith("turn:")
        report = await stream(seat, turn_of(seat))
        assert report.ok, report
        assert report.relayed
        # Nobody else's credentials would do.
        forged = msgspec.structs.replace(
            turn_of(seat)[0], credential="AAAAAAAAAAAAAAAAAAAAAAAAAAA="
        )
        refused = await stream(seat, [forged])
        assert (refused.ok, refused.reason) == (False, "no-relay")
        assert "refused the credentials" in refused.message


async def the_relay_shows_its_secret_to_nobody(client: Client) -> None:
    secret = (await client.get(Secret, "turn", TURN_NAMESPACE)).data["secret"]
    (relay,) = [pod.metadata.name for pod in (await client.list(Pod, TURN_NAMESPACE)).items]

    async def inside(*command: str) -> bytes:
        return (await client.exec(relay, TURN_NAMESPACE, list(command))).stdout

    assert secret in await inside("cat", "/tmp/turnserver.conf")
    assert secret not in await inside("sh", "-c", "cat /proc/[0-9]*/cmdline")
    assert secret.decode() not in await client.logs(relay, TURN_NAMESPACE)
