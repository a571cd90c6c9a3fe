"""What clusters left behind, told from what belongs to a cluster that is there."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edgewise.cli.local import commands as local
from edgewise.local import doctor, leftovers, registry
from edgewise.local.doctor import Check
from edgewise.local.layout import Home
from edgewise.local.machines import cgroups, processes
from edgewise.local.machines.processes import Process
from edgewise.local.network import cabling


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A cluster of another state folder, and one that is gone, with all that they make."""
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "mine"))
    monkeypatch.setattr(registry, "registry_folder", lambda: tmp_path / "registry")
    there, gone = Home(tmp_path / "theirs" / "clusters" / "one"), Home(tmp_path / "gone")
    there.path.mkdir(parents=True)
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "1").symlink_to(there.path)
    both = [there, gone]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        processes, "marked", lambda: [Process(1, 1, str(h.path), "etcd", ("etcd",)) for h in both]
    )
    monkeypatch.setattr(cabling, "host_links", lambda: [h.host_link for h in both])
    monkeypatch.setattr(cabling, "filter_tables", lambda: [h.filter_table for h in both])
    monkeypatch.setattr(cgroups, "children", lambda: [h.cgroup.split("/")[1] for h in both])
    return gone


def test_a_cluster_of_another_state_folder_is_no_leftover(elsewhere: Home) -> None:
    found = leftovers.ownerless()
    assert found.processes == [f"1 etcd of {elsewhere.path}"]
    assert found.links == [elsewhere.host_link]
    assert found.filter_tables == [elsewhere.filter_table]
    assert found.cgroups == [elsewhere.cgroup]
    assert found.files == []


def test_the_sockets_of_a_gateway_go_with_their_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "mine"))
    monkeypatch.setattr(registry, "registry_folder", lambda: tmp_path / "registry")
    there, gone = Home.of("there"), Home.of("gone")
    there.path.mkdir(parents=True)
    kept, lost = registry.new_scratch(there), registry.new_scratch(gone)
    assert leftovers.ownerless().files == [str(lost)]
    for path in registry.ownerless_scratch([there]):
        registry.remove_scratch(path)
    assert kept.is_dir()
    assert not lost.exists()
    registry.release(there)
    assert not kept.exists()


def test_leftovers_do_not_keep_nodes_from_running(
    elsewhere: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = doctor._leftovers()
    assert not check.good
    monkeypatch.setattr(local, "examine", lambda: [check])
    said = doctors_words()
    assert "down --all" in said
    assert "this machine can run real nodes" in said
    monkeypatch.setattr(local, "examine", lambda: [Check("memory", good=False, found="none")])
    assert "may not work" in doctors_words()


def doctors_words() -> str:
    done = CliRunner().invoke(local.app, ["doctor"], catch_exceptions=False)
    assert done.exit_code == 0, repr(done.exception)
    return done.output
