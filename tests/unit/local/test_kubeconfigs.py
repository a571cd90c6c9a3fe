"""Contexts of local clusters in the user's own kubeconfig: put in, and taken out again."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewise.local.control_plane.identities import ADMIN, AUTHORITIES, SERVICE_ACCOUNTS, leaves
from edgewise.local.control_plane.kubeconfigs import merge, unmerge_everywhere, write_kubeconfig
from edgewise.local.control_plane.pki import ensure_pki
from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home
from edgewise.local.spec import LocalClusterSpec

SERVER = "https://127.0.0.1:22001"
WORK = {
    "clusters": [{"name": "work", "cluster": {"server": "https://example.test"}}],
    "contexts": [{"name": "work", "context": {"cluster": "work"}}],
    "current-context": "work",
}


def made(name: str) -> Home:
    home = Home.of(name)
    record = ClusterRecord(spec=LocalClusterSpec(name=name), index=3, programs={}, ports=None)
    home.write(record)
    ensure_pki(home.pki, AUTHORITIES, leaves(record), [SERVICE_ACCOUNTS])
    write_kubeconfig(home, SERVER, ADMIN, home.kubeconfig)
    return home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "usual"))
    return made("edge-1")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(WORK))
    return path


def content(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def test_a_context_is_merged_beside_others_and_taken_out_again(home: Home, mine: Path) -> None:
    for _ in range(2):
        merge(home, SERVER, mine)
    merged = content(mine)
    assert [entry["name"] for entry in merged["clusters"]] == ["work", "edgewise-edge-1"]
    assert merged["current-context"] == "edgewise-edge-1"
    unmerge_everywhere(home)
    assert {key: content(mine)[key] for key in WORK} == WORK


def test_a_context_that_is_gone_does_not_become_the_current_one(home: Home, mine: Path) -> None:
    merge(home, SERVER, mine)
    mine.write_text(yaml.safe_dump(content(mine) | {"contexts": content(mine)["contexts"][1:]}))
    unmerge_everywhere(home)
    assert content(mine)["current-context"] == ""


def test_a_context_that_was_chosen_since_stays_chosen(home: Home, mine: Path) -> None:
    merge(home, SERVER, mine)
    mine.write_text(yaml.safe_dump(content(mine) | {"current-context": "other"}))
    unmerge_everywhere(home)
    assert content(mine)["current-context"] == "other"


@pytest.mark.parametrize("order", [("edge-1", "edge-2"), ("edge-2", "edge-1")])
def test_of_two_merged_clusters_the_last_one_out_leaves_all_as_it_was(
    home: Home, mine: Path, tmp_path: Path, order: tuple[str, str]
) -> None:
    fresh = tmp_path / "fresh"
    both = {"edge-1": home, "edge-2": made("edge-2")}
    for each in both.values():
        merge(each, SERVER, mine)
        merge(each, SERVER, fresh)
    for name in order:
        unmerge_everywhere(both[name])
        both[name].merged.unlink()
    assert content(mine)["current-context"] == "work"
    assert not fresh.exists()


def test_a_file_that_merging_made_is_removed_unless_it_holds_more(
    home: Home, tmp_path: Path
) -> None:
    alone, shared = tmp_path / "a" / "alone", tmp_path / "shared"
    merge(home, SERVER, alone)
    merge(home, SERVER, shared)
    merge(home, SERVER, shared)
    shared.write_text(yaml.safe_dump(content(shared) | {"users": [{"name": "me", "user": {}}]}))
    unmerge_everywhere(home)
    assert not alone.exists()
    assert content(shared)["users"] == [{"name": "me", "user": {}}]


def test_what_was_merged_before_it_was_noted_is_taken_out_of_the_usual_file(
    home: Home, tmp_path: Path
) -> None:
    merge(home, SERVER, tmp_path / "usual")
    home.merged.unlink()
    unmerge_everywhere(home)
    assert content(tmp_path / "usual")["clusters"] == []


@pytest.mark.parametrize("trouble", ["gone", "broken", "a folder"])
def test_a_file_that_cannot_be_read_does_not_keep_the_others_from_it(
    home: Home, mine: Path, tmp_path: Path, trouble: str
) -> None:
    bad = tmp_path / "bad"
    merge(home, SERVER, bad)
    merge(home, SERVER, mine)
    bad.unlink()
    if trouble == "broken":
        bad.write_bytes(b"\xff\xfe\x00")
    elif trouble == "a folder":
        bad.mkdir()
    unmerge_everywhere(home)
    assert content(mine)["clusters"] == WORK["clusters"]


def test_a_context_of_the_same_name_but_another_cluster_stays(home: Home, mine: Path) -> None:
    merge(home, "https://elsewhere.test", mine)
    before = mine.read_text()
    unmerge_everywhere(home)
    assert mine.read_text() == before


@pytest.mark.parametrize(
    "bad",
    [
        b"{ not yaml",
        b"hello",
        b"[]",
        b"clusters: hello",
        b"users: {a: 1}",
        b"contexts: [hello]",
        b"clusters: [{cluster: {}}]",
        b"clusters: [{name: 5}]",
        b"current-context: [a]",
        b"\x80\x81\xff",
    ],
)
def test_a_broken_kubeconfig_is_not_overwritten(home: Home, mine: Path, bad: bytes) -> None:
    mine.write_bytes(bad)
    with pytest.raises(LocalError, match=r"(?s)not a kubeconfig .*mend or move it"):
        merge(home, SERVER, mine)
    assert mine.read_bytes() == bad
