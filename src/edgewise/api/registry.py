"""Every kind that Edgewise defines: whatever in `edgewise.api` declares a `CRD`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import edgewise.api
from edgewise.api.crd import CrdSpec
from edgewise.kube.objects import Object


@cache
def kinds() -> tuple[type[Object], ...]:
    """All kinds, ordered by group and plural."""
    found = set()
    for module in pkgutil.walk_packages(edgewise.api.__path__, "edgewise.api."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Object) and _declares(value):
                found.add(value)
    return tuple(sorted(found, key=lambda kind: (kind.KIND.group, kind.KIND.plural)))


def _declares(kind: type[Object]) -> bool:
    return isinstance(kind.__dict__.get("CRD"), CrdSpec)
