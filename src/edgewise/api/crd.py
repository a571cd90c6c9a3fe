"""CustomResourceDefinitions, made from types.

A kind is an `Object` in a module of `edgewise.api`. Besides `KIND` it declares `CRD`; that
is all it takes to get a file in `deploy/crds` and to be installed:

    class SessionStatus(Record):
        phase: Literal["Pending", "Running"] | None = None
        '''How far the session has come.'''
        conditions: Annotated[list[Condition], keyed_by("type")] = []

    class SessionSpec(Record, kw_only=True):
        '''What the session should be.'''

        RULES: ClassVar = (
            Rule("self.minClients <= self.maxClients", "minClients must not be above maxClients"),
        )

        template: Annotated[str, Meta(min_length=1, max_length=63)]
        '''The SessionTemplate to start from.'''
        min_clients: Annotated[int, Meta(ge=0)] = 1
        max_clients: Annotated[int, Meta(ge=1)] = 4

    class Session(Object, kw_only=True):
        '''Pods that belong to the clients of a session.'''

        KIND: ClassVar = Kind("sessions.edgewise.dev", "v1alpha1", "Session", "sessions")
        CRD: ClassVar = CrdSpec(
            short_names=("sess",),
            columns=(
                Column("Phase", ".status.phase"),
                Column("Age", ".metadata.creationTimestamp", "date"),
            ),
        )

        spec: SessionSpec
        status: SessionStatus = field(default_factory=SessionStatus)

`edgewise.api.schema` says what becomes of each part of a type. A kind with a `status` field
gets the status subresource. Three things to know:

- A value equal to its default is left out when an object is sent. In a spec the API server
  fills it in again; a status has no defaults there, so give a status field that must always
  be seen the default None or "".
- Bounds (`max_length` on strings, lists and maps) are what keeps the estimated cost of a CEL
  rule within the API server's budget; a rule over something unbounded is refused.
- A required field after a base's defaults needs `kw_only=True` on the class.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from edgewise.api.schema import Schema, SchemaError, schema_of
from edgewise.kube.kinds.extensions import CustomResourceDefinition
from edgewise.kube.objects import Object

CATEGORY = "edgewise"


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; priority 1 shows it with `-o wide` only."""

    name: str
    json_path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    description: str = ""
    priority: int = 0


class Scale(msgspec.Struct, frozen=True):
    """The paths by which `kubectl scale` and autoscalers reach a kind."""

    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"
    label_selector_path: str = ""


class CrdSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a CRD says beyond its schema."""

    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = (CATEGORY,)
    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    # JSON paths that field selectors of lists and watches may name.
    selectable_fields: tuple[str, ...] = ()


def crd_of(kind: type[Object]) -> CustomResourceDefinition:
    """The CustomResourceDefinition of a type that declares `KIND` and `CRD`."""
    named = kind.KIND
    declared = crd_spec(kind)
    names: dict[str, Any] = {
        "kind": named.kind,
        "listKind": f"{named.kind}List",
        "plural": named.plural,
        "singular": named.kind.lower(),
    }
    if declared.short_names:
        names["shortNames"] = list(declared.short_names)
    if declared.categories:
        names["categories"] = list(declared.categories)
    return CustomResourceDefinition.named(
        f"{named.plural}.{named.group}",
        spec={
            "group": named.group,
            "scope": "Namespaced" if named.namespaced else "Cluster",
            "names": names,
            "versions": [_version(kind, declared)],
        },
    )


def crd_spec(kind: type[Object]) -> CrdSpec:
    found = getattr(kind, "CRD", None)
    if not isinstance(found, CrdSpec):
        raise SchemaError(f"{kind.__name__} declares no CRD: set `CRD: ClassVar = CrdSpec(...)`")
    return found


def _version(kind: type[Object], declared: CrdSpec) -> dict[str, Any]:
    schema = object_schema(kind)
    version: dict[str, Any] = {"name": kind.KIND.version, "served": True, "storage": True}
    if declared.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in declared.columns]
    if declared.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in declared.selectable_fields]
    subresources: dict[str, Any] = {}
    if "status" in schema["properties"]:
        subresources["status"] = {}
    if declared.scale is not None:
        subresources["scale"] = _scale(declared.scale)
    if subresources:
        version["subresources"] = subresources
    version["schema"] = {"openAPIV3Schema": schema}
    return version


def object_schema(kind: type[Object]) -> Schema:
    """The schema of a whole object; its metadata is the API server's own business."""
    schema = schema_of(kind, no_defaults_at="$.status")
    for standard in ("apiVersion", "kind"):
        schema["properties"][standard] = {"type": "string"}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def _column(column: Column) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.json_path,
    }
    if column.description:
        written["description"] = column.description
    if column.priority:
        written["priority"] = column.priority
    return written


def _scale(scale: Scale) -> dict[str, str]:
    written = {
        "specReplicasPath": scale.spec_replicas_path,
        "statusReplicasPath": scale.status_replicas_path,
    }
    if scale.label_selector_path:
        written["labelSelectorPath"] = scale.label_selector_path
    return written
