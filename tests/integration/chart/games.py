"""A game from its first server to its end, with no rights but those of the chart."""

from __future__ import annotations

from edgewise.api.games import Allocation, Fleet, GameAutoscaler, GameType, Server
from edgewise.kube.client import Client
from edgewise.kube.kinds.core import Pod
from edgewise.testing.eventually import eventually

SERVER = {
    "pod": {"containers": [{"name": "game", "image": "none"}]},
    "deletion": {"idle": "Allow"},
    "allowForceDelete": True,
}


def manifest(kind: type, name: str, namespace: str, spec: dict) -> dict:
    return {
        "apiVersion": "games.edgewise.dev/v1alpha1",
        "kind": kind.KIND.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


async def games_live(client: Client, namespace: str) -> None:
    fleet = {"scaling": {"replicas": 1}, "spec": SERVER}
    await client.apply(manifest(GameType, "arena", namespace, {"fleetSpec": fleet}))
    buffer = {"type": "buffer", "buffer": {"size": 2}}
    # By itself it looks every half minute, at first perhaps before the game is known.
    often = {"interval": "2s"}
    scaler = {"gameName": "arena", "policy": buffer, "min": 1, "max": 2, "sync": often}
    await client.apply(manifest(GameAutoscaler, "arena", namespace, scaler))

    async def playing() -> None:
        servers = (await client.list(Server, namespace)).items
        states = [each.status.state for each in servers]
        assert states == ["Ready", "Ready"], states

    await eventually(playing, within=120)
    await client.delete(GameAutoscaler, "arena", namespace)
    await client.delete(GameType, "arena", namespace)

    async def gone() -> None:
        for kind in (GameType, Fleet, Server, Allocation):
            assert [each.key for each in (await client.list(kind, namespace)).items] == []
        pods = (await client.list(Pod, namespace)).items
        assert [pod.metadata.name for pod in pods if pod.metadata.labels.get("server")] == []

    await eventually(gone, within=60)
