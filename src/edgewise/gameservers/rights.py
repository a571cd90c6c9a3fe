"""What game servers need to be allowed, program by program. The chart grants exactly this."""

from __future__ import annotations

from edgewise.api.games import GROUP
from edgewise.domain import Rights
from edgewise.kube.kinds.rbac import PolicyRule

LOOK = ("get", "list", "watch")


def rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(api_groups=[group], resources=[*resources], verbs=[*verbs])


OPERATOR = Rights(
    program="operator",
    cluster=(
        rule(GROUP, ("servers", "fleets"), (*LOOK, "create", "patch", "delete")),
        rule(GROUP, ("gametypes",), (*LOOK, "patch")),
        rule(GROUP, ("gameautoscalers",), LOOK),
        # Only the server changes them: a match that is told is made sure of.
        rule(GROUP, ("allocations",), (*LOOK, "create", "delete")),
        rule(
            GROUP,
            (
                "servers/status",
                "fleets/status",
                "gametypes/status",
                "gameautoscalers/status",
            ),
            ("patch",),
        ),
        # Kubernetes asks for this before anything may hold back the deletion of its owner.
        rule(
            GROUP,
            ("servers/finalizers", "fleets/finalizers", "gametypes/finalizers"),
            ("update",),
        ),
        rule("", ("pods",), (*LOOK, "create", "delete")),
        # The end of what a game said that failed, in a ConfigMap of its fleet.
        rule("", ("pods/log",), ("get",)),
        rule("", ("configmaps",), ("get", "create", "patch")),
        rule("", ("nodes", "namespaces"), ("list", "watch")),
        # One in each namespace that has servers, so that an eviction waits.
        rule("policy", ("poddisruptionbudgets",), (*LOOK, "create")),
        # The pods behind the Service that an autoscaler asks.
        rule("", ("services",), ("get",)),
        rule("discovery.k8s.io", ("endpointslices",), ("list",)),
    ),
)
# Whether who writes a server, a fleet or a game may create its pods.
OPERATOR_CHECKING_AUTHORS = Rights(
    program="operator",
    when=("operator.checkAuthors",),
    cluster=(rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),),
)
UNINSTALL = Rights(
    program="uninstall",
    when=("uninstall.hook",),
    cluster=(rule(GROUP, ("servers", "fleets", "gametypes"), ("get", "list", "patch")),),
)
UNINSTALL_EVERYTHING = Rights(
    program="uninstall",
    when=("uninstall.hook", "!crds.keep"),
    cluster=(
        rule(
            GROUP,
            ("servers", "fleets", "gametypes", "gameautoscalers", "allocations"),
            ("list", "delete"),
        ),
        rule("", ("pods", "configmaps"), ("list", "delete")),
        rule("policy", ("poddisruptionbudgets",), ("list", "delete")),
    ),
)

RIGHTS = (OPERATOR, OPERATOR_CHECKING_AUTHORS, UNINSTALL, UNINSTALL_EVERYTHING)
