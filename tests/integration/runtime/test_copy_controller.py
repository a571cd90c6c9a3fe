"""The example of the how-to page, run as a person runs it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.core import ConfigMap
from edgewise.kube.kinds.events import Event
from edgewise.testing.eventually import eventually
from tests.integration.conftest import ApiServer

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "copy_controller.py"
PAGE = ROOT / "docs" / "how-to" / "write-a-controller.md"


async def test_it_copies_repairs_and_ends_in_good_order(
    api_server: ApiServer, client: Client, namespace: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        env={**os.environ, "KUBECONFIG": str(api_server.kubeconfig)},
        stderr=asyncio.subprocess.PIPE,
    )

    async def copied(colour: str) -> bool:
        copy = await client.get(ConfigMap, "settings-copy", namespace)
        return copy.data == {"colour": colour}

    async def told() -> bool:
        events = (await client.list(Event, namespace)).items
        return any(event.reason == "Copied" for event in events)

    try:
        settings = ConfigMap.named("settings", namespace, data={"colour": "blue"})
        settings.metadata.labels = {"copy": "yes"}
        await client.create(settings)
        await client.create(ConfigMap.named("private", namespace))
        await eventually(lambda: copied("blue"), not_yet=(NotFound,), within=20)
        await client.patch(ConfigMap, "settings", namespace, body={"data": {"colour": "green"}})
        await eventually(lambda: copied("green"))
        # Whatever somebody does to the copy is put right.
        await client.patch(
            ConfigMap, "settings-copy", namespace, body={"data": {"colour": "black"}}
        )
        await eventually(lambda: copied("green"))
        await client.delete(ConfigMap, "settings-copy", namespace)
        await eventually(lambda: copied("green"), not_yet=(NotFound,))
        await eventually(told)
        process.terminate()
        _, errors = await asyncio.wait_for(process.communicate(), 20)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    assert errors == b""
    names = {each.metadata.name for each in (await client.list(ConfigMap, namespace)).items}
    assert names == {"settings", "settings-copy", "private"}


def test_a_kubeconfig_that_cannot_be_used_is_told_in_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("clusters: [")
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env={**os.environ, "KUBECONFIG": str(broken)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert ended.returncode == 1
    assert str(broken) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_page_shows_the_program_that_is_tested() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert EXAMPLE.read_text() in blocks


def test_it_is_as_short_as_promised() -> None:
    lines = EXAMPLE.read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 30
