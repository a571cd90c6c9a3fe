"""Whether somebody may give a role away: only who may bind it, or holds all of it already."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from edgewise.api.tenancy import GROUP
from edgewise.api.tenancy_requests import Request, RoleRequest, TenantRequest
from edgewise.kube.client import Client
from edgewise.kube.errors import NotFound
from edgewise.kube.kinds.authorization import (
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from edgewise.kube.kinds.rbac import RBAC, ClusterRole, PolicyRule, Role
from edgewise.runtime.webhooks.admission import UserInfo

# A role with more to it can be given away by who may bind it.
MOST_QUESTIONS = 1500
_AT_ONCE = 16


class Asks(Protocol):
    """Whether the decider may do something."""

    async def __call__(self, what: ResourceAttributes) -> bool: ...


def asking(client: Client, user: UserInfo) -> Asks:
    async def ask(what: ResourceAttributes) -> bool:
        spec = SubjectAccessReviewSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups or [],
            extra=user.extra or {},
            resource_attributes=what,
        )
        return (await client.create(SubjectAccessReview(spec=spec))).status.allowed

    return ask


async def why_not(client: Client, request: Request, ask: Asks) -> str:
    """The sentence for an approver who may not approve this one; empty: they may."""
    if isinstance(request, TenantRequest):
        return await _why_no_tenant(request, ask)
    ref, namespace = request.spec.role_ref, request.metadata.namespace
    plural = "roles" if ref.kind == "Role" else "clusterroles"
    if await ask(
        ResourceAttributes(
            namespace=namespace, verb="bind", group=RBAC, resource=plural, name=ref.name
        )
    ):
        return ""
    try:
        role: Role | ClusterRole = (
            await client.get(Role, ref.name, namespace)
            if ref.kind == "Role"
            else await client.get(ClusterRole, ref.name)
        )
    except NotFound:
        return f"there is no {ref.kind} {ref.name} to give: deny the request, or make the role"
    where = namespace if isinstance(request, RoleRequest) else ""
    questions = list(islice(everything_in(role.rules or (), where), MOST_QUESTIONS + 1))
    if len(questions) > MOST_QUESTIONS:
        return f"{ref.kind} {ref.name} holds too much to compare: this needs the verb bind on it"
    missing = await _first_missing(questions, ask)
    if missing is None:
        return ""
    return (
        f"{ref.kind} {ref.name} holds a right that you lack, to {missing.verb} "
        f"{missing.resource}{'/' + missing.subresource if missing.subresource else ''}: "
        "nobody gives away more than they have"
    )


async def _why_no_tenant(request: TenantRequest, ask: Asks) -> str:
    wanted = ["tenants", *(["tenantresourcequotas"] if request.spec.resources else [])]
    for plural in wanted:
        if not await ask(ResourceAttributes(verb="create", group=GROUP, resource=plural)):
            return f"approving it needs the right to create {plural}"
    return ""


async def _first_missing(
    questions: list[ResourceAttributes], ask: Asks
) -> ResourceAttributes | None:
    for start in range(0, len(questions), _AT_ONCE):
        some = questions[start : start + _AT_ONCE]
        answers = await asyncio.gather(*map(ask, some))
        for question, allowed in zip(some, answers, strict=True):
            if not allowed:
                return question
    return None


def everything_in(rules: Iterable[PolicyRule], namespace: str) -> Iterator[ResourceAttributes]:
    """Each single thing that a role allows. A `*` is asked for as such."""
    for rule in rules:
        for group in rule.api_groups:
            for full in rule.resources:
                resource, _, subresource = full.partition("/")
                for name in rule.resource_names or [""]:
                    for verb in rule.verbs:
                        yield ResourceAttributes(
                            namespace=namespace,
                            verb=verb,
                            group=group,
                            resource=resource,
                            subresource=subresource,
                            name=name,
                        )
