"""What the API server itself refuses, and the sentence that says why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.games import Allocation, Fleet, GameAutoscaler, GameType, Server
from edgewise.api.installation import install
from edgewise.kube.client import Client
from edgewise.kube.errors import Invalid
from edgewise.kube.objects import Object

KINDS: tuple[type[Object], ...] = (Server, Fleet, GameType, GameAutoscaler, Allocation)
POD = {"containers": [{"name": "game", "image": "game"}]}
# As in the seed, whose manifests apply with another apiVersion.
SEED_SERVER: dict[str, Any] = {
    "timeout": "5m",
    "allowForceDelete": False,
    "pod": {
        "containers": [
            {
                "name": "example-container",
                "image": "nginx:latest",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
            }
        ]
    },
}
SEED_FLEET: dict[str, Any] = {
    "scaling": {"replicas": 3, "prioritizeAllowed": True, "agePriority": "oldest_first"},
    "spec": SEED_SERVER,
}
UDP = {"name": "play", "containerPort": 7000}
HOOK = {"type": "webhook", "webhook": {"url": "http://scaler/scale"}}


@pytest.fixture
async def served(client: Client) -> Client:
    await install(client, KINDS)
    return client


def body(kind: type[Object], spec: dict[str, Any], name: str = "one") -> dict[str, Any]:
    return {
        "apiVersion": kind.KIND.api_version,
        "kind": kind.KIND.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def server(**spec: Any) -> dict[str, Any]:
    return body(Server, {"pod": POD, **spec})


def fleet(**spec: Any) -> dict[str, Any]:
    return body(Fleet, {"spec": {"pod": POD}, **spec})


def game(**spec: Any) -> dict[str, Any]:
    return body(GameType, {"fleetSpec": {"spec": {"pod": POD}}, **spec})


def scaler(**spec: Any) -> dict[str, Any]:
    return body(GameAutoscaler, {"gameName": "chess", "policy": HOOK, **spec})


def taking(**spec: Any) -> dict[str, Any]:
    return body(Allocation, {"serverUid": "1", **spec})


def pod(**fields: Any) -> dict[str, Any]:
    return {**POD, **fields}


TAKEN = {
    "the manifest of a server in the seed": body(Server, SEED_SERVER),
    "a server with nothing but a pod": server(),
    "a server with everything": server(
        ports=[UDP, {"name": "http", "protocol": "TCP", "policy": "Passthrough"}],
        health={"period": "1s"},
        deletion={"idle": "Allow", "stabilization": "2s"},
        timeout="1h30m",
        ready="SDK",
    ),
    "the manifest of a fleet in the seed": body(Fleet, SEED_FLEET),
    "a fleet that removes the newest first": fleet(scaling={"agePriority": "newest_first"}),
    "the manifest of a game type in the seed": body(GameType, {"fleetSpec": SEED_FLEET}),
    "an autoscaler as in the seed": scaler(
        policy={
            "type": "webhook",
            "webhook": {
                "path": "/scale",
                "service": {"name": "fake-webhook", "namespace": "default", "port": 80},
            },
        },
        sync={"type": "fixedinterval", "interval": "30s"},
    ),
    "an allocation": taking(match="m" * 128),
}
REFUSED = {
    "a server without containers": (server(pod={}), "pod.containers must have at least one"),
    "a timeout that does not parse": (server(timeout="soon"), "spec.timeout: Invalid value"),
    "a negative timeout": (server(timeout="-5m"), "must be a duration"),
    "two ports with one name": (server(ports=[UDP, UDP]), "spec.ports[1]: Duplicate value"),
    "an unknown port policy": (server(ports=[{**UDP, "policy": "Any"}]), "spec.ports[0].policy"),
    "a Static port without its number": (
        server(ports=[{**UDP, "policy": "Static"}]),
        "hostPort is for policy Static, which needs it",
    ),
    "a number for a port that is chosen": (
        server(ports=[{**UDP, "hostPort": 7000}]),
        "hostPort is for policy Static, which needs it",
    ),
    "a port that leads nowhere": (server(ports=[{"name": "a"}]), "containerPort is missing"),
    "a container called like the sidecar": (
        server(pod={"containers": [{"name": "edgewise-sidecar"}]}),
        "edgewise-sidecar is the name of the sidecar",
    ),
    "an init container called like the sidecar": (
        server(pod=pod(initContainers=[{"name": "edgewise-sidecar"}])),
        "edgewise-sidecar is the name of the sidecar",
    ),
    "a container's port that is the sidecar's": (
        server(pod={"containers": [{"name": "a", "ports": [{"containerPort": 8080}]}]}),
        "a containerPort is the sidecar's own",
    ),
    "a game port that is the sidecar's": (
        server(ports=[{"name": "play", "containerPort": 9000}], sidecar={"port": 9000}),
        "a containerPort is the sidecar's own",
    ),
    "hostNetwork": (server(pod=pod(hostNetwork=True)), "pod.hostNetwork would open the SDK"),
    "an unknown operation": (server(operation="Explode"), "spec.operation"),
    "a name that is too long": (
        body(Server, {"pod": POD}, "s" * 60),
        "metadata.name must have at most 59 characters",
    ),
    "negative replicas": (fleet(scaling={"replicas": -1}), "spec.scaling.replicas"),
    "an unknown age priority": (
        fleet(scaling={"agePriority": "random"}),
        "spec.scaling.agePriority",
    ),
    "an unknown strategy": (fleet(strategy={"type": "BlueGreen"}), "spec.strategy.type"),
    "an unknown scheduling": (fleet(scheduling="Anywhere"), "spec.scheduling"),
    "a soft deadline after the hard one": (
        game(rollout={"softDeadline": "2h", "hardDeadline": "1h"}),
        "softDeadline must not be later than hardDeadline",
    ),
    "min above max": (scaler(min=3, max=2), "min must not be above max"),
    "an unknown policy": (scaler(policy={"type": "magic"}), "spec.policy.type"),
    "a webhook of another scheme": (
        scaler(policy={"type": "webhook", "webhook": {"url": "ftp://scaler"}}),
        "webhook.url must begin with http:// or https://",
    ),
    "both url and service": (
        scaler(
            policy={
                "type": "webhook",
                "webhook": {"url": "http://a", "service": {"name": "a"}},
            }
        ),
        "webhook needs either url or service",
    ),
    "a match id of more than 128 characters": (taking(match="m" * 129), "spec.match"),
}


async def send(client: Client, namespace: str, what: dict[str, Any]) -> None:
    (kind,) = (each for each in KINDS if each.KIND.kind == what["kind"])
    await client.request(
        "POST",
        kind.KIND.path(namespace),
        body=msgspec.json.encode(what),
        params={"dryRun": "All"},
    )


@pytest.mark.parametrize("sentence", TAKEN)
async def test_the_api_server_takes(served: Client, namespace: str, sentence: str) -> None:
    await send(served, namespace, TAKEN[sentence])


@pytest.mark.parametrize("sentence", REFUSED)
async def test_the_api_server_refuses(served: Client, namespace: str, sentence: str) -> None:
    what, why = REFUSED[sentence]
    with pytest.raises(Invalid) as refused:
        await send(served, namespace, what)
    assert why in str(refused.value)
