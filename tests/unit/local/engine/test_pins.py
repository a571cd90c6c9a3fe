"""Versions are written once, in go.mod; everything else follows from those files."""

import re
import shutil
from pathlib import Path

import pytest

from edgewise.local.engine.pins import (
    BINARIES,
    KUBERNETES,
    PROGRAMS,
    EngineError,
    binary_of,
    read_pins,
    required_version,
    source_directory,
)


def test_the_pinned_series_are_those_that_the_project_promises() -> None:
    pins = read_pins()
    assert pins.series("kube-apiserver") == "1.34"
    assert pins.series("etcd") == "3.6"
    assert pins.go >= (1, 24)


def test_each_program_is_built_into_exactly_one_binary() -> None:
    built = [program for binary in BINARIES for program in binary.programs]
    assert sorted(built) == sorted(PROGRAMS)
    assert binary_of("kubelet").name == "kubernetes"


def test_an_unknown_program_is_refused() -> None:
    with pytest.raises(EngineError, match="no engine program 'kube-apisever'"):
        binary_of("kube-apisever")


@pytest.mark.parametrize(
    "go_mod",
    ["require k8s.io/kubernetes v1.34.4\n", "require (\n\tk8s.io/kubernetes v1.34.4 // x\n)\n"],
)
def test_a_version_is_read_from_either_form_of_require(go_mod: str) -> None:
    assert required_version(go_mod, "k8s.io/kubernetes") == "1.34.4"


def test_a_replaced_or_longer_path_is_not_taken_for_the_pin() -> None:
    with pytest.raises(EngineError, match="does not pin"):
        required_version("require k8s.io/kubernetes-other v1.2.3\n", "k8s.io/kubernetes")


def test_all_programs_use_the_libraries_of_the_kubernetes_that_is_pinned() -> None:
    """Whatever else asks for newer ones: they would be another Kubernetes, and compiled twice."""
    source = source_directory()
    assert [file.relative_to(source).as_posix() for file in source.rglob("go.mod")] == ["go.mod"]
    go_mod = (source / "go.mod").read_text()
    used = re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ v0\.(\S+)", go_mod, re.MULTILINE)
    assert len(used) > 20
    assert {f"1.{version}" for version in used} == {read_pins().version("kubelet")}


def test_go_names_each_binary_as_we_do() -> None:
    assert all(binary.package.endswith(f"/{binary.name}") for binary in BINARIES)


def test_the_key_changes_with_any_pinned_byte_and_with_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "engine"
    shutil.copytree(source_directory(), copy)
    before = read_pins(copy).key
    (copy / "etcd" / "notes.txt").write_text("not part of the build")
    read_pins.cache_clear()
    assert read_pins(copy).key == before == read_pins().key
    with (copy / "go.sum").open("a") as file:
        file.write("\n")
    read_pins.cache_clear()
    assert read_pins(copy).key != before


def test_the_kubernetes_programs_are_those_that_main_go_knows() -> None:
    main = (source_directory() / "kubernetes" / "main.go").read_text()
    for program in KUBERNETES:
        assert f'"{program}":' in main
