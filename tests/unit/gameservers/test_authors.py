"""What the author of a server must be allowed, and when it is asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewise.api.games import GROUP, VERSION, ServerSpec
from edgewise.gameservers.admission import (
    ESCALATE,
    PARTS,
    PLACES,
    Place,
    Stage,
    needed,
    reviewer,
    webhooks_of_games,
)
from edgewise.gameservers.server.settings import GamePorts, Settings
from edgewise.kube.errors import Invalid
from edgewise.kube.kinds.core import Pod
from edgewise.runtime.webhooks.admission import AdmissionRequest, Allowed, Denied, UserInfo
from edgewise.workloads.authors import PODS, Right

POD = {"containers": [{"name": "game", "image": "game:1"}]}
BOSS = Right("impersonate", "", "serviceaccounts", "boss")

NEEDED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a pod": ({}, {"create pods": "spec.pod"}),
    "a service account": (
        {"serviceAccountName": "boss"},
        {
            "create pods": "spec.pod",
            "impersonate serviceaccounts boss": "spec.pod.serviceAccountName",
        },
    ),
    "a service account by the older name of the field": (
        {"serviceAccount": "boss"},
        {
            "create pods": "spec.pod",
            "impersonate serviceaccounts boss": "spec.pod.serviceAccount",
        },
    ),
    "two names that do not agree": (
        {"serviceAccountName": "clerk", "serviceAccount": "boss"},
        {
            "create pods": "spec.pod",
            "impersonate serviceaccounts clerk": "spec.pod.serviceAccountName",
            "impersonate serviceaccounts boss": "spec.pod.serviceAccount",
        },
    ),
    "the account that every pod has": (
        {"serviceAccountName": "default"},
        {"create pods": "spec.pod"},
    ),
    "an account that is no text is still asked for": (
        {"serviceAccountName": ["boss"]},
        {
            "create pods": "spec.pod",
            "impersonate serviceaccounts ['boss']": "spec.pod.serviceAccountName",
        },
    ),
}


@pytest.mark.parametrize("name", NEEDED)
def test_needed_are(name: str) -> None:
    pod, expected = NEEDED[name]
    spec = msgspec.convert({"pod": {**POD, **pod}}, ServerSpec)
    assert {str(right): at for right, at in needed(spec, "spec.pod").items()} == expected


class Has:
    """Somebody with some rights."""

    def __init__(self, *rights: Right) -> None:
        self.rights = rights

    async def has(self, user: UserInfo, namespace: str, right: Right) -> bool:
        return right in self.rights


def one(place: Place, server: dict[str, Any]) -> Any:
    inner: dict[str, Any] = {"pod": POD, **server}
    for step in reversed(place.at.split(".")[1:]):
        inner = {step: inner}
    document = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": place.kind.KIND.kind,
        "metadata": {"name": "one", "namespace": "play"},
        "spec": inner,
    }
    return msgspec.convert(document, place.kind)


async def said(
    place: Place, rights: Has | None, new: Any, old: Any = None, stage: Stage | None = None
) -> str:
    request = AdmissionRequest[Any](
        uid="1",
        operation="CREATE" if old is None else "UPDATE",
        name="one",
        namespace="play",
        subresource="",
        user=UserInfo(username="eve"),
        object=new,
        old_object=old,
        dry_run=False,
        raw_object=b"",
    )
    verdict = await reviewer(place, rights, stage)(request)
    if isinstance(verdict, Allowed):
        return ""
    assert isinstance(verdict, Denied)
    return verdict.sentence


NOT_PODS = (
    "eve may not create pods in the namespace play, and so may not have that done by the "
    "operator: ask for that right, or let somebody who has it write this"
)
ODD = {**POD, "hostPID": 1}
ACCOUNT = {"pod": {**POD, "serviceAccountName": "boss"}}
# The rights of the author, what is written, what was there (None: nothing), what is refused.
REVIEWS: dict[str, tuple[Has | None, dict[str, Any], dict[str, Any] | None, str]] = {
    "somebody who may create pods": (Has(PODS), {}, None, ""),
    "somebody who may not": (Has(), {}, None, NOT_PODS),
    "a service account without the right to it": (
        Has(PODS),
        ACCOUNT,
        None,
        "eve may not impersonate serviceaccounts boss in the namespace play",
    ),
    "a service account with the right to it": (Has(PODS, BOSS), ACCOUNT, None, ""),
    "somebody who is exempt": (Has(ESCALATE), ACCOUNT, None, ""),
    "authors are not checked": (None, ACCOUNT, None, ""),
    "nothing of the pod changes": (Has(), {"timeout": "1m"}, {"timeout": "2m"}, ""),
    "the pod changes": (Has(), ACCOUNT, {}, NOT_PODS),
    "a number becomes a truth": (
        Has(),
        {"pod": {**POD, "hostPID": True}},
        {"pod": ODD},
        NOT_PODS,
    ),
    "its labels change": (Has(), {"podMetadata": {"labels": {"a": "b"}}}, {}, NOT_PODS),
    "its ports change": (Has(), {"ports": [{"name": "a", "containerPort": 1}]}, {}, NOT_PODS),
    "its sidecar changes": (Has(), {"sidecar": {"port": 9}}, {}, NOT_PODS),
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.kind.KIND.kind)
@pytest.mark.parametrize("name", REVIEWS)
async def test_a_review_ends_with(name: str, place: Place) -> None:
    rights, new, old, sentence = REVIEWS[name]
    before = one(place, old) if old is not None else None
    found = await said(place, rights, one(place, new), before)
    if not sentence:
        assert found == ""
    else:
        assert found.startswith(f"{place.at}.pod")
        assert sentence in found


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "an environment that is a text": (
        {"containers": [{"name": "game", "env": "A=B"}]},
        "containers[0].env must be a list of objects",
    ),
    "volumes that are names": ({**POD, "volumes": ["a"]}, "volumes must be a list of objects"),
    "a number of tolerations": ({**POD, "tolerations": 5}, "tolerations must be a list of objects"),
    "ports of an initContainer": (
        {**POD, "initContainers": [{"name": "a"}, {"name": "b", "ports": {"c": 1}}]},
        "initContainers[1].ports must be a list of objects",
    ),
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.kind.KIND.kind)
@pytest.mark.parametrize("name", MALFORMED)
async def test_no_pod_is_made_of(name: str, place: Place) -> None:
    pod, sentence = MALFORMED[name]
    found = await said(place, Has(PODS), one(place, {"pod": pod}))
    assert found == f"{place.at}.pod.{sentence}"


class Trying:
    """An API server that is asked about pods."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.tried: list[Pod] = []

    async def try_out(self, pod: Pod) -> None:
        self.tried.append(pod)
        if self.error is not None:
            raise self.error


PORTS = [
    {"name": "fixed", "containerPort": 1, "policy": "Static", "hostPort": 22},
    {"name": "chosen", "containerPort": 2},
    {"name": "through", "policy": "Passthrough"},
    {"name": "inside", "containerPort": 3, "policy": "None"},
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.kind.KIND.kind)
async def test_the_pod_is_tried_out_as_the_operator_would_make_it(place: Place) -> None:
    trying = Trying(Invalid(422, "Invalid", "spec.containers[0].image: Required value"))
    settings = Settings(sidecar_image="edgewise:1", ports=GamePorts(7000, 7099))
    found = await said(place, None, one(place, {"ports": PORTS}), stage=Stage(trying, settings))
    assert found == f"{place.at}.pod: spec.containers[0].image: Required value"
    (pod,) = trying.tried
    assert not pod.metadata.owner_references
    assert pod.metadata.namespace == "play"
    assert [each["name"] for each in pod.spec["initContainers"]] == ["edgewise-sidecar"]
    assert sorted(
        each["hostPort"] for each in pod.spec["containers"][0]["ports"] if "hostPort" in each
    ) == [22, 7001, 7002]


async def test_a_pod_is_tried_out_only_if_its_author_may_have_it() -> None:
    trying = Trying()
    stage = Stage(trying, Settings())
    assert NOT_PODS in await said(PLACES[0], Has(), one(PLACES[0], {}), stage=stage)
    assert not trying.tried
    assert await said(PLACES[0], Has(PODS), one(PLACES[0], {}), stage=stage) == ""
    assert len(trying.tried) == 1
    unchanged = one(PLACES[0], {"timeout": "1m"})
    assert await said(PLACES[0], Has(PODS), unchanged, one(PLACES[0], {}), stage=stage) == ""
    assert len(trying.tried) == 1


async def test_a_pod_that_is_nested_without_end_is_refused() -> None:
    deep: Any = 1
    for _ in range(150):
        deep = {"a": deep}
    found = await said(PLACES[1], Has(PODS), one(PLACES[1], {"pod": {**POD, "x": deep}}))
    assert found == "spec.spec.pod is nested deeper than 100 levels"


def test_all_that_is_asked_about_fails_closed_and_only_that() -> None:
    client: Any = None
    hooks = webhooks_of_games(client, "there")
    assert [each.name for each in hooks] == [
        "servers.games.edgewise.dev",
        "fleets.games.edgewise.dev",
        "gametypes.games.edgewise.dev",
    ]
    for hook, place in zip(hooks, PLACES, strict=True):
        assert hook.fail_closed
        assert hook.operations == ("CREATE", "UPDATE")
        assert hook.subresources == ("",)
        # A selector by labels is one that whoever writes the object chooses.
        assert hook.object_selector is None
        assert hook.namespace_selector is None
        changed, ours = (each.expression for each in hook.match_conditions)
        for part in PARTS:
            assert f"object.{place.at}.{part} != oldObject.{place.at}.{part}" in changed
        assert "'system:serviceaccount:there:edgewise-operator'" in ours


def test_the_parts_are_fields_of_a_server() -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(ServerSpec)}
    assert fields >= set(PARTS)
