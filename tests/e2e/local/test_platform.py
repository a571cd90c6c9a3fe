"""`edgewise local platform`: operator and gateway are programs of the cluster like any other."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from edgewise.cli.local.platform import stop
from edgewise.local import faults, kept_platform
from edgewise.local.clusters import LocalCluster
from edgewise.local.kept_platform import KeptPlatform
from edgewise.testing.eventually import eventually

pytestmark = pytest.mark.root

EDGEWISE = [sys.executable, "-m", "edgewise.cli", "local"]


async def edgewise(*arguments: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run, [*EDGEWISE, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
async def kept(cluster: LocalCluster) -> AsyncIterator[KeptPlatform]:
    said = await edgewise("platform", "--name", cluster.name)
    try:
        kept = kept_platform.wanted(cluster.home)
        assert kept is not None
        ready = f"the platform of cluster {cluster.name} is ready: one entry point at"
        assert said == f"{ready} {kept.site.public_url}\n"
        yield kept
    finally:
        await asyncio.to_thread(stop, cluster)
    assert not running(cluster)


def running(cluster: LocalCluster) -> dict[str, int]:
    """The platform's processes, Envoy too."""
    mine = [p for p in cluster.running() if p.component in ("operator", "gateway")]
    return {Path(p.argv[0]).name + " " + p.component: p.pid for p in mine}


async def test_what_dies_of_it_comes_back_and_status_and_logs_know_it(
    cluster: LocalCluster, kept: KeptPlatform
) -> None:
    again = await edgewise("platform", "--name", cluster.name)
    assert again.startswith(f"the platform of cluster {cluster.name} is running already: one")
    envoy = msgspec.json.decode((Path(kept.gateway) / "envoy.pid.json").read_bytes())["pid"]
    assert envoy in running(cluster).values(), "it would outlive `down`"
    killed = {name: faults.kill(cluster, name).pid for name in ("operator", "gateway")}

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http:

        async def back() -> None:
            for name, pid in killed.items():
                process = faults.main_process(cluster, name)
                assert process is not None
                assert process.pid != pid
                async with http.get(kept.site.health_of(name)) as answer:
                    assert answer.status == 200

        await eventually(back, within=40, not_yet=(aiohttp.ClientError, TimeoutError))
    assert envoy in running(cluster).values(), "the next agent goes on with the same Envoy"
    seen = json.loads(await edgewise("status", "--name", cluster.name, "--json"))
    parts = {part["name"]: part for part in seen["components"]}
    for name in killed:
        assert parts[name]["state"] == "running"
        assert parts[name]["restarts"] == 1
        assert len((await edgewise("logs", "--name", cluster.name, name)).splitlines()) > 1
