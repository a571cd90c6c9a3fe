"""`edgewise local` without a cluster that runs: what it says about files and options."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from edgewise.cli.local import commands as local
from edgewise.cli.local import kubectl
from edgewise.cli.local import status as local_status
from edgewise.cli.local.commands import app, counted
from edgewise.local import doctor, faults, kept_platform, registry
from edgewise.local.clusters import LocalCluster
from edgewise.local.errors import LocalError
from edgewise.local.layout import ClusterRecord, Home, Ports
from edgewise.local.machines import processes
from edgewise.local.machines.processes import Process
from edgewise.local.platform_site import Site
from edgewise.local.spec import LocalClusterSpec
from edgewise.local.status import ComponentStatus, LocalClusterStatus, component_statuses

SEEN = LocalClusterStatus(
    name="good",
    region="local",
    server="https://127.0.0.1:1",
    trouble="",
    ready=True,
    memory=0,
    components=[ComponentStatus("kube-controller-manager", "running", 12345, 99.0, 1 << 28, 0)],
    nodes=[],
    places=[],
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
            spec=LocalClusterSpec(name=name, simulated_nodes=simulated),
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


@pytest.mark.parametrize(("count", "lines"), [("0", []), ("2", ["b", "c"]), ("9", ["a", "b", "c"])])
def test_the_last_lines_of_a_log(count: str, lines: list[str]) -> None:
    (made("good").logs / "etcd.log").write_text("a\nb\nc\n")
    assert run("logs", "etcd", "-n", count).output.splitlines() == lines


def test_operator_and_gateway_are_programs_of_the_cluster_once_they_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "registry_folder", lambda: tmp_path / "registry")
    home = made("good")
    (home.logs / "operator.log").write_text("I lead\n")
    site = Site(host="h", webhook_host="w", http=1, control=2, health=3, webhook=4, echo=5)
    assert kept_platform.want(home, site, gateway=True)
    assert not kept_platform.want(home, site, gateway=True), "twice is fine"
    states = {each.name: each.state for each in component_statuses(LocalCluster(home))}
    assert (states["operator"], states["gateway"]) == ("stopped", "stopped")
    assert run("logs", "operator").output == "I lead\n"
    assert completed("logs", "--name", "good", "gat") == ["gateway"]
    operator, gateway = kept_platform.components(home)
    (token,) = (word for word in operator.argv if word.startswith("--token-file="))
    assert token in gateway.argv
    file = Path(token.partition("=")[2])
    assert file.is_relative_to(home.path), "it has to outlive a restart of the machine"
    assert file.stat().st_mode & 0o077 == 0
    kept_platform.forget(home)
    assert kept_platform.components(home) == []


def test_a_program_that_ran_beside_the_cluster_is_not_forgotten_with_its_log() -> None:
    home = made("good")
    (home.logs / "server-0.log").write_text("listening\n")
    assert run("logs", "server-0").output == "listening\n"
    assert "it has etcd" in str(run("logs", "server-1").exception)


def test_fewer_than_no_lines_are_refused() -> None:
    made("good")
    assert run("logs", "etcd", "-n", "-1").exit_code == 2


@pytest.mark.parametrize(("word", "does"), [("cut", "cut"), ("heal", "mend")])
def test_a_fault_without_a_place_asks_for_one(word: str, does: str) -> None:
    made("good")
    assert str(run("fault", word).exception).startswith(f"choose what to {does}:")


def test_what_is_not_paused_is_not_called_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    home = made("good")
    with subprocess.Popen(["sleep", "60"]) as program:
        process = Process(program.pid, 0, str(home.path), "etcd", ("sleep",))
        monkeypatch.setattr(faults, "_running", lambda *_: process)
        monkeypatch.setattr(processes, "send", lambda p, number: os.kill(p.pid, number))
        try:
            assert run("fault", "resume", "etcd").output == "etcd was not paused\n"
            run("fault", "pause", "etcd")
            os.waitpid(program.pid, os.WUNTRACED)
            assert run("fault", "resume", "etcd").output == "resumed etcd\n"
        finally:
            program.kill()


def test_an_error_about_a_latency_names_what_was_written() -> None:
    said = str(run("connect", "a", "b", "--latency", "x").exception)
    assert said == "'x' is not a latency: write it as 20ms"


def test_one_node_is_not_called_nodes() -> None:
    made("good", simulated=1)
    assert "1 simulated node  " in run("list").output
    assert [counted(number, "node") for number in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]


@pytest.mark.parametrize("words", [["list", "--json"], ["doctor", "--json"]])
def test_json_is_one_line(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made("good")
    monkeypatch.setattr(local, "examine", lambda: [doctor.Check("x", good=True, found="y")])
    assert len(run(*words).output.splitlines()) == 1


def completed(*words: str) -> list[str]:
    """What the shell offers for the last word."""
    asked = {"COMP_WORDS": " ".join(["local", *words]), "COMP_CWORD": str(len(words))}
    done = CliRunner().invoke(
        app, env={"_LOCAL_COMPLETE": "complete_bash", **asked}, prog_name="local"
    )
    assert done.exit_code == 0
    return done.output.split()


def test_the_shell_knows_clusters_and_components() -> None:
    made("good")
    made("great")
    made("bad").record_file.write_text("{")
    assert completed("status", "--name", "g") == ["good", "great"]
    assert completed("connect", "good", "gr") == ["great"]
    assert completed("logs", "--name", "good", "kube-c") == ["kube-controller-manager"]
    assert completed("fault", "kill", "--name", "good", "et") == ["etcd"]


def test_completion_never_fails() -> None:
    made("good")
    made("bad").record_file.write_text("{")
    assert completed("logs", "e") == []
    assert completed("logs", "--name", "bad", "e") == []
    assert completed("logs", "--name", "../x", "e") == []
