"""Asking the API server who may do what."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from edgewise.kube.objects import Kind, Object, Record


class ResourceAttributes(Record):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class SubjectAccessReviewSpec(Record):
    user: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    resource_attributes: ResourceAttributes = msgspec.field(default_factory=ResourceAttributes)


class SubjectAccessReviewStatus(Record):
    allowed: bool = False
    reason: str = ""


class SubjectAccessReview(Object):
    """A question that is created and answered at once; nothing of it is stored."""

    KIND: ClassVar = Kind(
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        namespaced=False,
    )

    spec: SubjectAccessReviewSpec = msgspec.field(default_factory=SubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus = msgspec.field(default_factory=SubjectAccessReviewStatus)


class UserInfo(Record):
    username: str = ""
    groups: list[str] = []


class SelfSubjectReviewStatus(Record):
    user_info: UserInfo = msgspec.field(default_factory=UserInfo)


class SelfSubjectReview(Object):
    """Asks the API server as whom it sees the caller."""

    KIND: ClassVar = Kind(
        "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False
    )

    status: SelfSubjectReviewStatus = msgspec.field(default_factory=SelfSubjectReviewStatus)
