"""Versions are written once, in go.mod; everything else follows from those files."""

import re
import shutil
from pathlib import Path

import pytest

from edgewise.local.engine_pins import (
    BINARIES,
    KUBERNETES,
    PROGRAMS,
    EngineError,
    binary_of,
    read_pins,
    required_version,
    source_directory,
)

# What kwok, or the older Kubernetes libraries that it needs, would not compile with.
APART_IN_KWOK = {
    "github.com/google/gnostic-models",
    "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
    "github.com/go-errors/errors",
    "github.com/go-openapi/jsonreference",
    "go.opentelemetry.io/contrib/instrumentation/github.com/emicklei/go-restful/otelrestful",
}


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


def test_what_two_modules_share_is_compiled_once() -> None:
    def required(module: str) -> dict[str, str]:
        text = (source_directory() / module / "go.mod").read_text()
        return dict(re.findall(r"^\t(\S+) (v\S+)", text, re.MULTILINE))

    ours, kwok = required("."), required("kwok")
    shared = {path for path in ours.keys() & kwok.keys() if not path.startswith("k8s.io/")}
    apart = {path for path in shared if ours[path] != kwok[path]}
    assert len(shared) > 50
    assert apart <= APART_IN_KWOK, "run `go get` for these in tools/engine/kwok"


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
