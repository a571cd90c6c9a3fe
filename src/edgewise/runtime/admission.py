"""What the API server asks a webhook, and what the webhook answers: typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import msgspec

from edgewise.kube.objects import Object

T = TypeVar("T", bound=Object)
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Json = dict[str, Any]

API_VERSION = "admission.k8s.io/v1"


class UserInfo(msgspec.Struct, rename="camel"):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None


class AdmissionRequest(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One question. `object` is absent on DELETE, `old_object` on CREATE."""

    uid: str
    operation: Operation
    name: str
    namespace: str
    subresource: str
    user: UserInfo
    object: T | None
    old_object: T | None
    dry_run: bool
    raw_object: bytes

    @property
    def document(self) -> Json:
        """The object as it was sent, with the fields that its type does not know."""
        return msgspec.json.decode(self.raw_object, type=Json) if self.raw_object else {}


class Allowed(msgspec.Struct, frozen=True):
    """Yes; warnings are shown to whoever asked."""

    warnings: tuple[str, ...] = ()


class Denied(msgspec.Struct, frozen=True):
    """No, and why: one sentence that says what to do instead."""

    sentence: str
    code: int = 403


class Mutated(msgspec.Struct, frozen=True):
    """Yes, but with the object changed to this one."""

    document: Json
    warnings: tuple[str, ...] = ()


Verdict = Allowed | Denied | Mutated
Reviewer = Callable[[AdmissionRequest[T]], Verdict | Awaitable[Verdict]]


_NULL = msgspec.Raw(b"null")


class _WireRequest(msgspec.Struct, rename="camel", kw_only=True):
    uid: str
    operation: Operation
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: UserInfo = msgspec.field(default_factory=UserInfo)
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL
    dry_run: bool | None = None


class _WireReview(msgspec.Struct, rename="camel"):
    api_version: str
    request: _WireRequest


_reviews = msgspec.json.Decoder(_WireReview)


@cache
def _objects(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


def read_review(body: bytes, kind: type[T]) -> AdmissionRequest[T]:
    """The question in an AdmissionReview; one of UNREADABLE_JSON if it cannot be understood."""
    review = _reviews.decode(body)
    if review.api_version != API_VERSION:
        raise msgspec.ValidationError(f"{review.api_version} is not {API_VERSION}")
    asked = review.request
    raw, old = _sent(asked.object), _sent(asked.old_object)
    return AdmissionRequest(
        uid=asked.uid,
        operation=asked.operation,
        name=asked.name,
        namespace=asked.namespace,
        subresource=asked.sub_resource,
        user=asked.user_info,
        object=_objects(kind).decode(raw) if raw else None,
        old_object=_objects(kind).decode(old) if old else None,
        dry_run=bool(asked.dry_run),
        raw_object=raw,
    )


def _sent(part: msgspec.Raw) -> bytes:
    return b"" if part == _NULL else bytes(part)


def write_review(request: AdmissionRequest[T], verdict: Verdict) -> bytes:
    """The AdmissionReview with the answer."""
    answer: Json = {"uid": request.uid, "allowed": not isinstance(verdict, Denied)}
    if isinstance(verdict, Denied):
        answer["status"] = {"message": verdict.sentence, "code": verdict.code}
    elif verdict.warnings:
        answer["warnings"] = list(verdict.warnings)
    if isinstance(verdict, Mutated):
        patch = json_patch(request.document, verdict.document)
        if patch:
            answer["patchType"] = "JSONPatch"
            answer["patch"] = msgspec.json.encode(patch)
    return msgspec.json.encode(
        {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": answer}
    )


def json_patch(before: Json, after: Json, at: str = "") -> list[Json]:
    """The JSON patch from one document to another. Lists are replaced whole."""
    operations: list[Json] = []
    for name in before.keys() - after.keys():
        operations.append({"op": "remove", "path": f"{at}/{_escaped(name)}"})
    for name, value in after.items():
        path = f"{at}/{_escaped(name)}"
        old = before.get(name)
        if name not in before:
            operations.append({"op": "add", "path": path, "value": value})
        elif isinstance(old, dict) and isinstance(value, dict):
            operations += json_patch(old, value, path)
        elif msgspec.json.encode(old) != msgspec.json.encode(value):  # 1 and true are not the same
            operations.append({"op": "replace", "path": path, "value": value})
    return operations


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
