"""What slices need to be allowed."""

from __future__ import annotations

from edgewise.api.tenancy import GROUP
from edgewise.domain import Rights
from edgewise.tenancy.rights import LOOK, rule

OPERATOR = Rights(
    program="operator",
    cluster=(
        rule(GROUP, ("slices",), (*LOOK, "create", "delete")),
        rule(GROUP, ("sliceclaims",), (*LOOK, "delete")),
        rule(GROUP, ("slices/status", "sliceclaims/status"), ("patch",)),
        # A policy sees to it that only labels and taints of slices are written there.
        rule("", ("nodes",), (*LOOK, "patch")),
        # Of other tenants, on nodes of a slice.
        rule("", ("pods",), (*LOOK, "delete")),
        rule("", ("pods/eviction",), ("create",)),
    ),
)
UNINSTALL_EVERYTHING = Rights(
    program="uninstall",
    when=("uninstall.hook", "!crds.keep"),
    cluster=(rule(GROUP, ("slices", "sliceclaims"), ("list", "delete")),),
)
RIGHTS = (OPERATOR, UNINSTALL_EVERYTHING)
