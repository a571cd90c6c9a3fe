"""What the API server asks a webhook, and what the webhook answers: typed."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import msgspec

from edgewise.errors import ReadableError
from edgewise.kube.errors import Undecodable
from edgewise.kube.objects import Object
from edgewise.kube.shallow import DEEPEST, decoded, shallow
from edgewise.kube.unreadable import mend

T = TypeVar("T", bound=Object)
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Json = dict[str, Any]

API_VERSION = "admission.k8s.io/v1"


class UserInfo(msgspec.Struct, rename="camel"):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


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


class Unreviewable(ReadableError):
    """The question can be read, but not the object that it is about, which is refused for it."""

    def __init__(self, uid: str, sentence: str) -> None:
        super().__init__(sentence)
        self.uid = uid
        self.sentence = sentence


def read_review(body: bytes, kind: type[T]) -> AdmissionRequest[T]:
    """The question in an AdmissionReview; one of UNREADABLE_JSON if it cannot be understood."""
    cut = b""
    try:
        review = _reviews.decode(body)
    except RecursionError:
        # The object that is there already may be as deep: that must not keep it from mending.
        cut = f'"{secrets.token_hex(16)}"'.encode()
        review = _reviews.decode(shallow(body, instead=cut))
    if review.api_version != API_VERSION:
        raise msgspec.ValidationError(f"{review.api_version} is not {API_VERSION}")
    asked = review.request
    raw, old = _sent(asked.object), _sent(asked.old_object)
    if cut and cut in raw:
        what = f"{kind.KIND.kind} {asked.name}".strip()
        raise Unreviewable(asked.uid, f"{what} is nested deeper than {DEEPEST} levels")
    return AdmissionRequest(
        uid=asked.uid,
        operation=asked.operation,
        name=asked.name,
        namespace=asked.namespace,
        subresource=asked.sub_resource,
        user=asked.user_info,
        object=_object(kind, raw, asked.uid),
        old_object=_object(kind, old, asked.uid),
        dry_run=bool(asked.dry_run),
        raw_object=raw,
    )


def _object(kind: type[T], content: bytes, uid: str) -> T | None:
    if not content:
        return None
    try:
        found: T = decoded(_objects(kind), content)
    except msgspec.ValidationError as error:
        try:
            return mend(kind, content, error)
        except Undecodable as broken:
            raise Unreviewable(uid, str(broken)) from error
    return found


def _sent(part: msgspec.Raw) -> bytes:
    return b"" if part == _NULL else bytes(part)


def write_refusal(uid: str, verdict: Denied) -> bytes:
    """The AdmissionReview that says no."""
    status = {"message": verdict.sentence, "code": verdict.code}
    return _answer({"uid": uid, "allowed": False, "status": status})


def write_review(request: AdmissionRequest[T], verdict: Verdict) -> bytes:
    """The AdmissionReview with the answer."""
    if isinstance(verdict, Denied):
        return write_refusal(request.uid, verdict)
    answer: Json = {"uid": request.uid, "allowed": True}
    if verdict.warnings:
        answer["warnings"] = list(verdict.warnings)
    if isinstance(verdict, Mutated):
        patch = json_patch(request.document, verdict.document)
        if patch:
            answer["patchType"] = "JSONPatch"
            answer["patch"] = msgspec.json.encode(patch)
    return _answer(answer)


def _answer(answer: Json) -> bytes:
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
