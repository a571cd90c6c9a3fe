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
    needed,
    reviewer,
    webhooks_of_games,
)
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


async def said(place: Place, rights: Has | None, new: Any, old: Any = None) -> str:
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
    verdict = await reviewer(place, rights)(request)
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
