"""Selectors select here what they select at the API server."""

from __future__ import annotations

import msgspec
import pytest

from edgewise.kube.objects import Kind, Object, ObjectMeta, Record
from edgewise.runtime.caching.selection import Selection, SelectorError


class Spec(Record):
    node_name: str | None = None
    hostNetwork: bool = False
    open: dict[str, str] = {}


class Thing(Object):
    KIND = Kind("test.edgewise.dev", "v1", "Thing", "things")
    spec: Spec = msgspec.field(default_factory=Spec)


def thing(spec: Spec | None = None, **labels: str) -> Thing:
    meta = ObjectMeta(name="web", namespace="shop", labels=labels)
    return Thing(metadata=meta, spec=spec or Spec())


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=db", False),
        ("app!=web", False),
        ("app!=db", True),
        ("missing!=db", True),
        ("app", True),
        ("!app", False),
        ("missing", False),
        ("!missing", True),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("app notin (web)", False),
        ("missing notin (web)", True),
        ("missing in (web)", False),
        ("app in (web,db),tier=front", True),
        ("app=web,tier=back", False),
        ("edgewise.dev/session=s-1", True),
        ("app=", False),
        ("level>6", True),
        ("level > 7", False),
        ("level<8", True),
        ("level < 7", False),
        ("level>6,level<8", True),
        ("app>5", False),
        ("app<5", False),
        ("missing<5", False),
        ("huge>5", False),
    ],
)
def test_labels(selector: str, selected: bool) -> None:
    obj = thing(
        app="web", tier="front", level="07", huge="9" * 19, **{"edgewise.dev/session": "s-1"}
    )
    assert Selection(labels=selector).matcher()(obj) is selected


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("metadata.name=web", True),
        ("metadata.name==web,metadata.namespace=shop", True),
        ("metadata.name!=web", False),
        ("spec.nodeName=node-1", True),
        ("spec.nodeName!=node-1", False),
        ("spec.nodeName=", False),
        ("spec.hostNetwork=true", True),
        ("spec.open.x=y", True),
        ("spec.open.z=", True),
    ],
)
def test_fields(selector: str, selected: bool) -> None:
    obj = thing(Spec(node_name="node-1", hostNetwork=True, open={"x": "y"}))
    assert Selection(fields=selector).matcher()(obj) is selected


def test_a_field_that_is_not_set_reads_as_empty() -> None:
    assert Selection(fields="spec.nodeName=").matcher()(thing())


def test_a_field_that_the_type_does_not_have_is_an_error_rather_than_a_guess() -> None:
    with pytest.raises(SelectorError, match="Spec has no field 'phase'"):
        Selection(fields="spec.phase=Running").matcher()(thing())


def test_namespaces() -> None:
    assert Selection(namespace="shop").matcher()(thing())
    assert not Selection(namespace="bank").matcher()(thing())


@pytest.mark.parametrize(
    "labels",
    ["app in web", "a b", "=x", "app in (a", "v>", "v>a", "v>=5", "!v<5", "v>-1", "v<" + "9" * 19],
)
def test_labels_that_cannot_be_read(labels: str) -> None:
    with pytest.raises(SelectorError, match="cannot be read"):
        Selection(labels=labels).matcher()


@pytest.mark.parametrize("fields", ["metadata.name", "a in (b)"])
def test_fields_that_cannot_be_read(fields: str) -> None:
    with pytest.raises(SelectorError, match="cannot be read"):
        Selection(fields=fields).matcher()
