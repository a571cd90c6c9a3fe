"""Versions are written once, in go.mod; everything else follows from those files."""

import shutil
from pathlib import Path

import pytest

from edgewise.local.engine_pins import (
    KUBERNETES,
    MODULES,
    PROGRAMS,
    EngineError,
    go_directive,
    module_of,
    read_pins,
    required_version,
    source_directory,
)


def test_the_pinned_series_are_those_that_the_project_promises() -> None:
    pins = read_pins()
    assert pins.series("kube-apiserver") == "1.34"
    assert pins.series("etcd") == "3.6"
    assert pins.go >= (1, 24)


def test_each_program_is_built_by_exactly_one_module() -> None:
    built = [program for module in MODULES for program in module.programs]
    assert sorted(built) == sorted(PROGRAMS)
    assert module_of("kubelet").name == "kubernetes"


def test_an_unknown_program_is_refused() -> None:
    with pytest.raises(EngineError, match="no engine program 'kube-apisever'"):
        module_of("kube-apisever")


@pytest.mark.parametrize(
    "go_mod",
    ["require k8s.io/kubernetes v1.34.4\n", "require (\n\tk8s.io/kubernetes v1.34.4 // x\n)\n"],
)
def test_a_version_is_read_from_either_form_of_require(go_mod: str) -> None:
    assert required_version(go_mod, "k8s.io/kubernetes") == "1.34.4"


def test_a_replaced_or_longer_path_is_not_taken_for_the_pin() -> None:
    with pytest.raises(EngineError, match="does not pin"):
        required_version("require k8s.io/kubernetes-other v1.2.3\n", "k8s.io/kubernetes")


def test_the_oldest_go_is_the_newest_that_any_module_asks_for() -> None:
    asked = [
        go_directive((source_directory() / module.name / "go.mod").read_text())
        for module in MODULES
    ]
    assert read_pins().go == max(asked)


def test_the_key_changes_with_any_pinned_byte_and_with_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "engine"
    shutil.copytree(source_directory(), copy)
    before = read_pins(copy).key
    (copy / "etcd" / "notes.txt").write_text("not part of the build")
    read_pins.cache_clear()
    assert read_pins(copy).key == before == read_pins().key
    with (copy / "etcd" / "go.sum").open("a") as file:
        file.write("\n")
    read_pins.cache_clear()
    assert read_pins(copy).key != before


def test_kubernetes_is_told_its_version_when_linked() -> None:
    flags = module_of("kubectl").stamp("1.34.4")
    assert any(flag.endswith("gitVersion=v1.34.4") for flag in flags)
    assert any(flag.endswith("gitMinor=34") for flag in flags)


def test_the_kubernetes_programs_are_those_that_main_go_knows() -> None:
    main = (source_directory() / "kubernetes" / "main.go").read_text()
    for program in KUBERNETES:
        assert f'"{program}":' in main
