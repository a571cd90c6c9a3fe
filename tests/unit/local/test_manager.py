"""A manager that cannot live is noticed in seconds, and its last words are passed on."""

import asyncio
import time
from pathlib import Path

import pytest

import edgewise
from edgewise.local import manager, progress, readiness
from edgewise.local.errors import StartFailed
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.machines import processes
from edgewise.local.readiness import TOO_OFTEN, Starting
from edgewise.local.spec import LocalClusterSpec

SECONDS = 10.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "edge-1")
    home.write(ClusterRecord(spec=LocalClusterSpec(name="edge-1"), index=3, programs={}))
    home.logs.mkdir()
    return home


@pytest.fixture
def attempt(home: Home, monkeypatch: pytest.MonkeyPatch) -> Starting:
    monkeypatch.setattr(readiness, "_LOOK_EVERY", 0.0)
    return Starting(home, home.read(), lambda _what, _state: None, SECONDS)


async def wait(attempt: Starting) -> None:
    while time.monotonic() < attempt.deadline:
        await attempt.pause("the API server", 0.02)


def test_a_manager_that_ends_at_once_fails_the_start(
    home: Home, attempt: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "elsewhere" / "edgewise"
    empty.mkdir(parents=True)
    (empty / "__init__.py").touch()
    monkeypatch.setattr(edgewise, "__file__", str(empty / "__init__.py"))
    try:
        with pytest.raises(StartFailed, match=r"ends at once: .*edgewise\.local.*install"):
            asyncio.run(wait(attempt))
    finally:
        home.record_file.unlink()
        processes.kill_all(lambda: processes.of_cluster(home.path))


def test_managers_that_are_killed_are_replaced_without_end(
    home: Home, attempt: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started_and_killed(home: Home) -> bool:
        progress.note(home.progress, manager.NAME, progress.STARTED)
        return True

    monkeypatch.setattr(manager, "ensure", started_and_killed)

    async def for_a_while() -> None:
        for _ in range(3 * TOO_OFTEN):
            await attempt.pause("the API server", 0.0)

    asyncio.run(for_a_while())
