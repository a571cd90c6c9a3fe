"""The CustomResourceDefinition of a kind, and the files made from it."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

import edgewise.api
from edgewise.api.crd import Column, CrdSpec, Scale, crd_of
from edgewise.api.manifests import differences, render, write
from edgewise.api.reference import render_reference
from edgewise.api.schema import SchemaError
from edgewise.cli.crds import app
from edgewise.domain import all_kinds
from edgewise.kube.objects import Kind, Object, Record
from edgewise.operator import DOMAINS

REPOSITORY = Path(__file__).parents[3]


class KettleSpec(Record):
    litres: int = 2


class KettleStatus(Record):
    phase: str = "Cold"
    replicas: int = 0


class Kettle(Object):
    """Boils water."""

    KIND: ClassVar = Kind("kitchen.edgewise.dev", "v1alpha1", "Kettle", "kettles")
    CRD: ClassVar = CrdSpec(
        short_names=("kt",),
        columns=(
            Column("Phase", ".status.phase"),
            Column("Age", ".metadata.creationTimestamp", "date", priority=1),
        ),
        scale=Scale(spec_replicas_path=".spec.litres"),
        selectable_fields=(".spec.litres",),
    )

    spec: KettleSpec = msgspec.field(default_factory=KettleSpec)
    status: KettleStatus = msgspec.field(default_factory=KettleStatus)


class Spoon(Object):
    KIND: ClassVar = Kind("kitchen.edgewise.dev", "v1", "Spoon", "spoons", namespaced=False)
    CRD: ClassVar = CrdSpec()


def test_names_scope_and_subresources_come_from_the_declaration() -> None:
    crd = crd_of(Kettle)
    assert crd.metadata.name == "kettles.kitchen.edgewise.dev"
    assert crd.spec["scope"] == "Namespaced"
    assert crd.spec["names"] == {
        "kind": "Kettle",
        "listKind": "KettleList",
        "plural": "kettles",
        "singular": "kettle",
        "shortNames": ["kt"],
        "categories": ["edgewise"],
    }
    (version,) = crd.spec["versions"]
    assert version["subresources"] == {
        "status": {},
        "scale": {"specReplicasPath": ".spec.litres", "statusReplicasPath": ".status.replicas"},
    }
    assert version["selectableFields"] == [{"jsonPath": ".spec.litres"}]
    assert version["additionalPrinterColumns"] == [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]


def test_a_cluster_wide_kind_without_status_has_no_subresources() -> None:
    crd = crd_of(Spoon)
    assert crd.spec["scope"] == "Cluster"
    assert "subresources" not in crd.spec["versions"][0]


def test_a_status_has_no_defaults_and_the_metadata_is_left_to_the_server() -> None:
    schema = crd_of(Kettle).spec["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["description"] == "Boils water."
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["properties"]["spec"]["default"] == {}
    assert "default" not in schema["properties"]["status"]
    assert "default" not in schema["properties"]["status"]["properties"]["phase"]


def test_a_type_without_a_declaration_is_refused() -> None:
    class Fork(Object):
        KIND: ClassVar = Kind("kitchen.edgewise.dev", "v1", "Fork", "forks")

    with pytest.raises(SchemaError, match="Fork declares no CRD"):
        crd_of(Fork)


def test_writing_makes_the_directory_hold_exactly_the_files(tmp_path: Path) -> None:
    files = render([Kettle, Spoon])
    (tmp_path / "gone.yaml").write_text("kind: Gone")
    assert differences(tmp_path, files) == ["gone.yaml", *sorted(files)]
    assert write(tmp_path, files) == ["gone.yaml", *sorted(files)]
    assert write(tmp_path, files) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "kitchen.edgewise.dev_kettles.yaml",
        "kitchen.edgewise.dev_spoons.yaml",
    ]
    text = (tmp_path / "kitchen.edgewise.dev_kettles.yaml").read_text()
    assert yaml.safe_load(text) == msgspec.to_builtins(crd_of(Kettle))


def test_every_kind_belongs_to_a_domain() -> None:
    """The records say what is installed: a kind in none of them would be nowhere."""
    declared = {
        value
        for module in pkgutil.walk_packages(edgewise.api.__path__, "edgewise.api.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, type) and issubclass(value, Object) and "CRD" in vars(value)
    }
    assert declared == set(all_kinds(DOMAINS))


def test_the_committed_crds_are_what_the_types_say() -> None:
    assert differences(REPOSITORY / "deploy" / "crds", render(all_kinds(DOMAINS))) == []
    page = REPOSITORY / "docs" / "reference" / "api.md"
    assert page.read_text() == render_reference(all_kinds(DOMAINS))


def test_the_command_writes_and_then_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    run = CliRunner()
    page = tmp_path / "docs" / "api.md"
    where = ["--directory", str(tmp_path / "crds"), "--reference", str(page)]
    where += ["--objects", str(tmp_path / "objects")]
    assert run.invoke(app, ["generate", *where]).exit_code == 0
    assert run.invoke(app, ["check", *where]).exit_code == 0
    (tmp_path / "crds" / "stray.yaml").write_text("kind: Stray")
    complaint = run.invoke(app, ["check", *where])
    assert complaint.exit_code == 1
    assert "stray.yaml" in complaint.output
    assert "edgewise crds generate" in complaint.output
    (tmp_path / "crds" / "stray.yaml").unlink()
    page.write_text("something else")
    assert "api.md" in run.invoke(app, ["check", *where]).output
