"""Questions read, answers written, and the patch between two documents."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.api.sessions import Session
from edgewise.kube.kinds.core import ConfigMap
from edgewise.runtime.webhooks.admission import (
    Allowed,
    Denied,
    Mutated,
    json_patch,
    read_review,
    write_review,
)
from edgewise.runtime.webhooks.serving import Webhook, _review

SENT = {"metadata": {"name": "a"}, "data": {"x": "1"}, "unknown": True}


def review(**changes: Any) -> bytes:
    request = {
        "uid": "u-1",
        "operation": "CREATE",
        "name": "a",
        "namespace": "ns",
        "userInfo": {"username": "me", "groups": ["g"]},
        "object": SENT,
        "oldObject": None,
        "dryRun": False,
    }
    return msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": request | changes,
        }
    )


def answer(verdict: Any, **changes: Any) -> dict[str, Any]:
    content = write_review(read_review(review(**changes), ConfigMap), verdict)
    decoded: dict[str, Any] = msgspec.json.decode(content)
    assert decoded["apiVersion"] == "admission.k8s.io/v1"
    response: dict[str, Any] = decoded["response"]
    return response


def test_the_object_is_typed_and_the_document_complete() -> None:
    request = read_review(review(), ConfigMap)
    assert request.object is not None
    assert request.object.data == {"x": "1"}
    assert request.document == SENT
    assert request.old_object is None
    assert (request.user.username, request.user.groups) == ("me", ["g"])


def test_a_deletion_has_only_the_old_object() -> None:
    request = read_review(review(operation="DELETE", object=None, oldObject=SENT), ConfigMap)
    assert request.object is None
    assert request.document == {}
    assert request.old_object is not None


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", review().replace(b"/v1", b"/v9"), review(operation="STEAL")]
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_review(body, ConfigMap)


async def test_a_review_that_is_not_in_utf8_is_the_fault_of_who_asks() -> None:
    webhook = Webhook(name="x", kind=ConfigMap, review=lambda _: Allowed())
    for body in (review().replace(b"u-1", b"\xff"), review().replace(b'"x":"1"', b'"x":"\xff"')):
        response, outcome = await _review(webhook, body)
        assert (response.status, outcome) == (400, "unreadable")


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


async def said(body: bytes, kind: Any = ConfigMap) -> dict[str, Any]:
    webhook = Webhook(name="x", kind=kind, review=lambda _: Allowed())
    response, _ = await _review(webhook, body)
    assert response.status == 200
    assert isinstance(response.body, bytes)
    answered: dict[str, Any] = msgspec.json.decode(response.body)["response"]
    return answered


async def test_an_object_that_is_nested_without_end_is_refused_with_a_sentence() -> None:
    for levels in (200, 900, 5000):
        sent = review(object={"metadata": {"name": "a"}, "DEEP": 1})
        answered = await said(sent.replace(b'"DEEP":1', b'"DEEP":' + deep(levels)))
        assert answered["uid"] == "u-1"
        if levels > 900:
            assert not answered["allowed"]
            message = "ConfigMap a is nested deeper than 100 levels"
            assert answered["status"] == {"message": message, "code": 422}


async def test_one_that_is_there_already_may_be_mended() -> None:
    sent = review(oldObject={"metadata": {"name": "a"}, "DEEP": 1}, operation="UPDATE")
    assert (await said(sent.replace(b'"DEEP":1', b'"DEEP":' + deep(5000))))["allowed"]


async def test_an_object_that_does_not_fit_its_type_is_refused_with_a_sentence() -> None:
    answered = await said(review(object={"metadata": {"name": "a"}, "data": 7}))
    assert answered["status"]["code"] == 422
    assert "ConfigMap a does not fit its type" in answered["status"]["message"]


async def test_a_session_whose_status_somebody_broke_can_still_be_joined() -> None:
    broken = {
        "metadata": {"name": "a"},
        "spec": {"templateRef": {"name": "t"}},
        "status": {"clients": {"ann": 7}},
    }
    assert (await said(review(object=broken, oldObject=broken), Session))["allowed"]


def test_answers() -> None:
    assert answer(Allowed()) == {"uid": "u-1", "allowed": True}
    assert answer(Allowed(warnings=("hm",)))["warnings"] == ["hm"]
    assert answer(Denied("no grapes", code=422)) == {
        "uid": "u-1",
        "allowed": False,
        "status": {"message": "no grapes", "code": 422},
    }
    assert answer(Mutated(SENT)) == {"uid": "u-1", "allowed": True}
    mutated = answer(Mutated(SENT | {"data": {"x": "2"}}))
    assert mutated["patchType"] == "JSONPatch"
    assert msgspec.json.decode(base64.b64decode(mutated["patch"])) == [
        {"op": "replace", "path": "/data/x", "value": "2"}
    ]


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """A small JSON patch interpreter for objects, written from RFC 6902."""
    document = deepcopy(document)
    for operation in operations:
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        place = document
        for part in parents:
            place = place[part]
        if operation["op"] == "remove":
            del place[last]
        else:
            assert (last in place) == (operation["op"] == "replace")
            place[last] = operation["value"]
    return document


names = st.text(alphabet="ab/~", max_size=3)
documents = st.dictionaries(
    names,
    st.recursive(
        st.none() | st.booleans() | st.integers(0, 2) | st.text(max_size=2),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(before=documents, after=documents)
def test_the_patch_leads_from_one_document_to_the_other(before: Any, after: Any) -> None:
    result = applied(before, json_patch(before, after))
    order = {"order": "deterministic"}
    assert msgspec.json.encode(result, **order) == msgspec.json.encode(after, **order)


@given(document=documents)
def test_no_change_is_no_patch(document: Any) -> None:
    assert json_patch(document, deepcopy(document)) == []
