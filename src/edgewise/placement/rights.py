"""What placement needs to be allowed, program by program. The chart grants exactly this."""

from __future__ import annotations

from edgewise.api.placement import GROUP
from edgewise.domain import Rights
from edgewise.kube.kinds.rbac import PolicyRule

LOOK = ("get", "list", "watch")
END = ("list", "delete")
SECRET = "edgewise-reports"  # noqa: S105 - the name of it


def rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(api_groups=[group], resources=[*resources], verbs=[*verbs])


def secret(*verbs: str) -> PolicyRule:
    return PolicyRule(
        api_groups=[""], resources=["secrets"], resource_names=[SECRET], verbs=[*verbs]
    )


OPERATOR = Rights(
    program="operator",
    cluster=(
        rule(GROUP, ("latencyplacements",), LOOK),
        rule(GROUP, ("latencyplacements/status",), ("patch",)),
        # Kubernetes asks for this before anything may hold back the deletion of its owner.
        rule(GROUP, ("latencyplacements/finalizers",), ("update",)),
        # Sentinels; and on pods of the target a deletion cost, or another owner.
        rule("", ("pods",), (*LOOK, "create", "patch", "delete")),
        rule("", ("nodes",), ("list", "watch")),
        rule("apps", ("deployments", "replicasets"), LOOK),
        # What a placement is warned of when it is written.
        rule("", ("services",), LOOK),
        rule("", ("persistentvolumeclaims",), ("get",)),
        rule("scheduling.k8s.io", ("priorityclasses",), ("get",)),
    ),
    # Where the program for reports is, and the token for what it tells.
    namespace=(secret("get"),),
)
OPERATOR_CHECKING_AUTHORS = Rights(
    program="operator",
    when=("operator.checkAuthors",),
    cluster=(rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),),
)
# It looks at what reports are about, and writes nothing but its own Secret.
REPORTS = Rights(
    program="reports",
    when=("reports.enabled",),
    cluster=(
        rule(GROUP, ("latencyplacements",), ("list", "watch")),
        rule("", ("pods", "nodes"), ("list", "watch")),
    ),
    namespace=(secret("get", "patch"), rule("", ("secrets",), ("create",))),
)
UNINSTALL_EVERYTHING = Rights(
    program="uninstall",
    when=("uninstall.hook", "!crds.keep"),
    cluster=(
        rule(GROUP, ("latencyplacements",), END),
        rule("", ("pods",), END),
    ),
)

RIGHTS = (OPERATOR, OPERATOR_CHECKING_AUTHORS, REPORTS, UNINSTALL_EVERYTHING)
