"""Logs of games that failed: which, how much, how many."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.gameservers import names
from edgewise.gameservers.server import failed_starts
from edgewise.gameservers.server.failed_starts import (
    AT_MOST,
    LONGEST,
    MOST,
    WITHIN,
    FailedStarts,
    change_of,
    failed_container,
    key_of,
)
from edgewise.kube.errors import AlreadyExists, BadRequest, ServerError
from edgewise.kube.kinds.core import ConfigMap, Pod
from edgewise.kube.objects import OwnerReference
from tests.unit.gameservers.making import NOW, server


def pod(*statuses: tuple[str, int], **status: Any) -> Pod:
    ended = [{"name": name, "state": {"terminated": {"exitCode": code}}} for name, code in statuses]
    document = {
        "metadata": {"name": "arena-1-pod", "namespace": "play"},
        "spec": {"containers": [{"name": "game"}, {"name": "chat"}]},
        "status": {"containerStatuses": ended, **status},
    }
    return msgspec.convert(document, Pod)


CONTAINERS = {
    "the one that failed": (pod(("game", 0), ("chat", 3)), "chat"),
    "the game, though its sidecar was ended by a signal": (
        pod(
            ("game", 1),
            initContainerStatuses=[
                {"name": "edgewise-sidecar", "state": {"terminated": {"exitCode": 143}}}
            ],
        ),
        "game",
    ),
    "an init container, where that is what failed": (
        pod(
            initContainerStatuses=[{"name": "maps", "state": {"terminated": {"exitCode": 2}}}],
        ),
        "maps",
    ),
    "else the first": (pod(), "game"),
}


@pytest.mark.parametrize("sentence", CONTAINERS)
def test_the_log_is_that_of(sentence: str) -> None:
    found, expected = CONTAINERS[sentence]
    assert failed_container(found) == expected


def test_the_oldest_goes_when_there_are_ten() -> None:
    kept = {key_of(server(), NOW + number): "x" for number in range(MOST)}
    oldest = min(kept)
    new = key_of(server(), NOW + 99)
    assert change_of(kept, new, "y") == {new: "y", oldest: None}
    assert change_of({}, new, "y") == {new: "y"}
    assert ":" not in new


class Cluster:
    """A client and an Api: a log, and the ConfigMaps that were written."""

    def __init__(self, log: bytes | Exception) -> None:
        self.log = log
        self.asked: list[dict[str, str]] = []
        self.made: dict[str, ConfigMap] = {}

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        assert (method, path) == ("GET", "/api/v1/namespaces/play/pods/arena-1-pod/log")
        self.asked.append(options["params"])
        if isinstance(self.log, Exception):
            raise self.log
        return self.log

    async def create(self, obj: ConfigMap) -> ConfigMap:
        if obj.metadata.name in self.made:
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        self.made[obj.metadata.name] = obj
        return obj

    async def get(self, kind: type[ConfigMap], name: str, namespace: str) -> ConfigMap:
        return self.made[name]

    async def patch(self, obj: ConfigMap, body: dict[str, Any]) -> ConfigMap:
        for key, value in body["data"].items():
            if value is None:
                del obj.data[key]
            else:
                obj.data[key] = value
        return obj


async def kept(cluster: Any, times: int = 1, monotonic: Any = lambda: 0.0) -> list[ConfigMap]:
    logs = FailedStarts(cluster, monotonic)
    for number in range(times):
        await logs.keep(cluster, server(), pod(("game", 1)), NOW + number)
    return list(cluster.made.values())


async def test_the_end_of_a_long_log_is_kept_for_its_server() -> None:
    (found,) = await kept(Cluster(b"a" * 9000 + "ö".encode() + b"the end"))
    assert found.metadata.name == "arena-1-failed-starts"
    assert found.metadata.labels == {names.FAILED_STARTS: "arena-1"}
    assert [each.kind for each in found.metadata.owner_references] == ["Server"]
    (text,) = found.data.values()
    assert text.endswith("öthe end")
    assert len(text.encode()) == LONGEST


async def test_servers_of_a_fleet_share_one() -> None:
    cluster: Any = Cluster(b"oh no")
    logs = FailedStarts(cluster)
    for number in (1, 2):
        one = server()
        one.metadata.name = f"arena-{number}"
        one.metadata.owner_references = [
            OwnerReference(api_version="v1", kind="Fleet", name="arena", uid="f")
        ]
        await logs.keep(cluster, one, pod(("game", 1)), NOW)
    (found,) = cluster.made.values()
    assert found.metadata.name == "arena-failed-starts"
    assert [key.split("_")[1] for key in sorted(found.data)] == ["arena-1", "arena-2"]


@pytest.mark.parametrize(
    "log", [b"", BadRequest(400, "BadRequest", "is waiting to start"), ServerError(500, "", "ill")]
)
async def test_where_there_is_no_log_nothing_is_kept(log: bytes | Exception) -> None:
    assert await kept(Cluster(log)) == []


async def test_a_fleet_that_fails_and_fails_costs_little_and_is_forgotten() -> None:
    now = 0.0
    cluster: Any = Cluster(b"oh no")
    logs = FailedStarts(cluster, lambda: now)
    for number in range(50):
        await logs.keep(cluster, server(), pod(("game", 1)), NOW + number)
    assert len(cluster.asked) == AT_MOST
    now += WITHIN
    await logs.keep(cluster, server(), pod(("game", 1)), NOW + 99)
    assert len(cluster.asked) == AT_MOST + 1
    (found,) = cluster.made.values()
    assert len(found.data) == MOST
    now += WITHIN
    other = server()
    other.metadata.uid = "another"
    await logs.keep(cluster, other, pod(("game", 1)), NOW + 100)
    assert list(logs._kept) == ["another"]


async def test_a_config_map_of_somebody_else_is_left_alone() -> None:
    cluster: Any = Cluster(b"oh no")
    theirs = ConfigMap.named("arena-1-failed-starts", "play")
    theirs.data = {"a": "b"}
    cluster.made[theirs.metadata.name] = theirs
    await kept(cluster)
    assert theirs.data == {"a": "b"}


async def test_a_log_that_does_not_come_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    class Slow(Cluster):
        async def request(self, method: str, path: str, **options: Any) -> bytes:
            await asyncio.sleep(3600)
            return b""

    monkeypatch.setattr(failed_starts, "PATIENCE", 0.01)
    assert await kept(Slow(b"")) == []
