"""`edgewise bench runtime`, as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from edgewise.bench.runtime.copies import Copy
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.testing.eventually import eventually
from tests.integration.conftest import ApiServer

KEYS = {"cold_start_s", "p50_ms", "p99_ms", "cpu_percent", "rss_mb", "requests_per_change"}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgewise.cli", "bench", "runtime", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_it_prints_one_json_object_with_the_floor_and_the_ratios(
    api_server: ApiServer, client: Client
) -> None:
    done = bench(
        "--objects=25", "--rate=20", "--seconds=2", f"--kubeconfig={api_server.kubeconfig}"
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    assert figures.keys() == KEYS | {"floor", "ratios", "machine", "objects", "rate", "changes"}
    assert figures["floor"].keys() == figures["ratios"].keys() == KEYS
    assert figures["changes"] == 40
    machine = figures["machine"]
    for load in (machine, machine["runtime"], machine["floor"]):
        assert 0 < load["busy_percent"] + load["stolen_percent"] <= 100
    # One write for each change, and no other request.
    assert figures["requests_per_change"] == pytest.approx(1.0, abs=0.1)
    for name in KEYS - {"cpu_percent"}:
        assert figures["floor"][name] > 0
        assert figures["ratios"][name] == pytest.approx(
            figures[name] / figures["floor"][name], abs=0.001
        )
    assert "making 25 objects" in done.stderr
    # Nothing is left in somebody's cluster, as soon as the API server has removed it.
    await eventually(lambda: is_unknown(client), within=20)


async def is_unknown(client: Client) -> bool:
    try:
        await client.list(Copy)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--objects=0"], "--objects"),
        (["--rate=0"], "--rate"),
        (["--kubeconfig=/nonexistent/config"], "/nonexistent/config"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(arguments: list[str], sentence: str) -> None:
    done = bench(*arguments)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
