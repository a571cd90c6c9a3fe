"""What protects servers while no operator runs: a policy, a budget and a priority. Pure.

A finalizer does not keep a game alive: the kubelet stops the containers of a deleted pod whatever
its finalizers. So nobody but the operator may delete the pod of a server (the policy), evictions
wait (the budget), and ordinary pods do not preempt (the priority).
"""

from __future__ import annotations

from typing import Any

from edgewise.api.games import GROUP
from edgewise.gameservers import names
from edgewise.kube.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from edgewise.kube.kinds.policy import PodDisruptionBudget
from edgewise.kube.kinds.scheduling import PriorityClass

# More than any namespace has pods, and nobody ever has to update it.
ALL_OF_THEM = 2147483647
PRIORITY = 100_000


def _program(user: str, account: str, right: str) -> str:
    """Whether a program of Edgewise asks.

    A service account of that name in another namespace is not enough: it has to have a right in
    every namespace that only the programs of Edgewise have.
    """
    return (
        f"(request.userInfo.username == '{user}' || "
        f"(request.userInfo.username.startsWith('system:serviceaccount:') && "
        f"request.userInfo.username.endsWith(':{account}') && "
        f"authorizer.group('{GROUP}').resource('servers'){right}.check('patch').allowed()))"
    )


_STATUS = ".subresource('status')"
OPERATOR = _program(names.OPERATOR_USER, names.OPERATOR_ACCOUNT, _STATUS)
SERVER = _program(names.SERVER_USER, names.SERVER_ACCOUNT, _STATUS)
# It takes everything out after the operator has ended.
UNINSTALL = _program(names.UNINSTALL_USER, names.UNINSTALL_ACCOUNT, "")


def _policy(
    name: str, spec: dict[str, Any]
) -> tuple[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding]:
    return (
        ValidatingAdmissionPolicy.named(name, spec={"failurePolicy": "Fail", **spec}),
        ValidatingAdmissionPolicyBinding.named(
            name, spec={"policyName": name, "validationActions": ["Deny"]}
        ),
    )


# A collection that is deleted has no request.name: the sentence names what oldObject says.
PODS = _policy(
    names.POLICY,
    {
        "matchConstraints": {
            "objectSelector": {
                "matchExpressions": [{"key": names.PROTECTED, "operator": "Exists"}]
            },
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["DELETE", "UPDATE"],
                    "resources": ["pods"],
                }
            ],
        },
        # Asked first, and all that most requests are asked: for the rest of a policy the API server
        # converts the pod three times, which cost a seventh of what it does to remove a fleet.
        "matchConditions": [
            {
                # The kubelet, pod GC and kwok delete what is being deleted already.
                "name": "not-going-already",
                "expression": "request.operation != 'DELETE' || "
                "!has(oldObject.metadata.deletionTimestamp)",
            },
            {"name": "not-by-the-operator", "expression": f"!{OPERATOR}"},
        ],
        "variables": [
            {"name": "server", "expression": f"oldObject.metadata.labels['{names.PROTECTED}']"},
            {
                "name": "ended",
                "expression": "has(oldObject.status) && has(oldObject.status.phase) && "
                "oldObject.status.phase in ['Succeeded', 'Failed']",
            },
            {
                "name": "protected",
                # Only the one pod that a server has: with the label alone, anybody could make a
                # pod that nobody can delete, and a namespace that never ends.
                "expression": f"has(oldObject.metadata.labels) && '{names.PROTECTED}' in "
                "oldObject.metadata.labels && oldObject.metadata.name == "
                f"oldObject.metadata.labels['{names.PROTECTED}'] + '{names.POD_SUFFIX}'",
            },
        ],
        "validations": [
            {
                "expression": "request.operation != 'DELETE' || !variables.protected || "
                "variables.ended || request.userInfo.username == 'system:kube-scheduler' || "
                f"{UNINSTALL}",
                "messageExpression": "'the pod ' + oldObject.metadata.name + ' is the game server '"
                " + variables.server + ': delete the Server instead, and its game is asked to end "
                "(set spec.operation to Kill to end it at once)'",
                "reason": "Forbidden",
            },
            {
                "expression": "request.operation != 'UPDATE' || !variables.protected || "
                f"(has(object.metadata.labels) && '{names.PROTECTED}' in object.metadata.labels && "
                f"object.metadata.labels['{names.PROTECTED}'] == variables.server)",
                "messageExpression": f"'the label {names.PROTECTED} protects the game server ' + "
                "variables.server + ': it stays as it is'",
                "reason": "Forbidden",
            },
        ],
    },
)
ALLOCATIONS = _policy(
    f"{names.POLICY}-allocations",
    {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [GROUP],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "DELETE", "UPDATE"],
                    "resources": ["allocations", "allocations/status"],
                }
            ],
        },
        # Every match is such a creation: all that it costs is this look.
        "matchConditions": [
            {
                "name": "not-of-a-match",
                "expression": "request.operation != 'CREATE' || has(object.spec.retires) || "
                "(has(object.spec.retired) && object.spec.retired) || "
                # Who took the name of a list would keep a fleet from shrinking.
                f"object.metadata.name.endsWith('{names.RETIRING_SUFFIX}')",
            },
        ],
        "validations": [
            {
                "expression": f"request.operation == 'CREATE' || {OPERATOR} || {SERVER} || "
                f"{UNINSTALL}",
                "messageExpression": "'the Allocation ' + oldObject.metadata.name + ' says that a "
                "game server is taken: only the operator and the server of Edgewise change or "
                "delete it'",
                "reason": "Forbidden",
            },
            {
                # The operator removes what is retired, with its own rights.
                "expression": f"request.operation != 'CREATE' || {OPERATOR}",
                "message": "an Allocation with retired or retires, or with a name that ends in "
                f"{names.RETIRING_SUFFIX}, removes game servers: only the operator makes one; "
                "delete the Server, or set its spec.operation to Retire",
                "reason": "Forbidden",
            },
        ],
    },
)

PRIORITY_CLASS = PriorityClass.named(
    names.PRIORITY_CLASS,
    value=PRIORITY,
    description="Game servers whose pods name no other class: ordinary pods do not preempt them.",
)

CLUSTER_OBJECTS = (*PODS, *ALLOCATIONS, PRIORITY_CLASS)


def budget(namespace: str) -> PodDisruptionBudget:
    made = PodDisruptionBudget.named(
        names.BUDGET,
        namespace,
        spec={
            "minAvailable": ALL_OF_THEM,
            "selector": {"matchExpressions": [{"key": names.PROTECTED, "operator": "Exists"}]},
        },
    )
    made.metadata.labels = {names.PROTECTED: "all"}
    made.metadata.annotations = {names.BUDGET_MARK: "Evictions of game servers wait for them."}
    return made
