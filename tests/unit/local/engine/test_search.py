"""A program that is already here is used if its version fits; otherwise it is said why not."""

from pathlib import Path

import pytest

from edgewise.local.engine.finding import find_engine
from edgewise.local.engine.pins import EngineError, read_pins
from edgewise.local.engine.search import Found, Refused, VersionMemory, ask_version, look_in
from tests.unit.local.engine.conftest import script

PINS = read_pins()

SAYS = {
    "etcd": "etcd Version: {}\nGit SHA: abc\nGo Version: go1.26.8",
    "kube-apiserver": "Kubernetes v{}",
    "kubectl": "Client Version: v{}\nKustomize Version: v5.7.1",
    "coredns": "CoreDNS-{}\nlinux/amd64, go1.26.8,",
    "kwok": "kwok version v{} go1.26.8 (linux/amd64)",
}


@pytest.mark.parametrize("program", SAYS)
def test_each_programs_own_way_of_saying_its_version_is_understood(
    tmp_path: Path, program: str
) -> None:
    path = script(tmp_path / program, f"cat <<X\n{SAYS[program].format('1.2.3')}\nX")
    assert ask_version(path) == "1.2.3"


@pytest.mark.parametrize(
    ("program", "version", "fits"),
    [
        ("kube-apiserver", "1.34.4", True),
        ("kube-apiserver", "1.34.0", True),
        ("kube-apiserver", "1.33.9", False),
        ("kube-apiserver", "1.35.0", False),
        ("etcd", "3.6.1", True),
        ("etcd", "3.5.21", False),
        ("etcd", "3.60.1", False),
    ],
)
def test_the_version_has_to_be_of_the_pinned_series(
    tmp_path: Path, program: str, version: str, fits: bool
) -> None:
    script(tmp_path / program, "")
    seen = look_in(tmp_path, program, PINS, lambda path: version)
    assert isinstance(seen, Found if fits else Refused)
    if isinstance(seen, Refused):
        assert f"is version {version}, but {PINS.series(program)}.x is needed" in str(seen)


def test_what_is_not_there_is_nothing_and_what_cannot_run_is_refused(tmp_path: Path) -> None:
    assert look_in(tmp_path, "etcd", PINS, lambda path: "3.6.8") is None
    (tmp_path / "etcd").write_text("not executable")
    assert isinstance(look_in(tmp_path, "etcd", PINS, lambda path: "3.6.8"), Refused)
    (tmp_path / "etcd").chmod(0o755)
    assert "does not say its version" in str(look_in(tmp_path, "etcd", PINS, ask_version))


def test_a_version_is_asked_again_only_when_the_file_changes(tmp_path: Path) -> None:
    etcd = script(tmp_path / "etcd", "echo 3.6.1; echo x >> $0.asked")
    for _ in range(2):
        assert VersionMemory(tmp_path / "memory" / "versions.json")(etcd) == "3.6.1"
    assert (tmp_path / "etcd.asked").read_text() == "x\n"
    script(etcd, "echo 3.6.22")
    assert VersionMemory(tmp_path / "memory" / "versions.json")(etcd) == "3.6.22"


def test_a_broken_memory_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "versions.json").write_text("{broken")
    etcd = script(tmp_path / "etcd", "echo 3.6.1")
    assert VersionMemory(tmp_path / "versions.json")(etcd) == "3.6.1"


def cached(bare: Path, *programs: str) -> Path:
    folder = bare / "cache" / "edgewise" / "engine" / PINS.key
    for program in programs:
        script(folder / program, "")
    return folder


def test_the_order_is_named_directory_assets_path_cache(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = ("etcd", "kubectl", "kube-apiserver", "kube-scheduler")
    cache = cached(bare, *programs)
    for place, names in {
        "bin": ("etcd", "kubectl", "kube-apiserver"),
        "assets": ("etcd", "kubectl"),
        "named": ("etcd",),
    }.items():
        for name in names:
            script(bare / place / name, f"echo v{PINS.version(name)}")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(bare / "assets"))
    engine = find_engine(directory=bare / "named", programs=programs)
    assert engine.path("etcd") == bare / "named" / "etcd"
    assert engine.path("kubectl") == bare / "assets" / "kubectl"
    assert engine.path("kube-apiserver") == bare / "bin" / "kube-apiserver"
    assert engine.path("kube-scheduler") == cache / "kube-scheduler"
    assert engine["kube-scheduler"].version == PINS.version("kube-scheduler")


def test_the_named_directory_may_come_from_the_environment(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(bare / "mine" / "etcd", f"echo {PINS.version('etcd')}")
    monkeypatch.setenv("EDGEWISE_ENGINE_DIR", str(bare / "mine"))
    assert find_engine(programs=["etcd"]).path("etcd") == bare / "mine" / "etcd"


def test_a_misfit_on_path_is_passed_over_and_mentioned(bare: Path) -> None:
    script(bare / "bin" / "kubectl", "echo v1.32.4")
    cache = cached(bare, "kubectl")
    engine = find_engine(programs=["kubectl"])
    assert engine.path("kubectl") == cache / "kubectl"
    assert engine.refused == (
        f"{bare / 'bin' / 'kubectl'} is version 1.32.4, but 1.34.x is needed",
    )


def test_a_misfit_in_the_named_directory_is_an_error(bare: Path) -> None:
    script(bare / "named" / "etcd", "echo 3.5.0")
    with pytest.raises(
        EngineError, match=r"is version 3\.5\.0, but 3\.6\.x is needed: put another"
    ):
        find_engine(directory=bare / "named", programs=["etcd"])


def test_a_named_directory_that_does_not_exist_is_an_error(bare: Path) -> None:
    with pytest.raises(EngineError, match="does not exist: name one that does"):
        find_engine(directory=bare / "nowhere", programs=["etcd"])


def test_the_systems_own_init_is_never_taken(bare: Path) -> None:
    script(bare / "bin" / "init", "echo 9.9.9")
    cache = cached(bare, "init")
    assert find_engine(programs=["init"]).path("init") == cache / "init"


def test_asking_an_engine_for_what_was_not_asked_of_it(bare: Path) -> None:
    cached(bare, "etcd")
    with pytest.raises(EngineError, match="but not for kubelet"):
        find_engine(programs=["etcd"]).path("kubelet")
