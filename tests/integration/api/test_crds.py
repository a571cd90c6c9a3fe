"""A real API server takes the generated CRDs, and enforces what the types say."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from msgspec import Meta

from edgewise.api.crd import Column, CrdSpec, Scale, crd_of
from edgewise.api.installation import NotEstablished, install
from edgewise.api.schema import Rule, as_set, keyed_by, rules
from edgewise.domain import all_kinds
from edgewise.kube import errors
from edgewise.kube.client import Client
from edgewise.kube.conditions import Condition
from edgewise.kube.kinds.extensions import CustomResourceDefinition
from edgewise.kube.objects import Kind, Object, Record
from edgewise.operator import DOMAINS


class Port(Record):
    name: Annotated[str, Meta(max_length=15)]
    number: Annotated[int, Meta(ge=1, le=65535)] = 8080


class Grace(Record):
    seconds: Annotated[int, Meta(ge=0)] = 30


class KettleSpec(Record, kw_only=True):
    RULES: ClassVar = (
        Rule("self.low <= self.high", "low must not be above high"),
        Rule("!has(self.ports) || self.ports.all(port, port.number != 22)", "port 22 is taken"),
    )

    material: Literal["Steel", "Glass"] = "Steel"
    owner: Annotated[
        str, Meta(min_length=1, max_length=63), rules(Rule("self == oldSelf", "stays"))
    ]
    low: int = 1
    high: int = 5
    grace: Grace = msgspec.field(default_factory=Grace)
    ports: Annotated[list[Port], keyed_by("name"), Meta(max_length=8)] = []
    colours: Annotated[list[Annotated[str, Meta(max_length=9)]], as_set(), Meta(max_length=8)] = []
    pod: dict[str, Any] = {}
    target: int | str = 0
    replicas: int = 1


class KettleStatus(Record):
    phase: str = ""
    replicas: int = 0
    conditions: Annotated[list[Condition], keyed_by("type")] = []


class Kettle(Object, kw_only=True):
    """Boils water."""

    KIND: ClassVar = Kind("kitchen.edgewise.test", "v1alpha1", "Kettle", "kettles")
    CRD: ClassVar = CrdSpec(
        short_names=("kt",),
        columns=(
            Column("Phase", ".status.phase", description="How warm it is."),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        scale=Scale(),
        selectable_fields=(".spec.material",),
    )

    spec: KettleSpec
    status: KettleStatus = msgspec.field(default_factory=KettleStatus)


class Spoon(Object):
    KIND: ClassVar = Kind("kitchen.edgewise.test", "v1", "Spoon", "spoons", namespaced=False)
    CRD: ClassVar = CrdSpec()


@pytest.fixture
async def kettles(client: Client) -> Client:
    await install(client, (Kettle, Spoon))
    return client


def manifest(namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": Kettle.KIND.api_version,
        "kind": "Kettle",
        "metadata": {"name": f"k{secrets.token_hex(3)}", "namespace": namespace},
        "spec": {"owner": "me", **spec},
    }


async def test_the_crds_of_all_our_kinds_are_accepted_and_served(client: Client) -> None:
    await install(client, all_kinds(DOMAINS))
    for kind in all_kinds(DOMAINS):
        found = await client.get(CustomResourceDefinition, crd_of(kind).metadata.name)
        assert found.established
        wrong = [c for c in found.status.conditions or () if c.type == "NonStructuralSchema"]
        assert wrong == []


async def test_installing_again_changes_nothing(kettles: Client) -> None:
    name = crd_of(Kettle).metadata.name
    before = (await kettles.get(CustomResourceDefinition, name)).metadata.resource_version
    await install(kettles, (Kettle,))
    after = (await kettles.get(CustomResourceDefinition, name)).metadata.resource_version
    assert before == after


async def test_defaults_are_filled_in_also_in_absent_parts_and_list_items(
    kettles: Client, namespace: str
) -> None:
    made = await kettles.apply(manifest(namespace, ports=[{"name": "http"}]))
    assert made["spec"]["material"] == "Steel"
    assert made["spec"]["grace"] == {"seconds": 30}
    assert made["spec"]["ports"] == [{"name": "http", "number": 8080}]
    assert "status" not in made


async def test_what_the_type_leaves_out_the_server_fills_in_the_same(
    kettles: Client, namespace: str
) -> None:
    sent = Kettle.named("a", namespace, spec=KettleSpec(owner="me", ports=[Port(name="http")]))
    made = await kettles.create(sent)
    assert made.spec == sent.spec


def condition_of(kind: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": "Tested",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a value outside the enum": ({"material": "Wood"}, "Unsupported value"),
    "a value outside the range": ({"ports": [{"name": "a", "number": 0}]}, "greater than or equal"),
    "a missing required field": ({"ports": [{"number": 1}]}, "Required value"),
    "an empty string": ({"owner": ""}, "at least 1 char"),
    "a broken rule over two fields": ({"low": 9, "high": 2}, "low must not be above high"),
    "a broken rule over a list": ({"ports": [{"name": "a", "number": 22}]}, "port 22 is taken"),
    "the same key twice": ({"ports": [{"name": "a"}, {"name": "a"}]}, "[Dd]uplicate"),
    "the same value twice in a set": ({"colours": ["red", "red"]}, "[Dd]uplicate"),
    "a wrong type": ({"low": "one"}, "must be of type integer"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_the_server_refuses(case: str, kettles: Client, namespace: str) -> None:
    spec, sentence = REFUSED[case]
    body = msgspec.json.encode(manifest(namespace, **spec))
    with pytest.raises(errors.Invalid, match=sentence):
        await kettles.request("POST", Kettle.KIND.path(namespace), body=body)


async def test_a_rule_may_compare_with_the_object_before(kettles: Client, namespace: str) -> None:
    made = await kettles.create(Kettle.named("a", namespace, spec=KettleSpec(owner="me")))
    with pytest.raises(errors.Invalid, match="stays"):
        await kettles.patch(Kettle, made.metadata.name, namespace, body={"spec": {"owner": "you"}})


async def test_open_parts_stay_open_and_closed_ones_are_pruned(
    kettles: Client, namespace: str
) -> None:
    pod = {"containers": [{"name": "a", "image": "b"}], "anything": {"goes": [1, "two", None]}}
    made = await kettles.apply(manifest(namespace, pod=pod, target="http"))
    assert made["spec"]["pod"]["containers"] == pod["containers"]
    assert made["spec"]["target"] == "http"
    document = manifest(namespace, nosuch=1)
    stored = await kettles.request(
        "POST", Kettle.KIND.path(namespace), body=msgspec.json.encode(document)
    )
    assert "nosuch" not in msgspec.json.decode(stored)["spec"]


async def test_the_status_is_its_own_subresource_and_lists_merge_by_key(
    kettles: Client, namespace: str
) -> None:
    spec = KettleSpec(owner="me")
    await kettles.create(Kettle.named("a", namespace, spec=spec, status=KettleStatus(phase="Hot")))
    assert (await kettles.get(Kettle, "a", namespace)).status.phase == ""
    for manager, kind in (("one", "Ready"), ("two", "Warm")):
        await kettles.apply(
            {
                "apiVersion": Kettle.KIND.api_version,
                "kind": "Kettle",
                "metadata": {"name": "a", "namespace": namespace},
                "status": {"conditions": [condition_of(kind)]},
            },
            field_manager=manager,
            subresource="status",
        )
    found = await kettles.get(Kettle, "a", namespace)
    assert {condition.type for condition in found.status.conditions} == {"Ready", "Warm"}


async def test_scale_and_selectable_fields_work(kettles: Client, namespace: str) -> None:
    for name, material in (("a", "Steel"), ("b", "Glass")):
        await kettles.create(
            Kettle.named(name, namespace, spec=KettleSpec(owner="me", material=material))  # type: ignore[arg-type]
        )
    glass = await kettles.list(Kettle, namespace, fields="spec.material=Glass")
    assert [item.metadata.name for item in glass.items] == ["b"]
    path = f"{Kettle.KIND.path(namespace, 'a')}/scale"
    body = msgspec.json.encode({"spec": {"replicas": 3}})
    await kettles.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    assert (await kettles.get(Kettle, "a", namespace)).spec.replicas == 3


async def test_a_kind_whose_names_are_taken_is_explained(kettles: Client) -> None:
    class Impostor(Object):
        KIND: ClassVar = Kind("kitchen.edgewise.test", "v1", "Kettle", "impostors")
        CRD: ClassVar = CrdSpec()

    with pytest.raises(NotEstablished, match=r"impostors.*already in use"):
        await install(kettles, (Impostor,), timeout=2)
    await kettles.delete(CustomResourceDefinition, crd_of(Impostor).metadata.name)
