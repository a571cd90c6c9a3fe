"""A request, an attempt, and the people who try."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewise.api.tenancy import GROUP
from tests.e2e.tenancy.scene import ACCOUNT

RBAC_SAYS = "cannot "
PSA = "PodSecurity"
ESCALATES = "attempting to grant RBAC permissions not currently held"

OWNER, COLLABORATOR, OUTSIDER, SERVICE, STAFF = "alice", "cora", "oscar", ACCOUNT, "stan"
VIEWER = "vera"
WORKERS = (OWNER, COLLABORATOR, SERVICE)
KEEPERS = (OWNER, SERVICE)
EVERYBODY = (OWNER, COLLABORATOR, OUTSIDER, SERVICE)

MERGE = "application/merge-patch+json"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    body: Any = None
    user: str = ""
    content_type: str = "application/json"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """`by` is a part of the sentence that refuses, for each person who tries."""

    name: str
    request: Request
    who: dict[str, str]
    twin: Request


def each_by(people: tuple[str, ...], by: str) -> dict[str, str]:
    return dict.fromkeys(people, by)


def post(path: str, body: Any, user: str = "") -> Request:
    return Request(method="POST", path=path, body=body, user=user)


def patch(path: str, body: Any, user: str = "") -> Request:
    return Request(method="PATCH", path=path, body=body, user=user, content_type=MERGE)


def get(path: str, user: str) -> Request:
    return Request(method="GET", path=path, user=user)


def delete(path: str, user: str = "") -> Request:
    return Request(method="DELETE", path=path, user=user)


def policy(name: str) -> str:
    return f"'{name}.{GROUP}'"


NS = "/api/v1/namespaces"
