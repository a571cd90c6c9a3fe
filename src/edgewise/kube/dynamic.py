"""Types for kinds that have none: open dicts below the metadata."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec

from edgewise.kube.objects import Kind, Object


@cache
def dynamic(kind: Kind, *fields: str) -> type[Object]:
    """A type for `kind` that keeps the named top-level fields as they come.

    `dynamic(Kind("rbac.authorization.k8s.io", "v1", "Role", "roles"), "rules")` has
    `.rules`; without names it has `.spec` and `.status`.
    """
    names = fields or ("spec", "status")
    made = msgspec.defstruct(
        kind.kind,
        [(name, Any, None) for name in names],
        bases=(Object,),
        namespace={"KIND": kind},
        module=__name__,
        kw_only=True,
        omit_defaults=True,
        rename="camel",
    )
    return cast(type[Object], made)
