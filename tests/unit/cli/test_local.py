"""`edgewise local` without a cluster that runs: what it says about files and options."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from edgewise.cli import kubectl, local_status
from edgewise.cli.local import app
from edgewise.local import doctor
from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home, Ports
from edgewise.local.spec import ClusterSpec
from edgewise.local.status import ClusterStatus, ComponentStatus

SEEN = ClusterStatus(
    name="good",
    region="local",
    server="https://127.0.0.1:1",
    trouble="",
    ready=True,
    memory=0,
    components=[ComponentStatus("kube-controller-manager", "running", 12345, 99.0, 1 << 28, 0)],
    nodes=[],
    pods={},
    peers=[],
    cut=False,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEWISE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "usual"))
    return tmp_path / "state"


def made(name: str, *, simulated: int = 1) -> Home:
    home = Home.of(name)
    programs = dict.fromkeys(
        ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl"],
        "/nowhere/program",
    )
    home.write(
        ClusterRecord(
            spec=ClusterSpec(name=name, simulated_nodes=simulated),
            index=3,
            programs=programs,
            ports=Ports(api=1, etcd=2, etcd_peer=3),
        )
    )
    home.logs.mkdir()
    return home


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_one_unreadable_cluster_does_not_hide_the_others() -> None:
    made("good")
    made("bad").record_file.write_text("{")
    listed = run("list")
    assert listed.exit_code == 1
    bad, good = sorted(listed.output.splitlines())
    assert good.startswith("good  stopped")
    assert bad.startswith("bad  unreadable")
    assert "edgewise local down --name bad" in bad


def test_json_says_which_cluster_is_unreadable() -> None:
    made("good")
    made("bad").record_file.write_text("{")
    listed = run("list", "--json")
    assert listed.exit_code == 1
    good, bad = json.loads(listed.output)
    assert good["name"] == "good"
    assert good["trouble"] == ""
    assert bad["name"] == "bad"
    assert "edgewise local down --name bad" in bad["trouble"]


def test_status_shows_the_readable_clusters_too() -> None:
    made("good")
    made("bad").record_file.write_text("{")
    shown = run("status", "--once")
    assert shown.exit_code == 1
    assert "good  not ready" in shown.output
    assert "bad  unreadable" in shown.output
    seen = run("status", "--json")
    assert seen.exit_code == 1
    assert [each["name"] for each in json.loads(seen.output)] == ["good", "bad"]


@pytest.mark.parametrize("columns", ["0", "1", "20", "80"])
def test_nothing_is_cut_where_there_is_no_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("good")
    monkeypatch.setenv("COLUMNS", columns)
    said = run("status", "--once").output
    assert "kube-controller-manager" in said
    assert "restarts" in said
    assert "…" not in said


@pytest.mark.parametrize("columns", ["0", "20", "50"])
def test_a_narrow_terminal_shows_the_names(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    console = local_status.wide_enough()
    with console.capture() as said:
        console.print(local_status.drawn(SEEN))
    assert "kube-controller-manager" in said.get()


def test_pods_that_nobody_could_count_are_not_none() -> None:
    made("good")
    assert "pods: unknown" in run("status", "--once").output
    console = local_status.wide_enough()
    with console.capture() as said:
        console.print(local_status.drawn(SEEN))
    assert "pods: none" in said.get()


@pytest.mark.parametrize("variable", ["EDGEWISE_STATE_DIR", "HOME"])
def test_a_state_folder_that_is_no_folder_is_said(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    for name in ("EDGEWISE_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(file))
    done = run("up", "--simulated-nodes", "1")
    assert isinstance(done.exception, LocalError)
    assert f"{file} is not a folder: set EDGEWISE_STATE_DIR" in str(done.exception)
    disk = doctor._disk()
    assert not disk.good
    assert "EDGEWISE_STATE_DIR" in disk.advice
    assert "taking" not in done.output


def test_a_cache_that_is_no_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("EDGEWISE_ENGINE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    check = doctor._engine()
    assert not check.good
    assert "XDG_CACHE_HOME" in check.advice


def test_a_kubeconfig_that_is_gone_is_said() -> None:
    made("good")
    for done in (CliRunner().invoke(kubectl.app, ["get", "pods"]), run("kubeconfig")):
        assert isinstance(done.exception, LocalError)
        assert "kubeconfig of cluster 'good' is gone" in str(done.exception)


def test_doctor_says_what_to_do_about_an_engine_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\necho etcd version 1.2.3\n")
    program.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for named in (tmp_path, tmp_path / "missing"):
        monkeypatch.setenv("EDGEWISE_ENGINE_DIR", str(named))
        check = doctor._engine()
        assert not check.good
        assert "EDGEWISE_ENGINE_DIR" in check.advice
        assert "edgewise local engine" not in check.advice
