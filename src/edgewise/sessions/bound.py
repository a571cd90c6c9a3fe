"""Bound resources: a manifest of the template, made to belong to one session or template."""

from __future__ import annotations

import copy
from typing import Any

from edgewise.api.sessions import Resource
from edgewise.sessions import names
from edgewise.sessions.shapes import mapping, metadata_problem

KINDS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "Service": "v1",
    "ConfigMap": "v1",
    "Job": "batch/v1",
}
WITH_SELECTOR = frozenset(("Deployment", "StatefulSet"))
WITH_PODS = frozenset(("Deployment", "StatefulSet", "Job"))


def bound_manifest(resource: Resource, owner: str, namespace: str) -> dict[str, Any]:
    """The object's name tells its owner (see `names.bound_name`). Selectors and pod labels are
    narrowed to the owner: two sessions of a template must never select each other's pods."""
    manifest = copy.deepcopy(resource.manifest)
    kind = str(manifest.get("kind", ""))
    manifest["apiVersion"] = KINDS.get(kind, manifest.get("apiVersion", ""))
    metadata = manifest["metadata"] = mapping(manifest.get("metadata"))
    metadata["name"] = names.bound_name(owner, resource.name, resource.scope)
    metadata["namespace"] = namespace
    mark = {names.BOUND: names.bound_label(owner, resource.scope)}
    spec = manifest.get("spec")
    if isinstance(spec, dict):
        if kind in WITH_SELECTOR:
            _merge(spec, ("selector", "matchLabels"), mark)
        if kind == "Service" and spec.get("selector"):
            _merge(spec, ("selector",), mark)
        if kind in WITH_PODS:
            _merge(spec, ("template", "metadata", "labels"), mark)
    return manifest


def complaint(resource: Resource) -> str:
    """Why a resource cannot be made; empty if nothing is wrong with it."""
    kind = resource.manifest.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        return f"kind must be one of {', '.join(KINDS)}, but is {kind!r}"
    given = resource.manifest.get("apiVersion", KINDS[kind])
    if given != KINDS[kind]:
        return f"apiVersion of a {kind} must be {KINDS[kind]}, but is {given!r}"
    if not isinstance(resource.manifest.get("spec"), dict | None):
        return "spec must be an object"
    return metadata_problem(resource.manifest.get("metadata"))


def _merge(spec: dict[str, Any], path: tuple[str, ...], labels: dict[str, str]) -> None:
    for step in path:
        inner = spec.get(step)
        if not isinstance(inner, dict):
            inner = spec[step] = {}
        spec = inner
    spec.update(labels)
