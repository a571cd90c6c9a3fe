"""What the API server itself holds requests to, with or without an operator."""

from __future__ import annotations

from edgewise.api.tenancy import GROUP, TENANT_UID
from edgewise.kube.objects import Object
from edgewise.tenancy.policies.own_kinds import AMOUNTS, COUNTED, NOT_COUNTED, good_amounts
from edgewise.tenancy.policies.writing import CREATE, DELETE, UPDATE, Check, On, policy

_PLURALS = ("tenantrequests", "rolerequests", "clusterrolerequests")
_WHO = "request.userInfo.username"
_MAY_APPROVE = (
    f"authorizer.group('{GROUP}').resource(request.resource.resource)"
    ".namespace(has(request.namespace) ? request.namespace : '').name(request.name)"
    ".check('approve').allowed()"
)
# CEL has no clock; the API server has just stamped what it is about to store.
_MADE = "string(object.metadata.creationTimestamp)"

REQUESTS = policy(
    "requests",
    [On(_PLURALS, (CREATE, UPDATE, DELETE), group=GROUP)],
    [
        Check(
            f"request.operation != 'CREATE' || !{_WHO}.startsWith('system:')",
            "requests are for people: accounts of programs, and names that begin with system:, get "
            "their rights from whoever runs them",
        ),
        Check(
            f"request.operation != 'CREATE' || (has(object.spec.requester) && "
            f"object.spec.requester == {_WHO})",
            "spec.requester is stamped with your own name: leave it out",
        ),
        Check(
            "request.operation != 'CREATE' || !has(object.spec.decision)",
            "spec.decision comes later, and from somebody else",
        ),
        Check(
            f"!variables.decides || {_MAY_APPROVE}",
            "spec.decision needs the verb approve on this request",
        ),
        Check(
            f"!variables.decides || object.spec.requester != {_WHO}",
            "spec.decision: nobody decides their own request",
        ),
        Check(
            f"!variables.decides || (has(object.spec.decision.by) && "
            f"object.spec.decision.by == {_WHO})",
            "spec.decision.by is stamped with your own name: leave it out",
        ),
        Check(
            "request.operation != 'DELETE' || variables.ours || "
            f"(has(oldObject.spec.requester) && oldObject.spec.requester == {_WHO}) || "
            f"{_MAY_APPROVE}",
            "a request is deleted by its maker, or by who may approve it",
        ),
        Check(
            "request.operation != 'CREATE' || request.resource.resource != 'rolerequests' || "
            f"(has(namespaceObject.metadata.labels) && '{TENANT_UID}' in "
            "namespaceObject.metadata.labels)",
            "a RoleRequest belongs into a namespace of a tenant, and this is none",
        ),
        # Once it is stored nothing of it changes but the decision, which may be a no.
        good_amounts("request.operation != 'CREATE'"),
        Check(
            "request.operation != 'CREATE' || "
            f"variables.amounts.all(k, k.contains('/') || k in {COUNTED})",
            f"spec.resources {NOT_COUNTED}",
        ),
        Check(
            "request.operation != 'CREATE' || !has(object.spec.grantExpiresAt) || "
            f"timestamp(object.spec.grantExpiresAt) > timestamp({_MADE})",
            "spec.grantExpiresAt lies in the past",
            says=f"'spec.grantExpiresAt lies in the past: it is ' + {_MADE} + ' now; write it "
            "like 2030-01-31T12:00:00Z'",
        ),
    ],
    variables={
        **AMOUNTS,
        "decides": (
            "request.operation == 'UPDATE' && has(object.spec.decision) && "
            "!has(oldObject.spec.decision)"
        ),
    },
)
POLICIES: tuple[Object, ...] = REQUESTS
